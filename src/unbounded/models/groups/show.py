"""Topics in words and pictures: for the summary of a fit, and for the report of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Shown, WholeDraws
from unbounded.models.groups import point_estimate as topics
from unbounded.models.groups.shard import GroupHyper
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.labelled.packing import unpacked
from unbounded.report import svg
from unbounded.report.parts import bar, cell, charts, figure_with_legend, paragraph, row, table, text
from unbounded.report.svg import Frame, Range
from unbounded.report.words import counted, interval, listed

if TYPE_CHECKING:
    from unbounded.models.groups.estimator import HierarchicalDirichletProcess

_LISTED = 40


def summary(estimator: HierarchicalDirichletProcess) -> list[str]:
    empty = estimator.n_empty_ if hasattr(estimator, "n_empty_") else 0
    return [
        f"groups               {len(estimator.proportions_):,}" + (f" ({empty:,} of them empty)" if empty else ""),
        f"tokens or rows       {len(estimator.labels_):,}",
        f"topics (estimate)    {counted(estimator.n_topics_, estimator.n_above)}",
        f"topics (posterior)   {interval(estimator.posterior_['n_topics'])}",
        f"above 1% (posterior) {interval(estimator.posterior_['above_1%'])}",
        f"topic shares         {listed([f'{share:.3g}' for share in estimator.topic_shares_])}",
    ]


def units(likelihood: str) -> dict[str, str]:
    """What rows, columns and groups are called: of words, as people speak of documents."""
    if likelihood != Tokens.__name__:
        return {}
    return {"rows": "tokens", "columns": "words in the vocabulary", "groups": "documents"}


class _Topics(NamedTuple):
    shares: Array
    history: Array  # [snapshots, topics]
    words: Sequence[Sequence[str]] | None  # None: the rows are not words


def show(run: WholeDraws, at_hand: Mapping[str, Any]) -> Shown:
    """Shares of the topics of the reference draw, with their most probable words."""
    snapshots = [snapshot for snapshot, _ in run.draws]
    named = topics.reference([snapshot["labels"] for snapshot in snapshots])
    spreads = [topics.spread(snapshot["labels"], named) for snapshot in snapshots]
    history = [topics.sizes(snapshot["counts"], share) for snapshot, share in zip(snapshots, spreads, strict=True)]
    words = None
    if run.config["likelihood"].get("name") == Tokens.__name__:
        words = _top_words(snapshots, spreads, _vocabulary(snapshots, run.about, at_hand.get("vocabulary")))
    found = _Topics(np.bincount(named) / len(named), np.array(history), words)
    return Shown(found.shares, "".join(_content(found)))


def _top_words(snapshots: Sequence[Arrays], spreads: Sequence[Array], vocabulary: list[str]) -> list[list[str]]:
    statistics = [unpacked(snapshot, len(vocabulary)) for snapshot in snapshots]
    top = topics.top_words(spreads, statistics, [GroupHyper.of(snapshot["hyper"]).pseudo for snapshot in snapshots])
    return [[vocabulary[w] for w in words] for words in top]


def _vocabulary(snapshots: Sequence[Arrays], about: Mapping[str, Any], given: Sequence[str] | None) -> list[str]:
    """Words of the columns: as given, or their numbers."""
    least = max(map(_n_words, snapshots))
    if given is not None and len(given) >= least:
        return list(given)
    return [str(w) for w in range(max(int(about.get("columns", 0)), least))]


def _n_words(snapshot: Arrays) -> int:
    if "indptr" in snapshot:
        return int(snapshot["indices"].max(initial=-1)) + 1
    return int(snapshot["statistics"].shape[1])


def _content(found: _Topics) -> list[str]:
    top = max(float(found.shares.max(initial=0.0)), 1e-9)
    rows = [
        row(
            f"topic {k}",
            cell(f"{share:.2%}", "share"),
            *([] if found.words is None else [cell(text(" ".join(found.words[k])), "", "text wide")]),
            cell(bar(share / top), "", "track wide"),
        )
        for k, share in enumerate(found.shares[:_LISTED])
    ]
    words = [] if found.words is None else ["most probable words"]
    content = [table(["topic", "share", *words, ""], rows, left=(0, 2))]
    rest = len(found.shares) - _LISTED
    if rest > 0:
        content.append(paragraph(f"{rest} smaller topics are not listed.", quiet=True))
    return [*content, charts([_history(found)])]


def _history(found: _Topics) -> str:
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
    return figure_with_legend(drawing, caption, names, "line")
