"""Sections J, K, M of the bug reports, and what needs no budget of L: fork, form of keys, layers, errors, secrets."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed, wait_none

import samekey
from samekey import Dialect, IdempotencyError, KeyMismatch, NotSent, OutcomeUnknown, RetryPolicy
from samekey.dialects import Header
from samekey.events import Event
from samekey.testing import LedgerServer, Reply, faults
from tests.transport.harness import Api, closed_port, key_lines, on_async, raises, statuses, the

QUICK = RetryPolicy(wait=wait_none())


def script(code: str, *arguments: str) -> str:
    """What a Python of its own prints: forking a process that has threads is no good."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


KEYS_AFTER_FORK = """
import os, random, time
import samekey
samekey.new_key()
frozen = time.time_ns()
time.time_ns = lambda: frozen
readers = []
for _ in range(8):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        random.seed(0)
        with os.fdopen(writer, "w") as out:
            out.writelines(samekey.new_key() + "\\n" for _ in range(10_000))
        os._exit(0)
    os.close(writer)
    readers.append(reader)
keys = set()
for reader in readers:
    with os.fdopen(reader) as lines:
        keys.update(lines)
for _ in readers:
    os.wait()
print(len(keys))
"""


def test_br_56_keys_after_a_fork() -> None:
    """Eight children, the clock frozen, the random numbers seeded alike: 80,000 keys, all different."""
    assert script(KEYS_AFTER_FORK) == "80000\n"


CALLS_AFTER_FORK = """
import os, sys
import httpx, samekey
from tenacity import stop_after_attempt
url = sys.argv[1]
ONCE = samekey.RetryPolicy(stop=stop_after_attempt(1))

def client():
    return samekey.wrap(httpx.Client(base_url=url, trust_env=False, verify=False), policy=ONCE)

def post(client, n):
    try:
        return str(client.post("/charges", json={"n": n}).status_code)
    except samekey.OutcomeUnknown:
        return "unknown"
    except RuntimeError as error:
        return "refused" if "before a fork" in str(error) else repr(error)

parent = client()
said = [post(parent, 1), post(parent, 1), post(parent, 1)]  # executed, lost, and stopped on this side
memory = parent._transport._engine.memory
bound, unbound = samekey.operation(), samekey.operation()
with bound:
    said.append(post(parent, 2))
reader, writer = os.pipe()
held = memory.lock
held.acquire()  # as another thread of the parent might hold it
if os.fork() == 0:
    own = client()  # sockets must not be shared, as the documentation says
    answers = [str(len(memory.unresolved)), str(memory.lock is held)]
    with bound:
        answers.append(post(own, 2))
    with unbound:
        answers.append(post(own, 3))
    answers.append(post(own, 1))
    os.write(writer, " ".join(answers).encode())
    os._exit(0)
held.release()
os.wait()
with unbound:
    said.append(post(parent, 3))
print(*said, "|", os.read(reader, 1000).decode())
"""


def test_br_58_across_a_fork(server: LedgerServer) -> None:
    """The child starts with an empty memory and a free lock; an operation that has sent nothing is refused there."""
    server.script(faults.ok(), faults.lost())
    with server.listen() as url:
        said = script(CALLS_AFTER_FORK, url).split()

    assert said == ["201", "unknown", "unknown", "201", "201", "|", "0", "False", "201", "refused", "201"]
    bodies = [request.json() for request in server.requests]
    assert bodies.count({"n": 3}) == 1
    assert len({request.key for request in server.requests if request.json() == {"n": 2}}) == 1


async def test_br_59_the_form_of_the_key_in_the_header(api: Api) -> None:
    """Bare by default; quoted and escaped on request; one form per origin."""
    odd = 'a"b\\c'
    async with api.client() as client:
        await client.post(extensions=samekey.options(key=odd))
    async with api.client(dialect=Dialect(carrier=Header(quoted=True))) as client:
        response = await client.post(extensions=samekey.options(key=odd))
        own = await client.post(json={"n": 2}, headers={"Idempotency-Key": r'"x\"y"'})
        await client.post(json={"n": 3})

    lines = [key_lines(request) for request in api.server.requests]
    assert lines[:3] == [[odd], [r'"a\"b\\c"'], [r'"x\"y"']]
    assert lines[3][0][0] == lines[3][0][-1] == '"'
    assert the(samekey.report(response)).key == odd
    assert the(samekey.report(own)).key == 'x"y'


async def test_br_59_one_form_per_origin(api: Api, server: LedgerServer) -> None:
    """A mapping of origins to dialects: each API gets its own header."""
    mine = Dialect(carrier=Header(name="X-Request-Key"))
    with server.listen() as other:
        async with api.client(origins={api.url: samekey.GENERIC, other: mine}) as client:
            await client.post()
            await client.post(f"{other}/charges")

    assert [len(key_lines(request)) for request in server.requests] == [1, 0]
    assert len(key_lines(server.requests[1], "x-request-key")) == 1


