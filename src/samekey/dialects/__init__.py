"""How APIs speak idempotency: `Dialect` to describe one, and presets for those that are well documented."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samekey._model import Answer, Reading
from samekey.dialects._carriers import Carrier, Header, JsonField, RepeatabilityHeaders
from samekey.dialects._classify import classify
from samekey.dialects._dialect import Dialect
from samekey.dialects._keyrule import KeyRule
from samekey.dialects._rules import ReplayMarker, RetryHint, Rule
from samekey.dialects._standards import AZURE_REPEATABILITY, GENERIC, IETF_DRAFT, UK_OPEN_BANKING

if TYPE_CHECKING:
    from samekey.dialects._presets import (
        ADYEN,
        CHECKOUT_COM,
        CIRCLE,
        COINBASE_CDP,
        DWOLLA,
        GOCARDLESS,
        INCREASE,
        MODERN_TREASURY,
        MOLLIE,
        PAYPAL,
        RESEND,
        SHOPIFY,
        SQUARE,
        STRIPE,
        STRIPE_V2,
    )

__all__ = [
    "ADYEN",
    "AZURE_REPEATABILITY",
    "CHECKOUT_COM",
    "CIRCLE",
    "COINBASE_CDP",
    "DWOLLA",
    "GENERIC",
    "GOCARDLESS",
    "IETF_DRAFT",
    "INCREASE",
    "MODERN_TREASURY",
    "MOLLIE",
    "PAYPAL",
    "RESEND",
    "SHOPIFY",
    "SQUARE",
    "STRIPE",
    "STRIPE_V2",
    "UK_OPEN_BANKING",
    "Answer",
    "Carrier",
    "Dialect",
    "Header",
    "JsonField",
    "KeyRule",
    "Reading",
    "RepeatabilityHeaders",
    "ReplayMarker",
    "RetryHint",
    "Rule",
    "classify",
]


def __getattr__(name: str) -> Dialect:
    """Load the presets with the first that is asked for: most programs need one or none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from samekey.dialects import _presets

    preset: Dialect = getattr(_presets, name)
    return preset
