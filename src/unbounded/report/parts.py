"""Pieces of HTML that a report is put together from, and its pictures of atoms. Text that comes in is escaped here."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.report import svg
from unbounded.report.svg import Frame, Range
from unbounded.report.view import Clusters, Features, Plane, Topics, View

NOTHING = "\N{EN DASH}"
_LEGEND, _TOPICS, _TILES, _BARS = 20, 40, 60, 200


def text(value: Any) -> str:
    return html.escape(str(value), quote=True)


def section(title: str, *content: str) -> str:
    return f"<section><h2>{text(title)}</h2>{''.join(content)}</section>"


def paragraph(words: str, quiet: bool = False) -> str:
    return f"<p{' class=quiet' if quiet else ''}>{text(words)}</p>"


def figure(drawing: str, caption: str = "") -> str:
    return f"<figure>{drawing}{f'<figcaption>{text(caption)}</figcaption>' if caption else ''}</figure>"


def charts(figures: Sequence[str]) -> str:
    return f'<div class="charts">{"".join(figures)}</div>'


def legend(names: Sequence[str], kind: str) -> str:
    """Samples of the looks; past twenty, dots."""
    items = [f"<li>{svg.swatch(rank, kind)}{text(name)}</li>" for rank, name in enumerate(names[:_LEGEND])]
    more = f"<li>and {len(names) - _LEGEND} more</li>" if len(names) > _LEGEND else ""
    return f'<ul class="legend">{"".join(items)}{more}</ul>'


def number(value: float, digits: int = 4) -> str:
    """A number as people write it."""
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
    """A cell that carries its column's name, for phones; the content is HTML."""
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


# ---- pictures of atoms


def atoms(view: View) -> str:
    if isinstance(view.atoms, Clusters):
        return section("Clusters", *_clusters(view.atoms))
    if isinstance(view.atoms, Topics):
        return section("Topics", *_topics(view.atoms))
    if isinstance(view.atoms, Features):
        return section("Features", *_features(view.atoms))
    return ""


def _clusters(found: Clusters) -> list[str]:
    sizes = np.bincount(found.labels)
    shown = [figure(_sizes(sizes, "cluster", "rows"), "Rows of each cluster of the point estimate, largest first.")]
    shown.append(figure(_similarity(found.similarity), _SIMILARITY))
    if found.plane is not None:
        shown.insert(0, _scatter(found.plane, sizes))
    return [charts(shown), _scale(0.0, 1.0, "cividis", "probability of sharing a cluster")]


_SIMILARITY = "Posterior probability that two rows share a cluster, for some rows in the order of their clusters."


def _sizes(sizes: Array, atom: str, unit: str) -> str:
    """The largest atoms' sizes as bars."""
    shown = sizes[:_BARS]
    edges = np.arange(len(shown) + 1) - 0.5
    frame = Frame(
        Range(-0.5, len(shown) - 0.5, atom, svg.ticks(-0.5, len(shown) - 0.5, 6, whole=True)),
        Range.around(shown, unit, whole=bool((shown == np.rint(shown)).all()), zero=True),
        220,
    )
    most = f"{len(sizes)} {atom}s, the largest with {number(float(sizes[0]))} {unit}" if len(sizes) else f"no {atom}"
    return frame.chart([svg.bars(frame, edges, shown)], f"Sizes: {most}.")


def _scatter(plane: Plane, sizes: Array) -> str:
    x, y = plane.points.T
    frame = Frame(Range.around(x, plane.names[0]), Range.around(y, plane.names[1]), 300)
    marks = [svg.points(frame, x[plane.labels == k], y[plane.labels == k], k) for k in range(len(sizes))]
    alt = f"{len(x):,} rows in two dimensions, coloured by {len(sizes)} clusters."
    names = [f"{k} ({size:,} rows)" for k, size in enumerate(sizes)]
    caption = f"{len(x):,} of {sizes.sum():,} rows, coloured by cluster."
    drawing = frame.chart(marks, alt)
    return f"<figure>{drawing}<figcaption>{text(caption)}{legend(names, 'points')}</figcaption></figure>"


