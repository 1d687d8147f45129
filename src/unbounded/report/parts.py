"""Pieces of HTML that a report is put together from. They escape the text that they are given."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.report import svg
from unbounded.report.phrases import escaped
from unbounded.report.svg import Frame, Range

NOTHING = "\N{EN DASH}"
_LEGEND, _BARS = 20, 200


def text(value: Any) -> str:
    return escaped(value)


def document(title: str, body: str) -> str:
    """A whole page with the style sheet inside; the body is HTML."""
    sheet = resources.files("unbounded.report").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{sheet}</style></head>\n<body>{body}</body></html>\n"
    )


def cards(listed: Sequence[tuple[str, str, str]]) -> str:
    """Numbers, each with a name and a remark: (name, number, remark)."""
    items = [f"<div><dt>{text(a)}</dt><dd>{text(b)}<small>{text(c)}</small></dd></div>" for a, b, c in listed]
    return f'<dl class="numbers">{"".join(items)}</dl>' if items else ""


def section(title: str, *content: str) -> str:
    return f"<section><h2>{text(title)}</h2>{''.join(content)}</section>"


def paragraph(words: str, quiet: bool = False) -> str:
    return f"<p{' class=quiet' if quiet else ''}>{text(words)}</p>"


def figure(drawing: str, caption: str = "", key: str = "") -> str:
    """key: what its colours mean, HTML."""
    return f"<figure>{drawing}{key}{f'<figcaption>{text(caption)}</figcaption>' if caption else ''}</figure>"


def figure_with_legend(
    drawing: str, caption: str, names: Sequence[str], kind: str, ranks: Sequence[int] | None = None
) -> str:
    return f"<figure>{drawing}<figcaption>{text(caption)}{legend(names, kind, ranks)}</figcaption></figure>"


def subsection(title: str, *content: str) -> str:
    return f"<h3>{text(title)}</h3>{''.join(content)}"


def help_(question: str, answer: str) -> str:
    """An answer that is shown when its question is opened."""
    return f'<details class="help"><summary>{text(question)}</summary><p>{text(answer)}</p></details>'


def tick() -> str:
    """A sign for what is good; no font needs to have it."""
    return '<svg class="tick-sign" viewBox="0 0 12 12" aria-hidden="true"><path d="M1.5 6.5L4.5 9.5L10.5 2.5"/></svg>'


def badge(word: str, good: bool | None) -> str:
    """A word in a coloured box; good: None if that is not known."""
    return f'<span class="badge {"unknown" if good is None else "good" if good else "bad"}">{text(word)}</span>'


def charts(figures: Sequence[str]) -> str:
    return f'<div class="charts">{"".join(figures)}</div>'


def legend(names: Sequence[str], kind: str, ranks: Sequence[int] | None = None) -> str:
    """A sample of each look, by its rank (default 0, 1, ...), with its name; past twenty, their number."""
    looks = range(len(names)) if ranks is None else ranks
    pairs = list(zip(looks, names, strict=True))[:_LEGEND]
    items = [f"<li>{svg.swatch(rank, kind)}{text(name)}</li>" for rank, name in pairs]
    more = f"<li>and {len(names) - _LEGEND} more</li>" if len(names) > _LEGEND else ""
    return f'<ul class="legend{" columns" if kind == "points" else ""}">{"".join(items)}{more}</ul>'


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits, or as a whole number where it is large."""
    if not np.isfinite(value):
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def seconds(value: float) -> str:
    if value < 0.001:
        return "under 1 ms"
    if value < 120:
        return f"{number(value, 3)} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def cell(content: str, name: str, classes: str = "") -> str:
    """A cell with the name of its column, which phones show; the content is HTML."""
    return f'<td data-name="{text(name)}"{f" class={chr(34)}{classes}{chr(34)}" if classes else ""}>{content}</td>'


def table(heads: Sequence[str], rows: Sequence[str], left: Sequence[int] = (0,)) -> str:
    names = "".join(
        f'<th scope="col"{" class=text" if k in left else ""}>{text(name)}</th>' for k, name in enumerate(heads)
    )
    return f'<table class="stack"><thead><tr>{names}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def row(head: str, *cells: str) -> str:
    return f'<tr><th scope="row">{text(head)}</th>{"".join(cells)}</tr>'


def bar(share: float) -> str:
    return f'<span class="bar" style="width:{100 * min(max(share, 0.0), 1.0):.1f}%"></span>'


def sizes(amounts: Array, atom: str, unit: str, height: int = 220) -> str:
    """The largest atoms' sizes as bars."""
    shown = amounts[:_BARS]
    edges = np.arange(len(shown) + 1) - 0.5
    frame = Frame(
        Range(-0.5, len(shown) - 0.5, atom, svg.ticks(-0.5, len(shown) - 0.5, 6, whole=True)),
        Range.around(shown, unit, whole=bool((shown == np.rint(shown)).all()), zero=True),
        height,
    )
    most = (
        f"{len(amounts)} {atom}s, the largest with {number(float(amounts[0]))} {unit}" if len(amounts) else f"no {atom}"
    )
    return frame.chart([svg.bars(frame, edges, shown)], f"Sizes: {most}.")


def scale(low: float, high: float, colours: str, name: str) -> str:
    """A bar of colours with the values of its ends."""
    pixels = svg.coloured(np.linspace(0, 1, 64)[None], 0.0, 1.0, colours)
    ends = f"{number(low, 3)}</span>", f"<span>{number(high, 3)}: {text(name)}</span>"
    return f'<div class="scale"><span>{ends[0]}<img src="{svg.png(pixels)}" alt="colour scale">{ends[1]}</div>'
