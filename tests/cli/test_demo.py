"""`samekey demo`, in the process and as a command of its own, with few payments."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import samekey
from samekey import Outcome
from samekey.cli import _demo, _screen, main
from samekey.cli._bank import LAST_FAULT, READ_TIMEOUT, SLOW, Bank, Payment, Settings, fault_of, payments_of
from samekey.cli._ways import CALLS, pay_plainly, pay_with_samekey
from samekey.testing import LedgerServer, ReceivedRequest, Reply, faults, no_waiting

FEW = ["demo", "--payments", "20", "--seed", "262"]
"""Twenty payments of which one is declined and none takes long."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "samekey", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bank that ignores keys: what samekey does then is what the demo must notice."""
    made = Bank.__init__

    def make(self: Bank, settings: Settings) -> None:
        made(self, settings)
        self.server = LedgerServer(self._charge, honours_keys=False)
        self.server.script(then=self._meet)

    monkeypatch.setattr(Bank, "__init__", make)


# -- the command


def test_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """Through samekey each payment is charged once, through the common layer not, and the exit code says so."""
    assert main([*FEW, "--json"]) == 0

    told = json.loads(capsys.readouterr().out)

    assert told["ok"] is True
    assert (told["samekey"]["charges"], told["samekey"]["declined"], told["samekey"]["doubled"]) == (19, 1, 0)
    assert told["httpx_tenacity"]["doubled"] > 0
    assert told["samekey"]["replayed"] > 0
    assert told["timeline"]["charges"] == 1
    assert told["timeline"]["attempts"][-1]["saw"].endswith("replayed")


def test_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Results on standard output, in 79 columns and without colours when plain; progress on standard error."""
    assert main([*FEW, "--plain"]) == 0

    shown, progress = capsys.readouterr()
    lines = shown.splitlines()

    assert lines[0] == "samekey demo: 20 payments to a bank on loopback, seed 262"
    assert lines[-1] == "samekey doubled nothing, lost nothing, and each of its 20 reports was true."
    assert max(map(len, lines)) <= 79
    assert "\x1b" not in shown
    assert next(line for line in lines if line.startswith("doubled")).split()[-1] == "0"
    assert any("201 replayed" in line for line in lines)
    assert progress == "sending them through httpx + tenacity, no key ...\nsending them through samekey ...\n\n"


def test_pipe_has_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    """With rich installed, what is piped is the same text."""
    assert main([*FEW, "--faults", "0"]) == 0

    assert "\x1b" not in capsys.readouterr().out


def test_nothing_to_tell(capsys: pytest.CaptureFixture[str]) -> None:
    """Without faults there is no timeline to show."""
    assert main(["demo", "--payments", "2", "--faults", "0", "--plain"]) == 0
    assert "attempt by attempt" not in capsys.readouterr().out
    assert main(["demo", "--payments", "2", "--faults", "0", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)

    assert told["timeline"] is None
    assert told["samekey"]["requests"] == told["httpx_tenacity"]["requests"] == 2


@pytest.mark.usefixtures("forgetful")
def test_broken_word(capsys: pytest.CaptureFixture[str]) -> None:
    """Behind a bank that ignores keys the demo fails, and says which payments were charged twice."""
    assert main([*FEW, "--plain"]) == 1

    assert "charged 2 times" in capsys.readouterr().out
    assert main([*FEW, "--json"]) == 1

    told = json.loads(capsys.readouterr().out)

    assert told["ok"] is False
    assert told["findings"]["doubled"]


def test_live_display(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal: colours, and two bars on standard error."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert main([*FEW]) == 0

    shown, progress = capsys.readouterr()

    assert "\x1b[" in shown
    assert "20/20" in progress


def test_without_rich(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the extra the demo runs as plain text, and says how to get the rest."""
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)

    assert main(["demo", "--payments", "2", "--faults", "0"]) == 0

    shown, progress = capsys.readouterr()

    assert "samekey doubled nothing" in shown
    assert progress.startswith(
        "(the live display and colours need rich: install the extra samekey[cli], or rich alone)\n"
    )


def test_ascii_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where drawing characters cannot be shown, others stand for them."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)

    _screen.Screen(plain=True, quiet=True).show([(("─█", "bold"), ("· fine", ""))])
    stream.seek(0)

    assert stream.read() == "-#. fine\n"


def test_as_a_module() -> None:
    """`python -m samekey` is the command."""
    done = run("demo", "--payments", "3", "--faults", "0", "--json")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ok"] is True


def test_importing_starts_nothing() -> None:
    """Tools that import every module of a package run no demo."""
    importlib.import_module("samekey.__main__")


def test_version() -> None:
    """The version is that of the package."""
    assert run("--version").stdout == f"samekey {samekey.__version__}\n"


