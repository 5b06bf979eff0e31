"""Answers of real servers, collected with their sources in `contract_vectors.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from samekey import dialects
from samekey._model import Answer, Reading, Verdict
from samekey.dialects import GENERIC, Dialect, classify

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "contract_vectors.json").read_text("utf-8"))

# The words of the collection where they are not our own.
VERDICTS = {
    "key_mismatch": Verdict.MISMATCH,
    "key_invalid": Verdict.KEY_REFUSED,
    "validation": Verdict.REFUSED,
    # "Maybe running, maybe our own success": the decision polls a bare conflict when something is open.
    "conflict_unknown": Verdict.CONFLICT,
    # Adyen's 704 without `transient-error`: final, and the server does not say whether it is done. The verdict that
    # ends as an unknown outcome at once is "already done" by a dialect that does not believe it.
    "outcome_unknown": Verdict.ALREADY_DONE,
}

PRESETS: dict[str, Dialect] = {
    "article-1": GENERIC,
    "article-2": GENERIC,
    "generic": GENERIC,
    "ietf-draft": dialects.IETF_DRAFT,
    "stripe-v1": dialects.STRIPE,
    "stripe-v2": dialects.STRIPE_V2,
    "adyen": dialects.ADYEN,
    "paypal": dialects.PAYPAL,
    "square": dialects.SQUARE,
    "shopify": dialects.SHOPIFY,
    "checkout.com": dialects.CHECKOUT_COM,
    "mollie": dialects.MOLLIE,
    "gocardless": dialects.GOCARDLESS,
    "modern-treasury": dialects.MODERN_TREASURY,
    "dwolla": dialects.DWOLLA,
    "circle": dialects.CIRCLE,
    "coinbase": dialects.COINBASE_CDP,
    "increase": dialects.INCREASE,
    "resend": dialects.RESEND,
    "azure-acs": dialects.AZURE_REPEATABILITY,
    "openbanking-uk": dialects.UK_OPEN_BANKING,
}


def read(vector: dict[str, Any], dialect: Dialect) -> Reading:
    """The reading of one vector: every key is fresh, and attempt 2 follows one that may have been executed."""
    body = vector["body"]
    answer = Answer(
        vector["status"],
        tuple((name.lower(), value) for name, value in vector["headers"].items()),
        body.encode() if isinstance(body, str) else json.dumps(body).encode(),
    )
    return classify(answer, dialect, fresh=True, repeat=vector["attempt"] > 1)


def title(vector: dict[str, Any]) -> str:
    """An id that finds the vector again."""
    return f"{VECTORS.index(vector)}-{vector['provider']}-{vector['situation']}-{vector['status']}"


every_vector = pytest.mark.parametrize("vector", VECTORS, ids=title)


@every_vector
def test_generic_reads_the_vector(vector: dict[str, Any]) -> None:
    """Without any knowledge of the API, the general reading comes to the expected verdict."""
    expected = VERDICTS.get(vector["generic_expected"], vector["generic_expected"])

    assert read(vector, GENERIC).verdict == expected


def test_generic_does_not_believe_already_done() -> None:
    """The design is stricter than the vectors: under the default "already done" stays an unknown outcome."""
    assert {vector["generic_expected"] for vector in VECTORS} >= {"already_done"}
    assert not GENERIC.believe_done


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector["provider"] in PRESETS], ids=title)
def test_preset_reads_the_vector(vector: dict[str, Any]) -> None:
    """The preset of the API comes to the verdict that the API means."""
    expected = VERDICTS.get(vector["dialect_expected"], vector["dialect_expected"])

    assert read(vector, PRESETS[vector["provider"]]).verdict == expected


@every_vector
def test_only_marked_replays_count_as_replays(vector: dict[str, Any]) -> None:
    """`replayed` follows the value of a marker, never the echo of the key."""
    headers = {name.lower(): value for name, value in vector["headers"].items()}
    marks = [value for name, value in headers.items() if "replay" in name]
    expected = marks[0] == "true" if marks else None

    assert read(vector, GENERIC).replayed is expected


@every_vector
def test_every_vector_tells_its_source(vector: dict[str, Any]) -> None:
    """A vector without provenance is an invention."""
    assert vector["source"]
    assert vector["confidence"] in {"high", "medium", "low"}


def find(provider: str, situation: str, status: int) -> dict[str, Any]:
    """The first vector of this kind."""
    return next(
        vector
        for vector in VECTORS
        if (vector["provider"], vector["situation"], vector["status"]) == (provider, situation, status)
    )


def test_gocardless_names_the_resource() -> None:
    """The success that comes as a conflict leads to what was created, and this preset believes it."""
    reading = read(find("gocardless", "replay", 409), dialects.GOCARDLESS)

    assert reading.resource == "PM00001078ZJJN"
    assert dialects.GOCARDLESS.believe_done


def test_increase_waits_as_long_as_the_body_says() -> None:
    """The delay of a 429 is in the body."""
    assert read(find("increase", "rate_limit", 429), dialects.INCREASE).delay == 3.0


def test_stripe_says_whether_to_retry() -> None:
    """The hint of the server is handed on, in both directions."""
    assert read(find("stripe-v1", "stored_error", 500), dialects.STRIPE).should_retry is False
    assert read(VECTORS[14], dialects.STRIPE).should_retry is True


def test_adyen_without_its_header_asks_not_to_retry() -> None:
    """An error of Adyen that lacks `transient-error` is not to be repeated; its presence asks for the same key."""
    assert read(VECTORS[26], dialects.ADYEN).should_retry is False
    assert read(VECTORS[25], dialects.ADYEN).should_retry is True


def test_every_preset_has_its_vectors_or_is_listed() -> None:
    """No preset goes untested."""
    presets = {name for name in dialects.__all__ if name.isupper()}

    assert {id(preset) for preset in PRESETS.values()} == {id(getattr(dialects, name)) for name in presets}
