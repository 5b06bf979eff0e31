"""The log: one JSON object a line on standard error."""

from __future__ import annotations

import hashlib
import logging
import sys
from typing import Any

import structlog


def make_log(level: str) -> Any:
    """A logger; what is below *level* costs nothing."""
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        cache_logger_on_first_use=True,
    )


def digest(key: str) -> str:
    """A key as it may appear in a log: whoever has the key itself can ask for the answer."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]