def _similarity(matrix: Array) -> str:
    n = len(matrix)
    axis = [svg.ticks(0, n, 5, whole=True)] * 2
    name = "row, ordered by cluster"
    frame = Frame(Range(0, n, name, axis[0]), Range(0, n, name, axis[1]), 340)
    pixels = svg.coloured(matrix[::-1], 0.0, 1.0, "cividis")
    return frame.chart([svg.raster(frame, pixels)], f"Heat map of co-clustering probabilities of {n} rows.")


def _scale(low: float, high: float, colours: str, name: str) -> str:
    pixels = svg.coloured(np.linspace(0, 1, 64)[None], 0.0, 1.0, colours)
    ends = f"{number(low)}</span>", f"<span>{number(high)}: {text(name)}</span>"
    return f'<div class="scale"><span>{ends[0]}<img src="{svg.png(pixels)}" alt="colour scale">{ends[1]}</div>'


def _topics(found: Topics) -> list[str]:
    top = max(float(found.shares.max(initial=0.0)), 1e-9)
    rows = [
        row(
            f"topic {k}",
            cell(f"{share:.2%}", "share"),
            *([] if found.words is None else [cell(text(" ".join(found.words[k])), "", "text wide")]),
            cell(bar(share / top), "", "track wide"),
        )
        for k, share in enumerate(found.shares[:_TOPICS])
    ]
    words = [] if found.words is None else ["most probable words"]
    listed = table(["topic", "share", *words, ""], rows, left=(0, 2))
    rest = len(found.shares) - _TOPICS
    more = [paragraph(f"{rest} smaller topics are not listed.", quiet=True)] if rest > 0 else []
    return [listed, *more, charts([_history(found)])]


def _history(found: Topics) -> str:
    """Shares of the largest topics over the draws that were kept."""
    largest = found.history[:, : svg.N_COLOURS]
    at = np.arange(len(largest))
    frame = Frame(
        Range.around(at, "whole draw", whole=True), Range.around(largest, "share of all tokens or rows", zero=True), 240
    )
    marks = [svg.line(frame, at, largest[:, k], k) for k in range(largest.shape[1])]
    drawing = frame.chart(marks, f"Shares of the {largest.shape[1]} largest topics over {len(at)} whole draws.")
    names = [f"topic {k}" for k in range(largest.shape[1])]
    caption = "Shares of the largest topics over the whole draws, chain after chain."
    return f"<figure>{drawing}<figcaption>{text(caption)}{legend(names, 'line')}</figcaption></figure>"


def _features(found: Features) -> list[str]:
    if not len(found.components):
        return [paragraph("No feature is in at least half of the whole draws.")]
    most = float(np.abs(found.components).max()) or 1.0
    usage = figure(
        _sizes(found.usage, "feature", "mean use per row"), "How much of each feature a row uses on average."
    )
    tiles = [_tile(found, k, most) for k in range(min(len(found.components), _TILES))]
    pictures = f'<div class="tiles">{"".join(tiles)}</div>' if found.shape else charts([_loadings(found, most)])
    return [pictures, _scale(-most, most, "RdBu_r", "loading"), charts([usage])]


def _tile(found: Features, k: int, most: float) -> str:
    pixels = svg.coloured(found.components[k].reshape(found.shape or (1, -1)), -most, most, "RdBu_r")
    alt = f"Loadings of feature {k}"
    return figure(f'<img src="{svg.png(pixels)}" alt="{alt}">', f"{k}: {found.usage[k]:.2g} per row").replace(
        "<figure>", '<figure class="tile">'
    )


def _loadings(found: Features, most: float) -> str:
    """All features as lines of one picture."""
    K, D = found.components.shape
    frame = Frame(
        Range(-0.5, D - 0.5, "column", svg.ticks(-0.5, D - 0.5, 6, whole=True)),
        Range(K - 0.5, -0.5, "feature", svg.ticks(-0.5, K - 0.5, 6, whole=True)),
        int(np.clip(80 + 16 * K, 140, 420)),
    )
    drawing = svg.raster(frame, svg.coloured(found.components, -most, most, "RdBu_r"))
    return figure(frame.chart([drawing], f"Loadings of {K} features on {D} columns."), "Loadings of the features.")
