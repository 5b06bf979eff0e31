"""Bar charts as SVG, without a library: they read on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

ROW, LABEL, PLOT, NUMBER = 26, 170, 380, 90
OURS, OTHERS, TEXT, LINE = "#0d9488", "#94a3b8", "#64748b", "#cbd5e1"


def bars(title: str, values: Mapping[str, float], unit: str, *, note: str = "", mark: float | None = None) -> str:
    """One horizontal bar for each value; *mark* is a line to compare with."""
    top = max([*values.values(), mark or 0.0]) or 1.0
    height = 46 + ROW * len(values) + (22 if note else 0)
    width = LABEL + PLOT + NUMBER
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"',
        f' font-family="system-ui, sans-serif" font-size="13" fill="{TEXT}">',
        f"<title>{escape(title)}</title>",
        f'<text x="0" y="18" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for row, (name, value) in enumerate(values.items()):
        y = 34 + ROW * row
        long = max(1.0, value / top * PLOT)
        colour = OURS if name.startswith("samekey") else OTHERS
        parts += [
            f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LABEL}" y="{y}" width="{long:.1f}" height="{ROW - 8}" rx="2" fill="{colour}"/>',
            f'<text x="{LABEL + long + 6:.1f}" y="{y + 14}">{value:g}{escape(unit)}</text>',
        ]
    if mark is not None:
        x = LABEL + mark / top * PLOT
        bottom = 34 + ROW * len(values)
        parts.append(f'<line x1="{x:.1f}" y1="28" x2="{x:.1f}" y2="{bottom}" stroke="{LINE}" stroke-dasharray="4 3"/>')
    if note:
        parts.append(f'<text x="0" y="{height - 8}" font-size="12">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>", ""])
