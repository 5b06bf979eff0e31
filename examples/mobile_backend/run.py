"""A double tap, and a backend that is killed in the middle of a payment: one charge each.

python examples/mobile_backend/run.py

Takes half a minute: the lease of the killed process has to run out before another one goes on with its payment.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx

from samekey.testing import LedgerServer, faults

HERE = Path(__file__).parent


class Phone:
    """It repeats its request, with the same key, until it knows."""

    def __init__(self, url: str, user: str) -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer token-of-{user}"}

    def pay(self, order: int, key: str, *, patience: float = 60.0) -> httpx.Response:
        """Pay for an order; a key stands for one press of the button."""
        until = time.monotonic() + patience
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = self.ask(order, key)
                if answer.status_code not in (409, 503):
                    return answer
            if time.monotonic() > until:
                raise TimeoutError("the backend does not come back")
            time.sleep(0.5)

    def ask(self, order: int, key: str) -> httpx.Response:
        """One request."""
        headers = {**self.headers, "Idempotency-Key": key}
        body = {"order": order, "amount": 4900}
        return httpx.post(f"{self.url}/payments", json=body, headers=headers, timeout=30, trust_env=False)


class Backend:
    """The process that is killed."""

    def __init__(self, payments_api: str, folder: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {**os.environ, "PAYMENTS_API": payments_api, "JOURNAL": f"{folder}/operations.sqlite3"}

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run it until the block ends."""
        command = ["uvicorn", "--app-dir", str(HERE), "backend:app", "--port", str(self.port), "--log-level", "warning"]
        process = subprocess.Popen(  # noqa: S603 - our own backend
            [sys.executable, "-m", *command], env=self.environment
        )
        try:
            while process.poll() is None:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                    break
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()
            process.wait()


def double_tap(phone: Phone, bank: LedgerServer) -> None:
    """Two requests at once, one press of the button too many."""
    key, answers = str(uuid.uuid4()), []
    bank.script(faults.slow(0.3))
    taps = [threading.Thread(target=lambda: answers.append(phone.pay(4821, key))) for _ in range(2)]
    for tap in taps:
        tap.start()
    for tap in taps:
        tap.join()
    print("double tap:", *(f"{answer.status_code} {answer.json()['charge']}" for answer in answers))
    assert answers[0].json() == answers[1].json()
    print(f"  the payments API was asked {len(bank.requests)} time, and charged {len(bank.effects)} time")
    assert len(bank.requests) == len(bank.effects) == 1


def killed(phone: Phone, bank: LedgerServer, process: subprocess.Popen[bytes]) -> str:
    """The backend dies when the charge is made and the answer is not there yet; gives the key of the phone."""
    key = str(uuid.uuid4())
    bank.script(faults.never())

    def tap() -> None:
        with contextlib.suppress(httpx.TransportError):
            phone.ask(4822, key)

    tapped = threading.Thread(target=tap)
    tapped.start()
    while len(bank.effects) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    tapped.join()
    print("backend killed: the charge is made, and nobody here knows it")
    return key


def main() -> None:
    """Show both."""
    bank = LedgerServer(lambda request: {"id": f"ch_{request.json()['order']}"})
    with tempfile.TemporaryDirectory() as folder, bank.listen() as payments_api:
        backend = Backend(payments_api, folder)
        ada = Phone(backend.url, "ada")
        with backend.running() as process:
            double_tap(ada, bank)
            key = killed(ada, bank, process)
        with backend.running():
            print("  a new one is started; the phone repeats its request, with the same key")
            answer = ada.pay(4822, key)
            print(f"  {answer.status_code} {answer.json()['charge']}")
            stranger = Phone(backend.url, "bob").pay(4822, key)
            print(f"  another user with the same key pays for himself: {stranger.status_code}")
            wrong = ada.ask(9999, key)
            print(f"  the same key for another order: {wrong.status_code} {wrong.json()['detail']}")
    charged = [effect.request.json()["order"] for effect in bank.effects]
    print("charges:", *charged)
    assert charged == [4821, 4822, 4822]
    assert len(bank.keys) == 3
    assert wrong.status_code == 422


if __name__ == "__main__":
    main()
