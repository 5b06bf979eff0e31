"""Operations: the caller's unit of "do this once", and the context variable that carries the one in force."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

from ._forks import forget_after_fork
from ._keys import check_key, check_name, digest, new_key
from ._settings import check_flag
from ._state import KeyState

if TYPE_CHECKING:
    from types import TracebackType

    from ._report import Report
    from ._trail import Told

in_force: ContextVar[tuple[Operation, ...]] = ContextVar("samekey_operations", default=())


class Operation:
    """One thing that is to be done once, made by `operation()`.

    Attributes:
        name: The name it was given, or None.
        scope: What the name (or key) is unique in, or None.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        key: str | None = None,
        scope: str | None = None,
        store_request: bool = False,
        retry_rejected: bool = False,
    ) -> None:
        if name is not None:
            check_name("name", name)
        if scope is not None:
            check_name("scope", scope)
        if key is not None:
            check_key(key)
        check_flag("store_request", store_request)
        check_flag("retry_rejected", retry_rejected)
        if name is None and (store_request or retry_rejected):
            raise ValueError("store_request and retry_rejected are settings of the journal; they need a name")
        self.name = name
        self.scope = scope
        self.store_request = store_request
        self.retry_rejected = retry_rejected
        self.told: Told | None = None
        self.given_key = key
        self.state: KeyState | None = None
        """What is known of the key; made when the first request binds, or when somebody reads `key`."""
        self.lock = threading.RLock()
        self._steps: dict[str, Operation] = {}
        self._entered = 0
        self._pid = os.getpid()
        forget_after_fork(self)

    def forget(self) -> None:
        """In a forked child: the lock may be held by a thread that is not there any more."""
        self.lock = threading.RLock()

    @property
    def report(self) -> Report | None:
        """What is known of the last call made inside it; None before the first."""
        return None if self.told is None else self.told.report()

    @property
    def key(self) -> str:
        """The key of every request in this operation; made when it is first read or sent."""
        return self.key_by(new_key)

    def key_by(self, make_key: Callable[[], str]) -> str:
        """The key; made by *make_key* if it is not there yet."""
        with self.lock:
            return self.own_state(make_key).key

    def own_state(self, make_key: Callable[[], str]) -> KeyState:
        """The state of the key, made on first use by *make_key* unless the caller gave the key."""
        if self.state is None:
            key = self.given_key or make_key()
            self.state = KeyState(key, made_here=self.given_key is None, name=self.name, scope=self.scope)
        return self.state

    def check_process(self) -> None:
        """Refuse to bind in a forked child what the parent may bind as well: both would do it, with two keys or one.

        Raises:
            RuntimeError: The operation was made before a fork and has sent nothing yet.
        """
        if os.getpid() != self._pid and (self.state is None or self.state.fingerprint is None):
            raise RuntimeError(
                "this operation was made before a fork and nothing was sent in it yet, so parent and child could both "
                "send it; nothing was sent. Open the operation in the process that sends"
            )

    def step(self, name: str) -> Operation:
        """A part of this operation with a key (and name) of its own; the same *name* gives the same part.

        Use it for the second, different request inside one operation::

            with samekey.operation() as op:
                client.post("/v1/charges", json=charge)
                with op.step("mail"):
                    client.post("/v1/mails", json=mail)

        Raises:
            TypeError: *name* is not a string.
            ValueError: *name* is empty, or contains "#", which separates the name of the step.
        """
        check_name("the name of a step", name)
        if "#" in name:
            raise ValueError('the name of a step must not contain "#"; it separates the step from the operation')
        with self.lock:
            if name not in self._steps:
                whole = None if self.name is None else f"{self.name}#{name}"
                part = Operation(
                    whole, scope=self.scope, store_request=self.store_request, retry_rejected=self.retry_rejected
                )
                part._pid = self._pid
                self._steps[name] = part
            return self._steps[name]

    @property
    def applies(self) -> bool:
        """Whether its block is open; a task that inherited the operation may outlive the block."""
        return self._entered > 0

    def __enter__(self) -> Self:
        with self.lock:
            self._entered += 1
        # Ended ones that were left in another context must not pile up here.
        in_force.set((*(held for held in in_force.get() if held.applies), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self.lock:
            self._entered -= 1
        # Not by token: a block may be left in another context than the one it was entered in.
        stack = list(in_force.get())
        if self in stack:
            del stack[len(stack) - 1 - stack[::-1].index(self)]
            in_force.set(tuple(stack))

    def __repr__(self) -> str:
        key = self.given_key or (self.state.key if self.state else None)
        shown = f"<{digest(key)}>" if key else None
        return f"Operation(name={self.name!r}, key={shown}, scope={self.scope!r})"


def operation(
    name: str | None = None,
    *,
    key: str | None = None,
    scope: str | None = None,
    store_request: bool = False,
    retry_rejected: bool = False,
) -> Operation:
    """One operation: every keyed request sent inside the block carries the same key, whatever loops around it.

    The same context manager serves sync and async code::

        with samekey.operation() as op:
            response = client.post("/v1/charges", json=charge)

    The first keyed request binds it. The same request again sends the same key; another one raises `KeyMismatch`
    before anything is sent (see `Operation.step`). Nested operations: the innermost applies. Threads started by hand
    do not inherit it; give them ``options(key=op.key)``.

    Args:
        name: A name that stays the same when the job runs again, such as ``"order-4821:charge"``. It needs a journal.
        key: The key to send, such as ``error.key`` of an `OutcomeUnknown`. Default: a new UUIDv7.
        scope: What the name (or key) is unique in, such as a tenant.
        store_request: Keep the request in the journal and repeat *its* bytes (for bodies that hold a time stamp).
        retry_rejected: After a refusal, start again with a new key although the request is the same.

    Raises:
        ValueError: A name, scope or key is empty, or the key has other than printable ASCII.
        TypeError: A setting has the wrong type.
    """
    return Operation(name, key=key, scope=scope, store_request=store_request, retry_rejected=retry_rejected)


def current_operation() -> Operation | None:
    """The innermost operation whose block is open here, or None."""
    stack = in_force.get()
    for candidate in reversed(stack) if stack else ():
        if candidate.applies:
            return candidate
    return None
