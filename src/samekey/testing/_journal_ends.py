"""The cases about leaving a name, reading, deciding by hand, and sweeping."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from samekey.journal import AsyncJournal, Entry

from ._journal_play import CLAIMED, EXECUTED, IN_FLIGHT, LONG, REJECTED, UNKNOWN, Cases, case, still

HEADERS = (("content-type", "application/json"), ("x-twice", "1"), ("x-twice", "2"), ("X-Text", 'zażółć \\ " é'))


class EndCases(Cases):
    """`record`, `get`, `entries`, `unresolved`, `resolve` and `sweep`."""

    @case
    async def test_an_answer_is_kept(self, journal: AsyncJournal) -> None:
        """To the byte, with headers in their order; the stored request goes, the owner lets go."""
        await journal.claim(self.asked(content_type="a/b", request=b"request"))
        await self._wait(self.tick)
        body = bytes(range(256)) * 4096

        assert await journal.record(self.left(EXECUTED, status=201, headers=HEADERS, body=body, resource="/r/1"))

        entry = await self.row(journal)
        assert (entry.state, entry.owner, entry.lease_left, entry.sends) == (EXECUTED, None, 0.0, 1)
        assert (entry.key, entry.fingerprint) == ("key-a", "f")
        assert (entry.status, entry.headers, entry.body) == (201, HEADERS, body)
        assert (entry.body_digest, entry.resource, entry.swept) == (None, "/r/1", False)
        assert (entry.content_type, entry.request) == (None, None)
        assert entry.age >= self.tick > entry.updated

    @case
    async def test_an_empty_body_is_a_body(self, journal: AsyncJournal) -> None:
        """None is not kept, empty is kept; a digest may stand in its place."""
        await self.ended(journal, EXECUTED, status=204, body=b"")
        await self.ended(journal, REJECTED, status=402, body_digest="d", name="order-2")

        assert (await self.row(journal)).body == b""
        entry = await self.row(journal, "order-2")
        assert (entry.state, entry.status, entry.body, entry.body_digest) == (REJECTED, 402, None, "d")
        assert entry.headers == ()

    @case
    async def test_unknown_keeps_the_request(self, journal: AsyncJournal) -> None:
        """Whoever takes the name up sends the stored bytes; a refusal then drops them."""
        await journal.claim(self.asked(content_type="a/b", request=b"request"))
        assert await journal.record(self.left(UNKNOWN))

        entry = await self.row(journal)
        assert (entry.state, entry.owner, entry.sends, entry.lease_left) == (UNKNOWN, None, 1, 0.0)
        assert (entry.content_type, entry.request) == ("a/b", b"request")
        assert (await journal.claim(self.asked("b"))).request == b"request"
        assert await journal.record(self.left(REJECTED, "b", status=402))
        entry = await self.row(journal)
        assert (entry.content_type, entry.request) == (None, None)

    @case
    async def test_turned_away_takes_the_send_back(self, journal: AsyncJournal) -> None:
        """With no send left the age starts again; with an earlier one it goes on."""
        await journal.claim(self.asked(request=b"r"))
        await self._wait(2 * self.tick)
        assert await journal.record(self.left(CLAIMED))
        entry = await self.row(journal)
        assert (entry.state, entry.owner, entry.sends, entry.age) == (CLAIMED, None, 0, 0.0)
        assert entry.request == b"r"

        await journal.claim(self.asked("b"))
        assert await journal.record(self.left(UNKNOWN, "b"))
        await self._wait(2 * self.tick)
        assert (await journal.claim(self.asked("c"))).sends == 2
        assert await journal.record(self.left(CLAIMED, "c"))
        entry = await self.row(journal)
        assert (entry.state, entry.key, entry.sends) == (CLAIMED, "key-a", 1)
        assert entry.age >= 2 * self.tick

    @case
    async def test_only_the_owner_records(self, journal: AsyncJournal) -> None:
        """A stranger, another scope, a name that is not there: False, and nothing changes."""
        before = await journal.claim(self.asked())

        assert not await journal.record(self.left(EXECUTED, "b", status=200))
        assert not await journal.record(self.left(EXECUTED, scope="tenant", status=200))
        assert not await journal.record(self.left(EXECUTED, name="order-2", status=200))
        assert still(await self.row(journal)) == still(before)
        assert await journal.get("", "order-2") is None

    @case
    async def test_an_end_is_not_recorded_over(self, journal: AsyncJournal) -> None:
        """Who has let go of the name cannot change its mind."""
        await self.ended(journal, EXECUTED, status=200, body=b"first")

        assert not await journal.record(self.left(UNKNOWN))
        assert not await journal.record(self.left(REJECTED, status=402))
        assert (await self.row(journal)).body == b"first"

    @case
    async def test_an_owner_records_after_its_lease(self, journal: AsyncJournal) -> None:
        """As long as nobody took the name, an answer that came late is kept."""
        await journal.claim(self.asked(ticks=1))
        await self._wait(2 * self.tick)

        assert await journal.record(self.left(EXECUTED, status=200))

    @case
    async def test_what_is_not_there(self, journal: AsyncJournal) -> None:
        """An empty journal answers, too."""
        assert await journal.get("", "order-1") is None
        assert await journal.entries() == []
        assert await journal.unresolved() == []
        assert await journal.sweep(older_than=0) == 0

    async def _five(self, journal: AsyncJournal) -> None:
        for number, state in enumerate((EXECUTED, REJECTED, UNKNOWN, CLAIMED)):
            await self.ended(journal, state, name=state.value, status=200 + number, body=b"x")
            await self._wait(self.tick / 20)
        await journal.claim(self.asked(name="in_flight", ticks=2))

    async def _names(self, listing: Awaitable[list[Entry]]) -> list[str]:
        return [entry.name for entry in await listing]

    @case
    async def test_listing(self, journal: AsyncJournal) -> None:
        """By state and by age since the last write, oldest first, so many at most, from every scope."""
        await self._five(journal)
        await self._wait(2 * self.tick)
        await journal.claim(self.asked(name="new", scope="tenant"))
        old = ["executed", "rejected", "unknown", "claimed", "in_flight"]

        assert await self._names(journal.entries()) == [*old, "new"]
        assert await self._names(journal.entries(older_than=self.tick)) == old
        assert await self._names(journal.entries(limit=2)) == old[:2]
        assert await self._names(journal.entries(limit=0)) == []
        assert await self._names(journal.entries(states=[UNKNOWN, EXECUTED])) == ["executed", "unknown"]
        assert await self._names(journal.entries(states=[IN_FLIGHT], older_than=self.tick)) == ["in_flight"]
        assert (await journal.entries(limit=1))[0].body == b"x"

    @case
    async def test_listing_what_is_unresolved(self, journal: AsyncJournal) -> None:
        """Nobody is at it, and nobody knows its end."""
        await self._five(journal)
        assert await self._names(journal.unresolved()) == ["unknown"]

        await self._wait(3 * self.tick)
        await self.ended(journal, UNKNOWN, name="new")
        assert await self._names(journal.unresolved()) == ["unknown", "in_flight", "new"]
        assert await self._names(journal.unresolved(older_than=self.tick)) == ["unknown", "in_flight"]
        assert await self._names(journal.unresolved(limit=1)) == ["unknown"]

    @case
    async def test_resolving_as_executed(self, journal: AsyncJournal) -> None:
        """The row says what was made and has no answer; nobody gets the name again."""
        await journal.claim(self.asked(request=b"r", scope=journal.scope))
        await journal.record(self.left(UNKNOWN, scope=journal.scope, status=503, headers=(("a", "b"),), body=b"x"))

        entry = await journal.resolve("order-1", executed=True, resource="/r/1")

        assert (entry.state, entry.owner, entry.key, entry.sends) == (EXECUTED, None, "key-a", 1)
        assert (entry.status, entry.headers, entry.body, entry.resource) == (None, (), None, "/r/1")
        assert (entry.request, entry.content_type) == (None, None)
        assert still(entry) == still(await self.row(journal, scope=journal.scope))
        await self.refused(journal, self.asked("b", scope=journal.scope, retry_rejected=True))

    @case
    async def test_resolving_keeps_a_known_resource(self, journal: AsyncJournal) -> None:
        """What was made is forgotten only if it was not made."""
        for name, executed, resource in (("order-1", True, "/r/1"), ("order-2", False, None)):
            await self.ended(journal, UNKNOWN, name=name, resource="/r/1")
            assert (await journal.resolve(name, scope="", executed=executed)).resource == resource

    @case
    async def test_resolving_as_not_executed(self, journal: AsyncJournal) -> None:
        """The row says so by a refusal without a status."""
        await self.ended(journal, UNKNOWN, status=503)

        entry = await journal.resolve("order-1", scope="", executed=False)

        assert (entry.state, entry.status, entry.resource) == (REJECTED, None, None)

    @case
    async def test_resolving_what_nobody_is_at(self, journal: AsyncJournal) -> None:
        """A lease that has run out, and a name that was only claimed, can be decided; the owner has lost it then."""
        await journal.claim(self.asked(ticks=1))
        await self.ended(journal, CLAIMED, name="order-2")
        await self._wait(2 * self.tick)

        assert (await journal.resolve("order-1", scope="", executed=True)).state is EXECUTED
        assert (await journal.resolve("order-2", scope="", executed=False)).state is REJECTED
        assert not await journal.renew("", "order-1", "a", LONG * self.tick)
        assert not await journal.record(self.left(REJECTED, status=402))
        assert (await self.row(journal)).state is EXECUTED

    async def _raises(self, error: type[Exception], step: Callable[[], Awaitable[object]]) -> None:
        try:
            await step()
        except error:
            return
        raise AssertionError(f"no {error.__name__} was raised")

    async def _unresolvable(self, journal: AsyncJournal, error: type[Exception]) -> None:
        for executed in (True, False):
            await self._raises(error, partial(journal.resolve, "order-1", executed=executed, scope=""))

    @case
    async def test_resolving_what_is_not_there(self, journal: AsyncJournal) -> None:
        """A slip of the pen is told."""
        await journal.claim(self.asked(scope="tenant"))

        await self._unresolvable(journal, KeyError)

    @case
    async def test_resolving_under_a_live_lease(self, journal: AsyncJournal) -> None:
        """Somebody is at it."""
        before = await journal.claim(self.asked())

        await self._unresolvable(journal, ValueError)
        assert still(await self.row(journal)) == still(before)

    @case
    async def test_resolving_what_has_ended(self, journal: AsyncJournal) -> None:
        """What was answered is not decided by hand."""
        for state, status in ((REJECTED, 402), (EXECUTED, 200)):
            await journal.claim(self.asked("b", retry_rejected=True))
            assert await journal.record(self.left(state, "b", status=status))
            await self._unresolvable(journal, ValueError)
            assert (await self.row(journal)).status == status

    @case
    async def test_sweeping_leaves_a_tombstone(self, journal: AsyncJournal) -> None:
        """Headers and bodies go; what tells the outcome stays."""
        await self.ended(journal, EXECUTED, status=201, headers=HEADERS, body=b"x", resource="/r/1")
        await self._wait(2 * self.tick)
        await self.ended(journal, EXECUTED, name="new", body=b"x")

        assert await journal.sweep(older_than=self.tick) == 1

        entry = await self.row(journal)
        assert (entry.key, entry.fingerprint, entry.state) == ("key-a", "f", EXECUTED)
        assert (entry.status, entry.resource, entry.swept) == (201, "/r/1", True)
        assert (entry.headers, entry.body) == ((), None)
        new = await self.row(journal, "new")
        assert (new.body, new.swept) == (b"x", False)
        await self.refused(journal, self.asked("b"))
        assert await journal.sweep(older_than=self.tick) == 0

    @case
    async def test_sweeping_is_for_what_has_ended(self, journal: AsyncJournal) -> None:
        """What is open keeps everything, however old it is."""
        await self._five(journal)
        await self._wait(3 * self.tick)

        assert await journal.sweep(older_than=0, limit=1) == 1
        assert (await self.row(journal, "executed")).swept
        assert await journal.sweep(older_than=0) == 1
        assert {entry.name for entry in await journal.entries() if entry.swept} == {"executed", "rejected"}
        assert (await self.row(journal, "unknown")).body == b"x"

    @case
    async def test_settings_of_a_listing_are_checked(self, journal: AsyncJournal) -> None:
        """A negative age or a negative number of rows is a ValueError, not an empty list."""
        for listing in (
            partial(journal.entries, older_than=-1),
            partial(journal.entries, limit=-1),
            partial(journal.unresolved, older_than=-1),
            partial(journal.sweep, older_than=-1),
        ):
            await self._raises(ValueError, listing)
