"""Table and picture for the docs, from the figures of a storm.

python -m tests.storm.render docs/assets/storm.json docs/assets/storm.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .picture import picture
from .report import markdown
from .result import Result


def results_in(path: Path) -> list[Result]:
    """The results in a file that ``python -m tests.storm --json`` wrote."""
    return [Result(**content) for content in json.loads(path.read_text())]


def main(figures: Path, drawing: Path) -> None:
    """Draw the picture, and print the table."""
    results = results_in(figures)
    drawing.write_text(picture(results))
    print(markdown(results), end="")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
