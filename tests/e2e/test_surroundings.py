"""What stands around the keys: outbox and processor, metrics, log, description, settings, a database that goes away."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest

import samekey
from examples.payments_api.app import processor_client
from examples.payments_api.database import Database, open_database
from examples.payments_api.logs import digest, make_log
from examples.payments_api.metrics import Metrics
from examples.payments_api.openapi import description
from examples.payments_api.outbox import Worker
from examples.payments_api.processor import make_processor
from examples.payments_api.run import serving
from examples.payments_api.settings import Settings
from samekey.testing import LedgerServer, Reply, faults, no_waiting
from tests.e2e.api import CHARGES, Api, Gate, Once, body, key, wait_until

Start = Callable[..., Api]
Workers = Callable[[str], Worker]


@pytest.fixture
def worker(api: Api) -> Iterator[Callable[[str], Worker]]:
    """Make workers of the outbox, whose processor is at an address."""
    with ExitStack() as stack:

        def make(url: str) -> Worker:
            client = stack.enter_context(processor_client(url))
            return Worker(api.service.database, client, Metrics(), make_log("critical"))

        yield make


def intents(api: Api) -> set[tuple[str, int]]:
    """States of the outbox, and how often each was tried."""
    return {(row["state"], row["attempts"]) for row in api.rows("SELECT state, attempts FROM outbox")}


# -- the outbox


def test_outbox(api: Api, worker: Workers) -> None:
    """What was charged is captured, once, although the processor's first answer is lost."""
    processor = LedgerServer()
    processor.script(faults.lost(), faults.status(503))
    charged = api.charge().json()["id"]
    with processor.listen() as url, no_waiting():
        assert worker(url).run_once() == 1
        assert worker(url).run_once() == 0

    processor.assert_executed_once()
    processor.assert_same_key()
    found = api.client.get(f"{CHARGES}/{charged}").json()
    assert (found["status"], intents(api)) == ("captured", {("done", 1)})
    assert api.rows("SELECT processor_ref FROM charges")[0]["processor_ref"] == "effect-1"


def test_outbox_unknown(api: Api, worker: Workers) -> None:
    """As long as the outcome is unknown the intent stays, and goes out with the same key again."""
    processor = LedgerServer()
    processor.script(then=faults.lost())
    api.charge()
    with processor.listen() as url, no_waiting():
        worker(url).run_once()
        assert intents(api) == {("waiting", 1)}
        processor.script()
        wait_until(lambda: worker(url).run_once() == 1)

    processor.assert_executed_once()
    processor.assert_same_key()
    assert intents(api) == {("done", 2)}


def test_outbox_refused(api: Api, worker: Workers) -> None:
    """A capture that the processor refuses is not asked for again."""
    processor = LedgerServer(lambda _request: Reply.of_json(402, {"error": "no"}))
    api.charge()
    with processor.listen() as url:
        worker(url).run_once()
        assert worker(url).run_once() == 0

    assert (api.rows("SELECT status FROM charges")[0]["status"], intents(api)) == ("refused", {("refused", 1)})


def test_outbox_mismatch(api: Api, worker: Workers) -> None:
    """A key that means something else at the processor is left for a person."""
    processor = LedgerServer()
    processor.script(faults.mismatch())
    api.charge()
    with processor.listen() as url:
        worker(url).run_once()

    assert intents(api) == {("review", 1)}


def test_outbox_workers_at_once(api: Api, worker: Workers) -> None:
    """Several workers share the intents; each is told once."""
    processor = LedgerServer()
    for number in range(20):
        api.charge(f"k-{number}")
    with processor.listen() as url, ThreadPoolExecutor(4) as pool:
        workers = [worker(url) for _ in range(4)]
        done = sum(pool.map(Worker.run_once, workers))

    assert (done, len(processor.effects), len(processor.keys)) == (20, 20, 20)
    assert intents(api) == {("done", 1)}


def test_outbox_worker_that_died(api: Api, worker: Workers) -> None:
    """What a dead worker had claimed goes out, with the same key, when its lease has run out."""
    processor = LedgerServer()
    api.charge()
    with processor.listen() as url:
        worker(url).run_once()
        with api.service.database.transaction() as transaction:
            transaction.rows("UPDATE outbox SET state = 'waiting', owner = 'dead', locked_until = {now}")
        worker(url).run_once()

    processor.assert_executed_once()
    processor.assert_same_key()
    assert intents(api) == {("done", 2)}


def test_no_intent_without_effect(api: Api) -> None:
    """An effect that is rolled back takes its intent with it."""

    def break_down() -> None:
        raise RuntimeError("planted")

    api.hooks["effect"] = Once(break_down)

    assert api.charge().status_code == 500
    assert api.count("outbox") == 0


def test_refund_has_a_key_of_its_own(api: Api) -> None:
    """Charge and refund under one caller's key are two instructions for the processor."""
    charged = api.charge("k").json()["id"]
    api.client.post("/v1/refunds", json={"charge": charged, "amount": 1}, headers=key("k"))

    keys = {row["processor_key"] for row in api.rows("SELECT processor_key FROM outbox")}
    assert len(keys) == 2
    assert "k" not in keys


@contextmanager
def books_of_processor(address: str) -> Iterator[Database]:
    """The database of the simulated processor."""
    books = open_database(address, pool=4)
    try:
        yield books
    finally:
        books.close()


