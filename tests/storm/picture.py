"""The picture: of each contender's payments, how many were doubled, lost and falsely reported."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from .result import Result

WIDTH = 760
LEFT = 210
RIGHT = 90
BAR = 12
GAP = 26
TOP = 92
KINDS = (("doubled", "#c0392b"), ("lost", "#d68910"), ("false reports", "#7d3c98"))
_FONT = 'font-family="sans-serif" font-size="13"'
_TITLE = "Payments that went wrong in the storm"


def picture(results: Sequence[Result]) -> str:
    """An SVG, readable on light and dark pages."""
    shares = [[result.doubled, result.lost, result.false] for result in results]
    rates = [[100 * count / result.operations for count in row] for row, result in zip(shares, results, strict=True)]
    longest = max((rate for row in rates for rate in row), default=0.0) or 1.0
    step = len(KINDS) * BAR + GAP
    height = TOP + step * len(results) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {_FONT} role="img">',
        "<title>The storm: doubled, lost and falsely reported payments</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="17" font-weight="bold" fill="#222">{_TITLE}</text>',
        f'<text x="16" y="48" fill="#555">{escape(_about(results))}</text>',
    ]
    for number, (name, colour) in enumerate(KINDS):
        at = 16 + 130 * number
        parts.append(f'<rect x="{at}" y="62" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{at + 18}" y="73" fill="#222">{name}</text>')
    for place, (result, row) in enumerate(zip(results, rates, strict=True)):
        top = TOP + step * place
        parts.append(
            f'<text x="{LEFT - 12}" y="{top + 23}" text-anchor="end" fill="#222">{escape(result.title)}</text>'
        )
        for number, (rate, (_, colour)) in enumerate(zip(row, KINDS, strict=True)):
            y = top + number * BAR
            width = rate / longest * (WIDTH - LEFT - RIGHT)
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{max(width, 1):.1f}" height="{BAR - 2}" fill="{colour}"/>')
            parts.append(
                f'<text x="{LEFT + width + 6:.1f}" y="{y + 9}" font-size="10" fill="#222">{_shown(rate)}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _shown(rate: float) -> str:
    return f"{rate:.2f} %" if rate else "0"


def _about(results: Sequence[Result]) -> str:
    numbers = {result.contender: result.operations for result in results}
    mine, others = numbers.get("samekey"), [count for name, count in numbers.items() if name != "samekey"]
    told = [f"samekey: {mine:,} payments"] if mine else []
    told += [f"each of the others: {max(others):,}"] if others else []
    return "; ".join(told) + "; one weather for all"