async def test_br_61_layers_do_not_multiply(api: Api) -> None:
    """Wrapping twice is refused; under an outer loop the operation keeps one key."""
    api.server.script(then=faults.status(503))
    async with api.client(policy=RetryPolicy(stop=stop_after_attempt(3), wait=wait_none())) as client:
        with pytest.raises(ValueError, match="wrapped by samekey already"):
            samekey.wrap(client.raw)
        with samekey.operation():
            for _ in range(3):
                with raises(OutcomeUnknown, api.httpx.HTTPStatusError):
                    await client.post()

    api.seen(wire=9, effects=0)


def test_br_61_an_outer_loop_of_tenacity_without_an_operation(server: LedgerServer) -> None:
    """Three rounds of the loop, and still only the requests of the first: the rest is stopped on this side."""
    server.script(then=faults.status(503))
    policy = RetryPolicy(stop=stop_after_attempt(3), wait=wait_none())
    client = samekey.wrap(httpx.Client(base_url="http://api.test", transport=server.transport()), policy=policy)
    loop = Retrying(stop=stop_after_attempt(3), retry=retry_if_exception_type(httpx.HTTPError), reraise=True)

    with client, pytest.raises(OutcomeUnknown):
        loop(client.post, "/charges", json={})

    assert len(server.requests) == 3
    assert len(server.keys) == 1


# -- errors and secrets

STEPS = {
    "KeyMismatch": faults.mismatch(),
    "OutcomeUnknown": faults.status(
        503, json={"why": "busy"}, headers={"Retry-After": "3600", "Set-Cookie": "s=c00kie"}
    ),
    "StillInProgress": faults.in_progress(),
    "KeyExpired": faults.status(400, json={"code": "idempotency_key_expired"}),
    "AlreadyExecuted": faults.status(409, json={"code": "idempotency_key_already_used", "id": "ch_1"}),
    "KeySpent": faults.status(409, json={"code": "idempotency_previous_attempt_failed"}),
    "KeyNotAccepted": faults.status(400, json={"error": "The Idempotency-Key is too long"}),
}  # fmt: skip
BELIEVING = Dialect(believe_done=True, done_resource=("id",), retention=3600, margin=1)


async def provoke(api: Api, **settings: Any) -> dict[str, IdempotencyError]:
    """One error of every kind that needs no journal."""
    found: dict[str, IdempotencyError] = {}
    more = {"dialect": BELIEVING, "policy": RetryPolicy(wait=wait_none(), poll_wait=wait_fixed(40)), **settings}
    for kind, step in STEPS.items():
        api.server.script(then=step)
        async with api.client(**more) as client:
            with pytest.raises(IdempotencyError) as caught:
                await client.post(f"/charges?q={QUERY}", extensions=samekey.options(key=SECRET_KEY))
            found[kind] = caught.value
    async with api.client(**{**more, "base_url": closed_port()}) as client:
        with pytest.raises(NotSent) as not_sent:
            await client.post(json={"card": CARD})
        found["NotSent"] = not_sent.value
    api.server.script(then=faults.lost())
    async with api.client(**more) as client:
        with samekey.operation(key=SECRET_KEY):
            with pytest.raises(OutcomeUnknown) as lost:
                await client.post(json={"card": CARD})
            found["lost"] = lost.value
            with pytest.raises(KeyMismatch) as local:
                await client.post(json={"card": "other"})
            found["local"] = local.value
    return found


SECRET_KEY = "alice@example.test-1"
QUERY = "query-secret"
CARD = "4242-4242-4242-4242"


async def test_br_64_errors_travel_through_job_queues(api: Api) -> None:
    """Each error pickles, keeps its classes, key, report and answer, and can send the request again."""
    for name, error in (await provoke(api)).items():
        copy = pickle.loads(pickle.dumps(error))

        assert type(copy) is type(error)
        assert str(copy) == str(error)
        assert (copy.key, copy.name, copy.report) == (error.key, error.name, error.report)
        assert (copy.request.method, str(copy.request.url)) == ("POST", str(error.request.url))
        assert copy.request.read() == error.request.read()
        if error.response is None:
            assert copy.response is None
        else:
            assert copy.response.status_code == error.response.status_code
            assert copy.response.content == error.response.content
        assert getattr(copy, "resource", None) == getattr(error, "resource", None)
        assert copy.request.extensions["samekey"].key == error.key, name
        assert pickle.dumps(copy) == pickle.dumps(pickle.loads(pickle.dumps(copy)))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
