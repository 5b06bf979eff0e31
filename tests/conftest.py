"""What every test shares: the two event loops, and the two Hypothesis profiles."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Both stay random on purpose: a failure prints the blob that repeats it.
settings.register_profile("ci", deadline=None, print_blob=True, max_examples=200)
settings.register_profile("dev", deadline=None, print_blob=True, max_examples=50)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run an async test on asyncio and on trio."""
    return str(request.param)