def test_console_script() -> None:
    """The installed command is the same."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("samekey")), "--version"], capture_output=True, text=True, check=True
    )

    assert done.stdout.startswith("samekey ")


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Alone it shows its help; that is no success."""
    assert main([]) == 2

    assert "demo" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    [
        ["--payments", "0"],
        ["--payments", "10000"],
        ["--payments", "many"],
        ["--faults", "0.9"],
        ["--faults", "-1"],
        ["--faults", "nan"],
        ["--faults", "few"],
        ["--seed", "x"],
    ],
)
def test_wrong_options(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A number out of range is refused, with the range."""
    with pytest.raises(SystemExit) as caught:
        main(["demo", *wrong])

    assert caught.value.code == 2
    assert repr(wrong[1]) in capsys.readouterr().err


def test_reader_leaves() -> None:
    """A pipe that is closed (`| head`) ends it without a traceback."""
    command = [sys.executable, "-m", "samekey", "demo", "--payments", "3", "--faults", "0", "--plain"]
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writes)

    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends it with the usual code; payments that have not begun are left alone."""
    paid = []

    def pay(client: httpx.Client, payment: Payment) -> list[object]:
        paid.append(payment)
        if len(paid) > 1:
            time.sleep(0.01)  # long enough for the first one's end to be heard
        raise KeyboardInterrupt

    monkeypatch.setattr(_demo, "pay_plainly", pay)

    assert main(["demo", "--payments", "500", "--json"]) == 130
    assert len(paid) < 500


# -- the payments and the faults


def test_same_seed_same_payments() -> None:
    """A seed stands for its payments; a few of them are declined."""
    first, again, other = (payments_of(Settings(seed=seed)) for seed in (1, 1, 2))

    assert first == again != other
    assert 0 < sum(payment.declined for payment in first) < 30


def test_same_seed_same_faults() -> None:
    """What a request meets depends on seed, order and how often it came, and on nothing else."""
    settings = Settings(seed=1)
    drawn = [fault_of(settings, f"order-{order}", visit) for order in range(300) for visit in range(1, 5)]

    assert drawn == [fault_of(settings, f"order-{order}", visit) for order in range(300) for visit in range(1, 5)]
    assert 0.25 < sum(name != "" for name, _ in drawn) / len(drawn) < 0.4
    assert {fault_of(settings, f"order-{order}", LAST_FAULT + 1)[0] for order in range(300)} == {""}


def test_slow_outlasts_the_clients() -> None:
    """Or "in progress" would never be seen."""
    assert SLOW > READ_TIMEOUT


def test_books_wait_for_work_under_way() -> None:
    """A charge that is still being made when the last client has left is in the books."""
    bank = Bank(Settings())
    slow = next(number for number in range(1, 999) if fault_of(Settings(), f"order-{number}", 1)[0] == "slow work")
    payment = Payment(f"order-{slow}", 100)
    timeout = httpx.Timeout(0.05)
    with httpx.Client(transport=bank.server.transport(), base_url="http://bank", timeout=timeout) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/charges", json=payment.body())

        books = bank.close_books()

    assert [charge.id for charge in books.charges[payment.order]] == ["ch_1"]
    assert books.met[payment.order] == ["slow work"]


# -- the two ways


def decline(request: ReceivedRequest) -> Reply:
    return Reply.of_json(402, {"error": {"code": "card_declined"}})


@pytest.fixture
def pay() -> Iterator[Callable[..., list[object]]]:
    """Pay through samekey at a server that keeps meeting one fault."""

    def send(fault: object, handler: object = None, way: object = pay_with_samekey) -> list[object]:
        server = LedgerServer(handler)  # type: ignore[arg-type]
        server.script(then=fault)  # type: ignore[arg-type]
        client = httpx.Client(transport=server.transport(), base_url="http://bank")
        with samekey.wrap(client) if way is pay_with_samekey else client:
            told = way(client, Payment("order-1", 100))  # type: ignore[operator]
        return [statement.outcome for statement in told]

    with no_waiting():
        yield send


def test_unknown_is_taken_up_again(pay: Callable[..., list[object]]) -> None:
    """An unknown outcome is asked about again with the same key, but not for ever."""
    assert pay(faults.lost()) == [Outcome.UNKNOWN] * CALLS


def test_never_sent_is_not_taken_up_again(pay: Callable[..., list[object]]) -> None:
    """What cannot have happened needs no second look."""
    assert pay(faults.refuse()) == [Outcome.NOT_SENT]


def test_refusals(pay: Callable[..., list[object]]) -> None:
    """A decline is a decline, either way."""
    assert pay(faults.ok(), decline) == [Outcome.REJECTED]
    assert pay(faults.ok(), decline, pay_plainly) == [Outcome.REJECTED]


def test_plain_failure(pay: Callable[..., list[object]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The common layer says "failed" when its attempts are used up, whatever that means."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)

    assert pay(faults.status(503), None, pay_plainly) == [None]
    assert pay(faults.ok(), None, pay_plainly) == [Outcome.EXECUTED]