def test_whole_service(start: Start, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The service and the simulated processor together: what is charged ends captured, once."""
    address = f"sqlite:///{tmp_path_factory.mktemp('processor') / 'books.db'}"
    with books_of_processor(address) as books, serving(make_processor(books, Settings())) as url:
        api = start(processor=url, outbox_seconds=0.02)
        charged = api.charge().json()["id"]
        wait_until(lambda: api.client.get(f"{CHARGES}/{charged}").json()["status"] == "captured")
        with books.transaction() as transaction:
            rows = transaction.rows("SELECT subject, amount FROM instructions")
    assert rows == [{"subject": charged, "amount": 4900}]
    assert api.metric("outbox_calls_total", outcome="done") == 1


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [({}, {"charge": "c", "amount": 1}, 400), (key(), [], 400), (key(), {"charge": "c", "amount": 1}, 201)],
)
def test_processor_has_rules_too(
    tmp_path_factory: pytest.TempPathFactory, headers: dict[str, str], content: object, status: int
) -> None:
    """The simulated processor wants a key and a JSON object."""
    address = f"sqlite:///{tmp_path_factory.mktemp('processor') / 'books.db'}"
    with books_of_processor(address) as books, serving(make_processor(books, Settings())) as url:
        answer = httpx.post(f"{url}/v1/instructions", json=content, headers=headers, trust_env=False)

    assert answer.status_code == status


# -- metrics, log, description, settings


def test_metrics(api: Api) -> None:
    """The four metrics tell what happened, and /metrics shows them."""
    api.charge("k")
    api.charge("k")
    api.charge("k", amount=1)
    api.charge("other", card="tok_declined")
    where = {"endpoint": "POST /v1/charges"}

    assert api.metric("idempotency_duplicate_hits_total", **where) == 1
    assert api.metric("idempotency_duplicate_hit_rate") == 0.25
    assert api.metric("idempotency_hash_mismatches_total", **where) == 1
    assert api.metric("idempotency_replay_seconds_count", **where) == 1
    for result in ("executed", "replayed", "mismatch", "refused"):
        assert api.metric("idempotency_requests_total", result=result, **where) == 1
    shown = api.client.get("/metrics").text
    for name in ("duplicate_hit_rate", "hash_mismatches_total", "in_progress_timeouts_total", "replay_seconds_bucket"):
        assert f"idempotency_{name}" in shown


def test_log(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step of a key is a line with tenant, endpoint, digest of the key, hash and transition; never the key."""
    api = start(log_level="info")
    api.charge("my-secret-key")
    api.charge("my-secret-key")

    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["transition"] for line in lines] == ["new -> in_progress", "in_progress -> succeeded", "completed"]
    for line in lines:
        assert (line["tenant"], line["endpoint"]) == ("public", "POST /v1/charges")
        assert line["key"] == digest("my-secret-key")
        assert len(line["request_hash"]) == 64
    assert "my-secret-key" not in text


@pytest.mark.parametrize("settings", [{"flavour": "article-1"}, {"flavour": "article-2"}])
def test_description(start: Start, settings: dict[str, str]) -> None:
    """The OpenAPI description has each answer that a key can lead to, and says what callers must do."""
    api = start(**settings)
    found = api.client.get("/openapi.json").json()
    gate = api.hooks["claimed"] = Gate()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(api.charge, "k")
        gate.wait()
        answers = [api.charge("k")]
        gate.open()
        answers.append(first.result())
    answers += [api.charge("k", amount=1), api.charge("d", card="tok_declined"), api.client.post(CHARGES, json=body())]

    described = found["paths"][CHARGES]["post"]
    assert {str(answer.status_code) for answer in answers} <= set(described["responses"])
    assert {parameter["name"] for parameter in described["parameters"]} == {"Idempotency-Key", "X-Tenant"}
    assert "the same key and the same body" in found["info"]["description"]
    assert _dangling(found) == []


def _dangling(found: dict[str, object]) -> list[str]:
    """References to schemas that are not there."""
    text = json.dumps(found)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    return sorted(named - set(description(Settings())["components"]["schemas"]))


def test_settings_travel() -> None:
    """Settings survive the way through the environment of a process."""
    settings = Settings(flavour="article-2", lease_seconds=1.5, require_key=False, pool=3)

    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize("wrong", [{"flavour": "article-3"}, {"mismatch_status": 400}, {"in_progress_status": 200}])
def test_wrong_settings(wrong: dict[str, object]) -> None:
    """A setting that cannot be is refused where it is made."""
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(Settings(), **wrong)  # type: ignore[arg-type] # wrong on purpose


def test_without_keys(start: Start) -> None:
    """Where keys are not required, a request without one is executed every time."""
    api = start(require_key=False)
    for _ in range(2):
        assert api.client.post(CHARGES, json=body()).status_code == 201
    assert api.client.post(CHARGES, json=body(card="tok_declined")).status_code == 402
    assert (api.count(), api.count("idempotency_keys")) == (2, 0)


# -- what goes on beside the requests


def test_cleanup_goes_on(start: Start) -> None:
    """The service cleans up by itself."""
    api = start(cleanup_seconds=0.02, key_seconds=0.0)
    api.charge()
    wait_until(lambda: api.count("idempotency_keys") == 0)
    assert api.metric("idempotency_expired_rows_total") == 1


def test_worker_outlives_trouble(api: Api) -> None:
    """The outbox worker goes on when a round fails."""
    rounds: Iterator[RuntimeError | int] = iter([RuntimeError("planted"), 1])
    stop = threading.Event()

    class Shaky(Worker):
        def run_once(self) -> int:
            found = next(rounds)
            if isinstance(found, Exception):
                raise found
            stop.set()
            return found

    with samekey.wrap(httpx.Client(base_url="http://127.0.0.1:9")) as client:
        Shaky(api.service.database, client, Metrics(), make_log("critical")).run(stop, 0.0)

    assert stop.is_set()
