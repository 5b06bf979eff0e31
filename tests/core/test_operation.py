"""`operation()`: which one applies where, its key, its steps, and what it must not survive."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import samekey
from samekey._model import Failure, Outcome
from samekey._operation import Operation, in_force
from samekey._trail import Told
from tests.core.playing import Play

current = samekey.current_operation


class TestWhichApplies:
    """The innermost whose block is open."""

    def test_none_outside_of_every_block(self) -> None:
        """Making one is not entering it."""
        samekey.operation()

        assert current() is None

    def test_the_innermost(self) -> None:
        """And after it the one around it again."""
        with samekey.operation() as outer:
            assert current() is outer
            with samekey.operation() as inner:
                assert current() is inner
            assert current() is outer
        assert current() is None

    def test_one_entered_twice_applies_until_it_is_left_twice(self) -> None:
        """A helper may open the same operation again."""
        op = samekey.operation()
        with op:
            with op:
                assert current() is op
            assert current() is op
        assert current() is None
        with op:
            assert current() is op

    def test_an_exception_ends_the_block(self) -> None:
        """It is not swallowed."""
        with pytest.raises(ZeroDivisionError), samekey.operation():
            raise ZeroDivisionError
        assert current() is None

    def test_a_task_inherits_it_until_the_block_ends(self) -> None:
        """Also a task that outlives the block."""

        async def look(go_on: asyncio.Event) -> list[Operation | None]:
            before = current()
            await go_on.wait()
            return [before, current()]

        async def main() -> tuple[Operation, list[Operation | None]]:
            go_on = asyncio.Event()
            with samekey.operation() as op:
                task = asyncio.create_task(look(go_on))
                await asyncio.sleep(0)
            go_on.set()
            return op, await task

        op, found = asyncio.run(main())
        assert found == [op, None]

    def test_two_tasks_have_one_each(self) -> None:
        """What one enters the other does not see."""

        async def enter() -> bool:
            with samekey.operation() as op:
                await asyncio.sleep(0)
                return current() is op

        async def main() -> list[bool]:
            return list(await asyncio.gather(enter(), enter()))

        assert asyncio.run(main()) == [True, True]

    def test_a_plain_thread_does_not_inherit_it(self) -> None:
        """It is given the key instead."""
        found: list[Operation | None] = []
        with samekey.operation():
            thread = threading.Thread(target=lambda: found.append(current()))
            thread.start()
            thread.join()

        assert found == [None]

    def test_it_may_be_left_in_another_context(self) -> None:
        """Where it was entered it no longer applies, and nothing piles up there."""
        here = contextvars.copy_context()
        for _ in range(5):
            op = here.run(lambda: samekey.operation().__enter__())
            contextvars.copy_context().run(op.__exit__, None, None, None)
            assert here.run(current) is None

        assert len(here[in_force]) == 1

    def test_an_async_generator_closed_elsewhere_leaks_nothing(self) -> None:
        """Its end runs in the context of whoever closes it."""

        async def parts() -> AsyncIterator[Operation]:
            with samekey.operation() as op:
                yield op

        async def main() -> Operation | None:
            generator = parts()
            op = await anext(generator)
            assert current() is op
            await asyncio.create_task(generator.aclose())  # type: ignore[attr-defined]
            return current()

        assert asyncio.run(main()) is None

    def test_generators_may_end_in_any_order(self) -> None:
        """Each takes out its own, not the newest."""

        def part() -> Iterator[Operation]:
            with samekey.operation() as op:
                yield op

        first, second = part(), part()
        one, two = next(first), next(second)
        assert current() is two
        del first
        gc.collect()
        assert not one.applies
        assert current() is two
        del second
        gc.collect()
        assert current() is None
        assert in_force.get() == ()


class TestKey:
    """One key, made once."""

    def test_it_is_readable_before_during_and_after(self) -> None:
        """It stays the same."""
        op = samekey.operation()
        before = op.key
        with op:
            assert op.key == before
        assert op.key == before

    def test_each_operation_has_its_own(self) -> None:
        """Intent is what counts, not content (BR-07)."""
        assert samekey.operation().key != samekey.operation().key

    def test_a_given_key_is_used_and_not_fresh(self) -> None:
        """Someone may have sent it before."""
        op = samekey.operation(key="order-4821")

        assert op.key == "order-4821"
        assert op.state is not None
        assert not op.state.made_here
        made = samekey.operation()
        assert made.key
        assert made.state is not None
        assert made.state.made_here

    def test_the_dialect_makes_it_if_it_is_sent_before_it_is_read(self) -> None:
        """And then everybody reads that one."""
        op = samekey.operation(scope="acct")

        state = op.own_state(lambda: "made-by-dialect")

        assert state is op.own_state(lambda: "another")
        assert op.key == "made-by-dialect"
        assert (state.scope, state.name) == ("acct", None)

    def test_two_threads_that_read_it_at_once_read_one(self) -> None:
        """It is made under a lock."""
        op = samekey.operation()
        ready = threading.Barrier(8)
        keys: list[str] = []

        def read() -> None:
            ready.wait()
            keys.append(op.key)

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(keys) == 8
        assert len(set(keys)) == 1

    def test_the_repr_shows_no_key(self) -> None:
        """BR-66: neither one that was given nor one that was made."""
        given = samekey.operation("order-7", key="alice@example.test-1", scope="acct")
        made = samekey.operation()
        assert "key=None" in repr(made)

        assert "alice" not in repr(given)
        assert repr(given).startswith("Operation(name='order-7', key=<")
        assert made.key not in repr(made)
        assert "key=<" in repr(made)


class TestReport:
    """What is known of the last call."""

    def test_none_before_the_first(self) -> None:
        """There is nothing to tell."""
        assert samekey.operation().report is None

    def test_it_stays_readable_after_the_block(self) -> None:
        """Also after an error, and it does not change any more."""
        with samekey.operation() as op:
            play = Play(op.own_state(samekey.new_key), retry=False)
            play.fails(Failure.UNKNOWN)
            op.told = Told(play.exchange, play.now)

        assert op.report is not None
        assert op.report is op.report
        assert (op.report.outcome, op.report.key) == (Outcome.UNKNOWN, op.key)


class TestSteps:
    """Parts with keys of their own."""

    def test_a_step_has_a_key_of_its_own(self) -> None:
        """The same name is the same step."""
        op = samekey.operation()

        assert op.step("mail") is op.step("mail")
        assert len({op.key, op.step("mail").key, op.step("label").key}) == 3

    def test_a_step_applies_inside_its_block(self) -> None:
        """Then the operation applies again."""
        with samekey.operation() as op:
            with op.step("mail") as mail:
                assert current() is mail
            assert current() is op

    def test_a_step_of_a_named_operation_is_named_after_both(self) -> None:
        """So the journal finds it again; scope and stored request go with it."""
        step = samekey.operation("order-4821", scope="acct", store_request=True).step("mail")

        assert (step.name, step.scope, step.store_request) == ("order-4821#mail", "acct", True)
        assert samekey.operation().step("mail").name is None
        assert step.step("retry").name == "order-4821#mail#retry"

    @pytest.mark.parametrize(
        ("name", "error"), [("", ValueError), (" ", ValueError), ("a#b", ValueError), (7, TypeError), (None, TypeError)]
    )
    def test_bad_names(self, name: Any, error: type[Exception]) -> None:
        """The separator is refused, so that no step can pass for another one's."""
        with pytest.raises(error, match="name of a step"):
            samekey.operation().step(name)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"name": ""}, ValueError, "name must not be empty"),
        ({"name": "\n"}, ValueError, "name"),
        ({"name": 7}, TypeError, "name must be a str"),
        ({"key": ""}, ValueError, "key must not be empty"),
        ({"key": "a\nb"}, ValueError, "printable ASCII"),
        ({"key": False}, TypeError, "str, not bool"),
        ({"scope": ""}, ValueError, "scope"),
        ({"scope": 7}, TypeError, "scope"),
        ({"name": "n", "store_request": 1}, TypeError, "store_request must be True or False"),
        ({"name": "n", "retry_rejected": None}, TypeError, "retry_rejected"),
        ({"store_request": True}, ValueError, "need a name"),
        ({"retry_rejected": True}, ValueError, "need a name"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    """Each is refused where it is made."""
    with pytest.raises(error, match=words):
        samekey.operation(**settings)


def test_settings_of_the_journal_go_with_a_name() -> None:
    """They are kept for it."""
    op = samekey.operation("order-7", store_request=True, retry_rejected=True)

    assert (op.store_request, op.retry_rejected) == (True, True)


def in_a_fork(do: Callable[[], object]) -> Any:
    """What *do* returns in a forked child."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            found = do()
        except Exception as error:  # noqa: BLE001 - told to the parent
            found = f"{type(error).__name__}: {error}"
        finally:
            with os.fdopen(writing, "w") as out:
                json.dump(found, out)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        answer = json.load(told)
    os.wait()
    return answer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
class TestFork:
    """Parent and child could both send it."""

    def test_an_unbound_operation_is_refused_in_the_child(self) -> None:
        """Whether its key was read or not, and so is a step that either could take."""
        op, read = samekey.operation(), samekey.operation()
        assert read.key

        for inherited in (op.check_process, read.check_process, lambda: op.step("mail").check_process()):
            assert str(in_a_fork(inherited)).startswith("RuntimeError: this operation was made before a fork")
            inherited()  # in the parent it may go on

    def test_a_bound_operation_goes_on_in_the_child(self) -> None:
        """Both send the same key, so the server does it once."""
        op = samekey.operation()
        op.own_state(samekey.new_key).bind("fingerprint")

        assert in_a_fork(op.check_process) is None
        assert in_a_fork(lambda: op.key) == op.key

    def test_an_operation_made_in_the_child_is_its_own(self) -> None:
        """Nobody else has it."""
        assert in_a_fork(lambda: samekey.operation().check_process()) is None
