"""Every crash point of a named operation, on the pure core: stop after each command, resume in a new process.

A process is a generator that pauses before and after every command. Dropping it is a kill; going on with it later is a
suspension. There is no I/O: the journal is in memory, the server a few lines, the clock a number.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import count, product
from typing import Any

import pytest

from samekey._decide import Again, Facts, Raise, Reraise
from samekey._holding import Holding
from samekey._model import Failure, Outcome, Reading, Verdict
from samekey._named_exchange import NamedExchange
from samekey._state import KeyState
from samekey._steps import CLAIM, RENEW, SEND, Claim, Recall, Record, Renew, Send, Step, Wait
from samekey.journal import Claim as ClaimRow
from samekey.journal import Ended, MemoryJournal, RowState

LEASE, TOTAL, TRIES = 75.0, 60.0, 3
RETENTION = 3600.0
REPLIES = ("ok", "lost", "drop", "503", "402")
"""What a request meets: done; done and the answer lost; lost on the way; broken before it was done; refused."""
SCRIPTS = [script for length in (1, 2, 3) for script in product(REPLIES, repeat=length)]


class World:
    """A clock, a journal, and a server that executes a key at most once."""

    def __init__(self, script: tuple[str, ...]) -> None:
        self.now = 1000.0
        self.journal = MemoryJournal(clock=lambda: self.now)
        self.script = list(script)
        self.requests: list[tuple[str, bytes]] = []
        self.effects = 0
        self.stored: dict[str, int] = {}
        self.numbers = count(1)

    def process(self) -> Process:
        return Process(self, f"process-{next(self.numbers)}")

    def serve(self, key: str, body: bytes) -> int | None:
        """The status of the answer; None if it does not get through."""
        self.requests.append((key, body))
        reply = self.script.pop(0) if self.script else "ok"
        if reply == "drop":
            return None
        if key not in self.stored:
            if reply == "503":
                return 503
            self.stored[key] = 402 if reply == "402" else 201
            self.effects += self.stored[key] == 201
        return None if reply == "lost" else self.stored[key]

    def check(self) -> None:
        """What must hold at every moment."""
        assert self.effects <= 1, "executed twice"
        assert len(set(self.requests)) <= 1, "another key or other bytes"


class Process:
    """One call of the operation "job", as a driver makes it."""

    def __init__(self, world: World, owner: str) -> None:
        self.world = world
        self.state = KeyState(f"key of {owner}", made_here=True, name="job")
        self.holding = Holding(owner, LEASE, None)
        self.holding.fingerprint = "f"
        self.exchange = NamedExchange(self.state, self.holding, retry=True)
        self.ending: Any = None
        self.tries = 0

    @property
    def outcome(self) -> Outcome | None:
        return self.exchange.report(self.world.now).outcome

    def run(self) -> Generator[str, None, None]:
        """Pause before and after everything that the world can see."""
        world, exchange = self.world, self.exchange
        exchange.start(world.now, TOTAL)
        step: Step = exchange.first_step()
        while True:
            if isinstance(step, Claim | Renew | Record):
                yield f"before {type(step).__name__.lower()}"
                step = yield from self.write(step)
            elif isinstance(step, Send):
                yield "before send"
                step = RENEW if self.holding.stale(world.now, world.now) else (yield from self.send())
            elif isinstance(step, Again):
                step = exchange.paced(
                    step, world.now, stopped=self.tries >= TRIES, backoff=1.0, longest_floor=60.0, least=0.0
                )
            elif isinstance(step, Wait):
                world.now += step.seconds
                yield "waited"
                step = self.age() or exchange.next_step()
            else:
                self.ending = step
                return

    def age(self) -> Step | None:
        return self.exchange.check_age(RETENTION, self.state.age(self.world.now, self.world.now))

    def write(self, step: Claim | Renew | Record) -> Generator[str, None, Step]:
        world, holding, journal = self.world, self.holding, self.world.journal
        holding.asks(world.now, world.now)
        if isinstance(step, Claim):
            entry = journal.claim(
                ClaimRow(scope="", name="job", key=self.state.key, fingerprint="f", owner=holding.owner, lease=LEASE)
            )
            yield "after claim"
            self.state.key = entry.key
            if entry.owner != holding.owner:
                return self.exchange.followed(entry)
            holding.taken(entry, self.state, world.now, world.now)
            return self.age() or SEND
        if isinstance(step, Renew):
            held = journal.renew("", "job", holding.owner, LEASE)
            yield "after renew"
            holding.owned = held
            if not held:
                return CLAIM
            holding.renewed()
            return self.age() or SEND
        status = None
        if step.state in (RowState.EXECUTED, RowState.REJECTED):
            status = self.exchange.attempts[-1].status
        done = journal.record(Ended(scope="", name="job", owner=holding.owner, state=step.state, status=status))
        yield "after record"
        return self.exchange.was_recorded(step, done=done)

    def send(self) -> Generator[str, None, Step]:
        world, exchange = self.world, self.exchange
        exchange.sending(world.now, world.now)
        self.tries += 1
        yield "on its way"
        status = world.serve(self.state.key, b"bytes")
        world.check()
        yield "after effect"
        world.now += 0.5
        if status is None:
            return exchange.failed(Failure.UNKNOWN, "ReadError", "it broke", world.now, Facts())
        verdict = {201: Verdict.OK, 503: Verdict.TRANSIENT, 402: Verdict.REFUSED}[status]
        return exchange.answered(status, Reading(verdict), world.now, Facts(settles=status == 402), None)


def points(script: tuple[str, ...], *before: int) -> list[str]:
    """The points at which the next process can be stopped, after others were killed at *before*."""
    world = World(script)
    for point in before:
        kill(world, point)
    return list(world.process().run())


def kill(world: World, point: int) -> Process:
    """A process runs up to its point number *point* and is killed there; its lease runs out."""
    process = world.process()
    running = process.run()
    for _ in range(point + 1):
        next(running, None)
    running.close()
    world.now += LEASE + 1
    return process


def finish(world: World) -> Process:
    """A process runs to its end, as often as a job runner would start it."""
    for _ in range(4):
        process = world.process()
        for _ in process.run():
            world.check()
        if process.outcome is not Outcome.UNKNOWN:
            return process
    raise AssertionError("it never ends")


def settled(world: World, last: Process) -> None:
    """The truth was told, and a rerun sends nothing."""
    world.check()
    assert last.outcome is (Outcome.EXECUTED if world.effects else Outcome.REJECTED)
    sent = len(world.requests)
    again = world.process()
    assert list(again.run()) == ["before claim", "after claim"]
    assert isinstance(again.ending, Recall)
    assert again.outcome is last.outcome
    assert again.exchange.source == "journal"
    assert len(world.requests) == sent
    assert {key for key, _ in world.requests} == {again.state.key}


def test_the_points_are_those_of_the_design() -> None:
    """A call that is answered at once, and one whose first answer is lost."""
    assert points(("ok",)) == [
        "before claim",
        "after claim",
        "before send",
        "on its way",
        "after effect",
        "before record",
        "after record",
    ]
    assert points(("lost",))[5:8] == ["waited", "before renew", "after renew"]


@pytest.mark.parametrize("first", REPLIES)
def test_killed_once(first: str) -> None:
    """Every script, every point."""
    for script in SCRIPTS:
        if script[0] == first:
            for point in range(len(points(script))):
                world = World(script)
                kill(world, point)
                settled(world, finish(world))


@pytest.mark.parametrize("first", REPLIES)
def test_killed_twice(first: str) -> None:
    """Every point of the second process, after every point of the first."""
    for script in product([first], REPLIES):
        for point in range(len(points(script))):
            for then in range(len(points(script, point))):
                world = World(script)
                kill(world, point)
                kill(world, then)
                settled(world, finish(world))


@pytest.mark.parametrize("first", REPLIES)
def test_the_next_process_comes_too_early(first: str) -> None:
    """While the lease of the dead runs nothing is sent, whatever was sent before."""
    for script in product([first], REPLIES):
        for point, name in enumerate(points(script)):
            world = World(script)
            kill(world, point)
            world.now -= LEASE + 1
            sent, row = len(world.requests), world.journal.get("", "job")
            early = world.process()
            for _ in early.run():
                world.check()
            if row is not None and row.state is RowState.IN_FLIGHT:
                assert len(world.requests) == sent, name
                assert isinstance(early.ending, Raise)
                assert early.ending.error == "StillInProgress"
            world.now += LEASE + 1
            settled(world, finish(world))


@pytest.mark.parametrize("first", REPLIES)
def test_suspended(first: str) -> None:
    """Stopped at every point until another process is done, then woken: it sends nothing more.

    The one exception no client can close: bytes that are on their way already. They carry the same key.
    """
    for script in product([first], REPLIES):
        for point, name in enumerate(points(script)):
            world = World(script)
            sleeper = world.process()
            running = sleeper.run()
            for _ in range(point + 1):
                next(running)
            world.now += LEASE + 1
            other = finish(world)
            sent = len(world.requests)
            for _ in running:
                world.check()
            if name == "before claim":
                assert isinstance(sleeper.ending, Recall)
            assert len(world.requests) - sent == (name == "on its way"), (script, name)
            assert not isinstance(sleeper.ending, Reraise)
            assert sleeper.outcome in (other.outcome, Outcome.UNKNOWN), (script, name)
            settled(world, other)


def test_a_broken_journal_stops_everything() -> None:
    """If the claim cannot be written, the call ends before anything is sent."""
    world = World(("ok",))
    process = world.process()
    process.exchange.start(world.now, TOTAL)
    ending = process.exchange.journal_failed()

    assert ending.error == "JournalError"
    assert world.requests == []