async def test_br_64_every_protocol(api: Api, protocol: int) -> None:
    api.server.script(then=faults.lost())
    async with api.client(policy=QUICK) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()

    copy = pickle.loads(pickle.dumps(caught.value, protocol))
    assert isinstance(copy, api.httpx.RemoteProtocolError)
    assert statuses(copy.report) == ["RemoteProtocolError"] * 5


async def test_br_64_the_pickled_request_goes_on_with_its_key(api: Api) -> None:
    """What a worker got from the queue, it sends: same key, same bytes, one effect."""
    api.server.script(*[faults.lost()] * 2)
    async with api.client(policy=RetryPolicy(stop=stop_after_attempt(2), wait=wait_none())) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post(content=api.body_of(b'{"a":', b"1}"), headers={"Content-Type": "application/json"})
    copy = pickle.loads(pickle.dumps(caught.value))
    async with api.client() as client:
        response = await client.send(copy.request)

    assert samekey.is_replayed(response)
    api.seen(wire=3, effects=1)


def test_br_64_errors_unpickle_in_another_process(server: LedgerServer) -> None:
    """A worker that has not imported samekey yet, such as the other end of a queue."""
    server.script(then=faults.lost())
    client = httpx.Client(base_url="http://api.test", transport=server.transport())
    with samekey.wrap(client, policy=QUICK), pytest.raises(OutcomeUnknown) as caught:
        client.post("/charges", json={})
    code = """
import pickle, sys
error = pickle.loads(bytes.fromhex(sys.argv[1]))
import httpx, samekey
print(isinstance(error, httpx.RemoteProtocolError), isinstance(error, samekey.OutcomeUnknown), error.key)
"""
    assert script(code, pickle.dumps(caught.value).hex()).split() == ["True", "True", caught.value.key]


class Collector(logging.Handler):
    """Everything of each record: its text and every attribute."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.text += [record.getMessage(), repr(vars(record)), logging.Formatter().format(record)]


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What samekey's own logger writes."""
    collector, logger = Collector(), logging.getLogger("samekey")
    logger.addHandler(collector)
    logger.setLevel(logging.DEBUG)
    yield collector.text
    logger.removeHandler(collector)
    logger.setLevel(logging.NOTSET)


async def test_br_66_no_secret_is_shown(api: Api, logged: list[str]) -> None:
    """Key, credentials, cookies, body and query: not in logs, events, reprs or texts of errors; digests only."""
    events: list[Event] = []

    def failing(event: Event) -> None:
        raise LookupError("a listener that fails")

    found = await provoke(
        api,
        headers={"Authorization": "Bearer t0ken", "Proxy-Authorization": "Basic pr0xy", "Cookie": "session=c00kie"},
        listeners=[samekey.log_events, events.append, failing],
    )
    op = samekey.operation(key=SECRET_KEY)
    shown = [*logged, repr(op), repr(samekey.options(key=SECRET_KEY)), *map(repr, events)]
    for error in found.values():
        shown += [str(error), repr(error), repr(error.report), "".join(traceback.format_exception(error))]
        assert error.report is not None
        shown += [repr(attempt) for attempt in error.report.attempts]

    assert len(logged) > 50
    text = "\n".join(shown)
    for secret in (SECRET_KEY, "t0ken", "pr0xy", "c00kie", CARD, QUERY, "busy"):
        assert secret not in text, secret
    assert "key=" in text


async def test_br_66_no_credentials_in_pickles(api: Api) -> None:
    """A queue is a disk: what is attached again on resume does not travel. The key and the body must."""
    found = await provoke(
        api, headers={"Authorization": "Bearer t0ken", "Proxy-Authorization": "Basic pr0xy", "Cookie": "session=c00kie"}
    )
    for error in found.values():
        packed = pickle.dumps(error)
        assert error.key is not None
        assert error.key.encode() in packed
        for secret in (b"t0ken", b"pr0xy", b"c00kie"):
            assert secret not in packed


async def test_br_66_a_header_that_cannot_be_sent_is_not_repeated(api: Api) -> None:
    """The text of a local protocol error holds the header's value, such as a token with a stray line end."""
    events: list[Event] = []
    async with api.client(listeners=[events.append, samekey.log_events]) as client:
        with raises(NotSent, api.httpx.LocalProtocolError) as caught:
            await client.post(headers={"Authorization": "Bearer t0ken\n"})

    shown = [
        str(caught.value),
        repr(caught.value.report),
        *map(repr, events),
        *map(repr, the(caught.value.report).attempts),
    ]
    assert "t0ken" not in "\n".join(shown)


@on_async
async def test_many_threads_are_not_needed(api: Api) -> None:
    """The async driver starts none of its own."""
    before = {thread.name for thread in threading.enumerate()}
    api.server.script(faults.lost(), lambda _: Reply(503))
    async with api.client() as client:
        await client.post()

    ours = {thread.name for thread in threading.enumerate()} - before
    assert all(name.startswith("samekey ledger") for name in ours)
