"""How the two source articles' servers word their answers about a key."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ._records import Reply


@dataclass(frozen=True, slots=True)
class Flavour:
    """The answers about a key, and the header that marks a replay."""

    mismatch: Reply
    in_progress: Reply
    key_missing: Reply
    replay_header: str

    def running(self, status: int | None = None, retry_after: float | None = None) -> Reply:
        """The "in progress" answer, with another status or hint if given."""
        base = self.in_progress
        headers = base.headers
        if retry_after is not None:
            headers = (
                *(pair for pair in headers if pair[0] != "Retry-After"),
                ("Retry-After", f"{retry_after:.15g}"),
            )
        return Reply(base.status if status is None else status, headers, base.body)

    def adjusted(self, status: int | None, retry_after: float | None) -> Flavour:
        """The same flavour with another "in progress" answer."""
        return replace(self, in_progress=self.running(status, retry_after))

    def replayed(self, stored: Reply) -> Reply:
        """*stored* with the replay marker."""
        return stored.with_header(self.replay_header, "true")


FLAVOURS = {
    "article-1": Flavour(
        mismatch=Reply.of_json(422, {"error": "Idempotency-Key reused with a different request body"}),
        in_progress=Reply.of_json(409, {"error": "A request with this key is still being processed"}),
        key_missing=Reply.of_json(400, {"error": "Idempotency-Key header is required"}),
        replay_header="Idempotent-Replayed",
    ),
    "article-2": Flavour(
        mismatch=Reply.of_json(409, {"error": "Key reused with different payload"}),
        in_progress=Reply.of_json(202, {"error": "Request already in progress"}, {"Retry-After": "1"}),
        key_missing=Reply.of_json(400, {"error": "Missing Idempotency-Key"}),
        replay_header="Idempotent-Replay",
    ),
}
