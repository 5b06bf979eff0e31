"""Dialects that are nobody's own: the default, and the published standards."""

from __future__ import annotations

from samekey.dialects._carriers import Header, RepeatabilityHeaders
from samekey.dialects._dialect import Dialect
from samekey.dialects._keyrule import KeyRule

_DAY = 24 * 3600.0

GENERIC = Dialect(name="generic", retention=_DAY, inspect_2xx=True)
"""
The default: a server of which only the header `Idempotency-Key` is known.

Source: what public APIs have in common. Confidence: it promises little. Retention: 24 hours, the commonest figure, kept
on the safe side by a margin of 5 minutes. Of a 2xx body only a machine code that names the key counts, so that a
GraphQL error is not taken for done. Cannot tell: an empty 409 from a running request; what the server stores; whether
"already done" may be believed, so that answer ends as an unknown outcome.
"""


IETF_DRAFT = Dialect(name="ietf-draft", carrier=Header(quoted=True))
"""
draft-ietf-httpapi-idempotency-key-header: the key as a quoted string.

Source: revisions -06 and -07 (2025) of the draft. Confidence: high for the header and the three key errors, which it
gives by title or by a `Link` alone. Retention: left to each server, so unknown. The The draft asks to replay errors as
well but leaves which to the resource. Few servers take the quotes; try `GENERIC` first. Cannot tell: a replay, which
has no marker; what is stored; whether a mismatch is noticed, as the fingerprint is optional.
"""


AZURE_REPEATABILITY = Dialect(
    name="azure-repeatability",
    carrier=RepeatabilityHeaders(),
    methods=frozenset({"POST", "PUT", "PATCH", "DELETE"}),
    retention=5 * 60.0,
    margin=60.0,
    stores=frozenset({"2xx", "4xx"}),
    reexecutes_failed=True,
    detects_mismatch=True,
)
"""
Azure services with OASIS Repeatable Requests 1.0, such as Communication Services.

Source: learn.microsoft.com (repeatable requests), the OASIS text. Confidence: high for the headers and for the
answers of Communication Services. Retention: 5 minutes, the least that the standard allows, with a margin of one
minute. `Repeatability-Result` tells rejected from accepted; 2xx and 4xx are replayed, a 5xx is executed again; 501
means that the service does not support it. Cannot tell: a replay, since accepted stands on first answers too.
"""


UK_OPEN_BANKING = Dialect(
    name="uk-open-banking",
    carrier=Header(name="x-idempotency-key"),
    methods=frozenset({"POST"}),
    key=KeyRule(max_length=40),
    retention=_DAY,
    min_wait=1.0,
)
"""
UK Open Banking, read/write API: the POSTs that the standard marks as idempotent, and no others.

Source: the standard's repository (v3.1, v4.0). Confidence: high. Retention: 24 hours. A repeat gets 201 with the
*present* status; repeats must be a second apart and are not for polling. Cannot tell: a replay; a running request; a
mismatch, which must not change the resource and may be treated as fraud: only the local fingerprint protects.
"""
