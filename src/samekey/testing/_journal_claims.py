"""The cases about taking a name: who is granted it, and what the row is then."""

from __future__ import annotations

from samekey.journal import AsyncJournal

from ._journal_play import CLAIMED, EXECUTED, IN_FLIGHT, LONG, REJECTED, UNKNOWN, Cases, case, still


class ClaimCases(Cases):
    """`Journal.claim` and `Journal.renew`."""

    @case
    async def test_a_journal_has_its_settings(self, journal: AsyncJournal) -> None:
        """The scope for names without one, and whether bodies are kept."""
        assert isinstance(journal.scope, str)
        assert isinstance(journal.store_body, bool)

    @case
    async def test_a_new_name_is_granted(self, journal: AsyncJournal) -> None:
        """The row is made with the claim's key, and the claim holds it."""
        entry = await journal.claim(self.asked(scope="tenant", content_type="a/b", request=b"\x00\xff"))

        assert (entry.scope, entry.name, entry.key, entry.fingerprint) == ("tenant", "order-1", "key-a", "f")
        assert (entry.state, entry.owner, entry.sends) == (IN_FLIGHT, "a", 1)
        assert (entry.content_type, entry.request) == ("a/b", b"\x00\xff")
        assert (entry.status, entry.headers, entry.body, entry.body_digest) == (None, (), None, None)
        assert (entry.resource, entry.swept) == (None, False)
        assert (LONG - 1) * self.tick < entry.lease_left <= LONG * self.tick
        assert 0 <= entry.age < self.tick
        assert 0 <= entry.updated < self.tick
        assert still(entry) == still(await self.row(journal, scope="tenant"))

    @case
    async def test_scopes_are_apart(self, journal: AsyncJournal) -> None:
        """The same name in two scopes is two operations."""
        for owner, scope in (("a", ""), ("b", "tenant"), ("c", "Tenant")):
            assert (await journal.claim(self.asked(owner, scope=scope))).key == f"key-{owner}"
        assert (await self.row(journal, scope="tenant")).owner == "b"

    @case
    async def test_names_are_any_text(self, journal: AsyncJournal) -> None:
        """Quotes, wildcards, other scripts: a name is what it is."""
        names = [
            "it's",
            'a"b',
            "50%",
            "a_b",
            ":name",
            "%(name)s",
            "{name}",
            "zażółć 订单 🧾",
            "a\nb",
            " ",
            "N",
            "n",
            "x" * 900,
        ]
        for name in names:
            assert (await journal.claim(self.asked(name, name=name))).owner == name
        for name in names:
            assert (await self.row(journal, name)).name == name

    @case
    async def test_a_held_name_is_refused(self, journal: AsyncJournal) -> None:
        """While the lease runs nobody else gets the name, whatever is asked."""
        await journal.claim(self.asked())
        await self._wait(self.tick)

        await self.refused(journal, self.asked("b"))
        await self.refused(journal, self.asked("b", fingerprint="other", retry_rejected=True))

    @case
    async def test_ones_own_claim_is_recognised(self, journal: AsyncJournal) -> None:
        """A claim that was committed and then reported an error is granted again, and counted once."""
        first = await journal.claim(self.asked(ticks=1, request=b"r"))
        await self._wait(2 * self.tick)
        again = await journal.claim(self.asked(request=b"r"))

        assert still(again) == still(first)
        assert again.age >= 2 * self.tick
        assert again.lease_left > (LONG - 1) * self.tick

    @case
    async def test_a_lease_runs_out(self, journal: AsyncJournal) -> None:
        """Then the same request takes over: same key, same stored request, one more send, the age goes on."""
        await journal.claim(self.asked(ticks=1, content_type="a/b", request=b"first"))
        await self._wait(2 * self.tick)
        assert (await self.row(journal)).lease_left < 0
        await self.refused(journal, self.asked("b", fingerprint="other", retry_rejected=True))

        entry = await journal.claim(self.asked("b", content_type="c/d", request=b"second"))

        assert (entry.key, entry.state, entry.owner, entry.sends) == ("key-a", IN_FLIGHT, "b", 2)
        assert (entry.content_type, entry.request) == ("a/b", b"first")
        assert entry.lease_left > (LONG - 1) * self.tick
        assert entry.age >= 2 * self.tick
        assert entry.updated < self.tick

    @case
    async def test_an_owner_that_woke_too_late(self, journal: AsyncJournal) -> None:
        """After a takeover the former owner can neither renew nor record, and its claim is a stranger's."""
        await journal.claim(self.asked(ticks=1))
        await self._wait(2 * self.tick)
        before = await journal.claim(self.asked("b"))

        assert not await journal.renew("", "order-1", "a", LONG * self.tick)
        assert not await journal.record(self.left(EXECUTED, status=200, body=b"late"))
        await self.refused(journal, self.asked())
        assert still(await self.row(journal)) == still(before)

    @case
    async def test_renewing(self, journal: AsyncJournal) -> None:
        """The lease runs from now, also if it had run out and nobody took the name; nothing else changes."""
        before = await journal.claim(self.asked(ticks=1))
        await self._wait(2 * self.tick)

        assert await journal.renew("", "order-1", "a", LONG * self.tick)

        entry = await self.row(journal)
        assert still(entry) == still(before)
        assert (LONG - 1) * self.tick < entry.lease_left <= LONG * self.tick
        assert entry.age >= 2 * self.tick
        await self.refused(journal, self.asked("b"))

    @case
    async def test_only_the_owner_renews(self, journal: AsyncJournal) -> None:
        """Not a stranger, not under another scope, not a name that is not there, not after the end."""
        await journal.claim(self.asked())

        assert not await journal.renew("", "order-1", "b", LONG * self.tick)
        assert not await journal.renew("tenant", "order-1", "a", LONG * self.tick)
        assert not await journal.renew("", "order-2", "a", LONG * self.tick)
        assert await journal.record(self.left(UNKNOWN))
        assert not await journal.renew("", "order-1", "a", LONG * self.tick)
        assert (await self.row(journal)).state is UNKNOWN

    @case
    async def test_an_unknown_name_is_taken_up(self, journal: AsyncJournal) -> None:
        """By the same request only: same key, one more send."""
        await self.ended(journal, UNKNOWN)
        await self.refused(journal, self.asked("b", fingerprint="other", retry_rejected=True))
        await self._wait(self.tick)

        entry = await journal.claim(self.asked("b"))

        assert (entry.key, entry.owner, entry.sends, entry.state) == ("key-a", "b", 2, IN_FLIGHT)
        assert entry.age >= self.tick

    @case
    async def test_a_free_name_is_taken_up(self, journal: AsyncJournal) -> None:
        """A name that never got through the door keeps its key and its request, but has no age."""
        await self.ended(journal, CLAIMED)
        await self.refused(journal, self.asked("b", fingerprint="other", retry_rejected=True))
        await self._wait(2 * self.tick)

        entry = await journal.claim(self.asked("b", request=b"r", content_type="a/b"))

        assert (entry.key, entry.owner, entry.sends) == ("key-a", "b", 1)
        assert (entry.request, entry.content_type) == (b"r", "a/b")
        assert entry.age < 2 * self.tick

    @case
    async def test_executed_is_for_ever(self, journal: AsyncJournal) -> None:
        """No claim gets a name that was executed."""
        await self.ended(journal, EXECUTED, status=201, body=b"{}")

        for claim in (self.asked("b"), self.asked("b", fingerprint="other"), self.asked("b", retry_rejected=True)):
            await self.refused(journal, claim)

    @case
    async def test_a_refusal_stands(self, journal: AsyncJournal) -> None:
        """The same request does not get a name that was refused."""
        await self.ended(journal, REJECTED, status=402, body=b"declined")

        await self.refused(journal, self.asked("b"))

    async def _anew(self, journal: AsyncJournal, fingerprint: str, *, retry_rejected: bool = False) -> None:
        await self._wait(2 * self.tick)
        claim = self.asked(
            "b", fingerprint=fingerprint, retry_rejected=retry_rejected, content_type="c/d", request=b"new"
        )

        entry = await journal.claim(claim)

        assert (entry.key, entry.fingerprint, entry.owner) == ("key-b", fingerprint, "b")
        assert (entry.state, entry.sends) == (IN_FLIGHT, 1)
        assert (entry.content_type, entry.request) == ("c/d", b"new")
        assert (entry.status, entry.headers, entry.body, entry.body_digest) == (None, (), None, None)
        assert (entry.resource, entry.swept) == (None, False)
        assert entry.age < 2 * self.tick

    @case
    async def test_a_corrected_request_starts_anew(self, journal: AsyncJournal) -> None:
        """After a refusal another request is another operation, with a key of its own."""
        await self.ended(
            journal, REJECTED, status=402, headers=(("a", "b"),), body=b"no", body_digest="d", resource="/r"
        )
        assert await journal.sweep(older_than=0) == 1
        await self._anew(journal, "other")

    @case
    async def test_a_refusal_can_be_retried(self, journal: AsyncJournal) -> None:
        """On demand the same request starts anew after a refusal."""
        await self.ended(journal, REJECTED, status=402)
        await self._anew(journal, "f", retry_rejected=True)

    @case
    async def test_resolved_as_not_executed_starts_anew(self, journal: AsyncJournal) -> None:
        """A refusal by hand leaves the name to the same request, with a new key."""
        await self.ended(journal, UNKNOWN)
        await journal.resolve("order-1", scope="", executed=False)
        await self._anew(journal, "f")

    @case
    async def test_one_winner(self, journal: AsyncJournal) -> None:
        """Of those who claim at once, one gets the name; the others see whom it went to."""
        owners = [f"owner-{number}" for number in range(8)]
        entries = await self._race(journal, [self.asked(owner) for owner in owners])

        (winner,) = {entry.owner for entry in entries}
        assert winner in owners
        assert {(entry.key, entry.sends) for entry in entries} == {(f"key-{winner}", 1)}

    @case
    async def test_one_takes_over(self, journal: AsyncJournal) -> None:
        """Of those who want to take over, one does."""
        await journal.claim(self.asked(ticks=1))
        await self._wait(2 * self.tick)
        entries = await self._race(journal, [self.asked(f"owner-{number}") for number in range(8)])

        assert len({entry.owner for entry in entries}) == 1
        assert {(entry.key, entry.sends) for entry in entries} == {("key-a", 2)}
