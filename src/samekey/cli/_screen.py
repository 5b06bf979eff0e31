"""Where lines and progress go: through rich on a terminal, as plain text everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from ._show import Line

ASCII = str.maketrans({"─": "-", "█": "#", "·": "."})
"""For a terminal or pipe that cannot show the drawing characters."""

Track = Callable[[str], Callable[[], None]]
"""Begin a named stretch of work; what it returns is called after each piece."""

MISSING = "(the live display and colours need rich: install the extra samekey[cli], or rich alone)"


class Screen:
    """Results go to standard output, progress to standard error, so that a pipe gets results only.

    Args:
        plain: Neither colours nor a live display.
        quiet: No progress unless it is a live display.
        results: Where results go instead of standard output.
    """

    def __init__(self, *, plain: bool, quiet: bool, results: TextIO | None = None) -> None:
        self._quiet = quiet
        self._out = results
        self._results: Console | None = None
        self._live: Console | None = None
        if plain:
            return
        try:
            from rich.console import Console
        except ImportError:
            self._error(f"{MISSING}\n")
            return
        self._results = Console(file=results, highlight=False, soft_wrap=True)
        console = Console(stderr=True, highlight=False)
        self._live = console if console.is_terminal and not console.is_dumb_terminal else None

    def show(self, lines: Iterable[Line]) -> None:
        """Print *lines*."""
        out = self._out or sys.stdout
        for line in lines:
            if self._results is None:
                text = "".join(text for text, _ in line)
                out.write(f"{_fitting(text, out.encoding)}\n")
            else:
                from rich.text import Text

                encoding = self._results.encoding
                self._results.print(Text.assemble(*((_fitting(text, encoding), style) for text, style in line)))
        out.flush()

    @contextmanager
    def progress(self, total: int) -> Iterator[Track]:
        """Show how far the work is while the block runs; each stretch has *total* pieces."""
        if self._live is None:
            yield self._line
            self._error("")
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:18}"), BarColumn(36), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._live) as bars:

            def track(name: str) -> Callable[[], None]:
                task = bars.add_task(name, total=total)
                return lambda: bars.advance(task)

            yield track
        self._live.print()

    def _line(self, name: str) -> Callable[[], None]:
        self._error(f"sending them through {name} ...")
        return lambda: None

    def _error(self, text: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def _fitting(text: str, encoding: str | None) -> str:
    """*text*, its drawing characters replaced if *encoding* has none."""
    try:
        text.encode(encoding or "ascii")
    except UnicodeEncodeError:
        return text.translate(ASCII)
    return text
