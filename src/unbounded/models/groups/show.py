"""Topics in words and pictures: for the summary of a fit, and for the report of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.family import Shown, WholeDraws
from unbounded.models.groups import point_estimate as topics
from unbounded.models.groups.measures import described
from unbounded.models.groups.shard import GroupHyper
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.labelled.packing import unpacked
from unbounded.models.mixtures import rows_shown
from unbounded.models.mixtures.describe import Mark
from unbounded.report import parts, svg
from unbounded.report.parts import bar, cell, charts, figure, figure_with_legend, help_, paragraph, row, table, text
from unbounded.report.phrases import counted, interval, listed
from unbounded.report.svg import Frame, Range

if TYPE_CHECKING:
    from unbounded.models.groups.estimator import HierarchicalDirichletProcess

_LISTED, _DRAWN, _WORDS, _BARS = 40, 9, 10, 8
_HIGH = 260  # of charts side by side
_ALIKE = 30  # topics that are compared with each other
PRESENT = 0.1  # a group has a topic if it has at least this share of its rows


def summary(estimator: HierarchicalDirichletProcess) -> list[str]:
    empty = estimator.n_empty_ if hasattr(estimator, "n_empty_") else 0
    estimate = [f"topics (estimate)    {counted(estimator.n_topics_, estimator.n_above)}"]
    shares = [f"topic shares         {listed([f'{share:.3g}' for share in estimator.topic_shares_])}"]
    return [
        f"groups               {len(estimator.proportions_):,}" + (f" ({empty:,} of them empty)" if empty else ""),
        f"tokens or rows       {len(estimator.labels_):,}",
        *(estimate if estimator._has_estimate else []),
        f"topics (posterior)   {interval(estimator.posterior_['n_topics'])}",
        f"above 1% (posterior) {interval(estimator.posterior_['above_1%'])}",
        *(shares if estimator._has_estimate else []),
    ]


def units(likelihood: str) -> dict[str, str]:
    """What rows, columns and groups are called: of words, as people speak of documents."""
    if likelihood != Tokens.__name__:
        return {}
    return {"rows": "words", "columns": "different words", "groups": "documents", "scored": "word"}


class _Topics(NamedTuple):
    shares: Array
    history: Array  # [snapshots, topics]
    vocabulary: Sequence[str] | None  # None: the rows are not words
    words: Array | None  # [topics, words] their probabilities
    marks: list[list[Mark]]  # what distinguishes each topic of rows; empty where the rows are not at hand
    present: Array | None  # the share of the groups that have each topic; None: what the groups are is not at hand

    @property
    def group(self) -> str:
        return "groups" if self.words is None else "documents"

    @property
    def rows(self) -> str:
        return "rows" if self.words is None else "words"

    def top(self, k: int, most: int) -> list[tuple[str, float]]:
        assert self.words is not None
        assert self.vocabulary is not None
        order = np.argsort(-self.words[k], kind="stable")[:most]
        return [(self.vocabulary[w], float(self.words[k, w])) for w in order]


def show(run: WholeDraws, at_hand: Mapping[str, Any]) -> Shown:
    """Topics of the reference draw: their words, shares, how many groups have them, and how alike they are."""
    snapshots = [snapshot for snapshot, _ in run.draws]
    named = topics.reference([snapshot["labels"] for snapshot in snapshots])
    spreads = [topics.spread(snapshot["labels"], named) for snapshot in snapshots]
    history = [topics.sizes(snapshot["counts"], share) for snapshot, share in zip(snapshots, spreads, strict=True)]
    vocabulary = words = None
    if run.config["likelihood"].get("name") == Tokens.__name__:
        vocabulary = _vocabulary(snapshots, run.about, at_hand.get("vocabulary"))
        statistics = [unpacked(snapshot, len(vocabulary)) for snapshot in snapshots]
        measure = described(run.config["measure"]["name"])
        pseudo = [GroupHyper.of(measure, snapshot["hyper"]).content.pseudo for snapshot in snapshots]
        words = topics.word_probabilities(spreads, statistics, pseudo)
    amounts = np.bincount(named)
    shares, present = amounts / len(named), _present(named, run.about)
    if words is not None:
        found = _Topics(shares, np.array(history), vocabulary, words, [], present)
        return Shown(shares, "".join(_content(found)), (), _words(found), _word_bars(found))
    rows = rows_shown.rows_at_hand(at_hand.get("X"), len(named), run.config, at_hand.get("order"))
    if isinstance(rows, str):
        found = _Topics(shares, np.array(history), None, None, [], present)
        return Shown(shares, "".join(_content(found, False)), (rows,), _words(found), _history(found))
    found = _Topics(shares, np.array(history), None, None, rows_shown.marks(rows, named), present)
    picture = rows_shown.picture(rows, named, amounts, "topic")
    return Shown(shares, "".join(_content(found, True)), (), _words(found), picture)


def _vocabulary(snapshots: Sequence[Arrays], about: Mapping[str, Any], given: Sequence[str] | None) -> list[str]:
    """Words of the columns: as given, or their numbers."""
    least = max(map(_n_words, snapshots))
    if given is not None and len(given) >= least:
        return [str(word) for word in given]
    return [str(w) for w in range(max(int(about.get("columns", 0)), least))]


def _n_words(snapshot: Arrays) -> int:
    if "indptr" in snapshot:
        return int(snapshot["indices"].max(initial=-1)) + 1
    return int(snapshot["statistics"].shape[1])


def _present(named: Array, about: Mapping[str, Any]) -> Array | None:
    """The share of the groups that have each topic, if the run has recorded the sizes of groups."""
    sizes = np.array(about.get("group_sizes") or [], np.int64)
    if sizes.sum() != len(named):
        return None
    uses = np.zeros((len(sizes), int(named.max()) + 1))
    np.add.at(uses, (np.repeat(np.arange(len(sizes)), sizes), named), 1.0)
    filled = uses[sizes > 0] / sizes[sizes > 0, None]
    present: Array = (filled >= PRESENT).mean(0)
    return present


def _words(found: _Topics) -> tuple[str, ...]:
    """What the fit has found, and how sure it is."""
    large = found.shares >= 0.01
    rows = found.rows
    said = [f"{large.sum()} of them have at least 1% of all {rows} each, and {found.shares[large].sum():.0%} together."]
    if found.present is not None:
        most = int(found.present.argmax())
        said.append(
            f"Topic {most} is in {found.present[most]:.0%} of all {found.group}, with at least {PRESENT:.0%} of their "
            f"{rows}; "
            f"{'a document' if found.words is not None else 'a group'} has {found.present.sum():.1f} topics on average."
        )
    wanders = found.history[:, large].std(0) / np.maximum(found.history[:, large].mean(0), 1e-300)
    if len(found.history) > 1 and len(wanders):
        least = int(np.flatnonzero(large)[wanders.argmax()])
        said.append(f"Shares vary by {np.median(wanders):.1%} from draw to draw, most that of topic {least}.")
    return tuple(said)


_HELP = (
    "The topics are those of the draw that agrees best with all others. Share: of all {rows}. A topic that a chain has "
    "not settled on has a share that wanders from draw to draw. "
)
_LIKENESS = (
    "Probabilities of words are means over draws. Likeness compares the words of two topics: 1 if they have the same "
    "ones, 0 if they share none. Words that are common in all topics make all of them somewhat alike, so the colours "
    "begin at the least likeness of two topics."
)


def _content(found: _Topics, history: bool = True) -> list[str]:
    """history: whether shares over draws are among the details; else they are the picture above."""
    pictures = [] if found.present is None else [figure(_prevalence(found), _prevalence_words(found))]
    pictures += [_history(found)] if history else []
    alike = [_alike(found)] if found.words is not None and len(found.shares) > 1 else []
    said = _HELP.format(rows=found.rows) + (rows_shown.MEANING if found.words is None else _LIKENESS)
    return [_table(found), charts([*alike, *pictures]), help_("How to read this", said)]


def _table(found: _Topics) -> str:
    top = max(float(found.shares.max(initial=0.0)), 1e-9)
    columns = ["topic", "share", *([] if found.present is None else [f"of {found.group}"])]
    rows = []
    for k, share in enumerate(found.shares[:_LISTED]):
        cells = [cell(f"{share:.2%}", "share")]
        if found.present is not None:
            cells.append(cell(f"{found.present[k]:.0%}", f"of {found.group}"))
        if found.words is not None:
            words = " ".join(word for word, _ in found.top(k, _WORDS))
            cells.append(cell(text(words), "", "text wide"))
        if found.marks:
            cells.append(rows_shown.mark_cell(found.marks[k]))
        rows.append(row(f"topic {k}", *cells, cell(bar(share / top), "", "track wide")))
    said = ["most probable words"] if found.words is not None else ["what distinguishes it"] if found.marks else []
    heads = [*columns, *said, ""]
    rest = len(found.shares) - _LISTED
    more = paragraph(f"{rest} smaller topics are not listed.", quiet=True) if rest > 0 else ""
    return table(heads, rows, left=(0, len(columns))) + more


def _word_bars(found: _Topics) -> str:
    """The most probable words of the largest topics."""
    pictures = []
    for k in range(min(len(found.shares), _DRAWN)):
        words = found.top(k, _BARS)
        drawing = svg.named_bars(words, f"Most probable words of topic {k}: {', '.join(word for word, _ in words)}.")
        pictures.append(figure(drawing, f"Topic {k}: {found.shares[k]:.1%} of all words"))
    return f'<div class="words">{"".join(pictures)}</div>'


def _prevalence_words(found: _Topics) -> str:
    return f"How many of the {found.group} have at least {PRESENT:.0%} of each topic."


def _prevalence(found: _Topics) -> str:
    assert found.present is not None
    return parts.sizes(found.present, "topic", f"share of {found.group}", _HIGH)


def _alike(found: _Topics) -> str:
    """How much the largest topics have in common: the Bhattacharyya coefficient of their words."""
    assert found.words is not None
    roots = np.sqrt(found.words[:_ALIKE])
    likeness = np.clip(roots @ roots.T, 0.0, 1.0)
    n = len(likeness)
    close = likeness[~np.eye(n, dtype=bool)]
    low, high = min(float(close.min()), 0.9), float(close.max())
    across = Range(-0.5, n - 0.5, "topic", svg.ticks(-0.5, n - 0.5, 6, whole=True))
    frame = Frame(across, Range(n - 0.5, -0.5, "topic", across.ticks), _HIGH)
    drawing = frame.chart(
        [svg.raster(frame, svg.coloured(likeness, low, 1.0, "cividis"))], f"Likeness of {n} topics, by their words."
    )
    i, j = (int(v) for v in np.unravel_index((likeness - np.eye(n)).argmax(), likeness.shape))
    said = f"Likeness of topics. The two most alike are {min(i, j)} and {max(i, j)} ({high:.2f})."
    return figure(drawing, said, parts.scale(low, 1.0, "cividis", "likeness"))


def _history(found: _Topics) -> str:
    """Shares of the largest topics over the draws that were kept."""
    largest = found.history[:, : svg.N_COLOURS]
    at = np.arange(len(largest))
    frame = Frame(
        Range.around(at, "whole draw", whole=True),
        Range.around(largest, f"share of all {found.rows}", zero=True),
        _HIGH,
    )
    marks = [svg.line(frame, at, largest[:, k], k) for k in range(largest.shape[1])]
    drawing = frame.chart(marks, f"Shares of the {largest.shape[1]} largest topics over {len(at)} whole draws.")
    names = [f"topic {k}" for k in range(largest.shape[1])]
    caption = "Shares of the largest topics over the whole draws, chain after chain."
    return figure_with_legend(drawing, caption, names, "line")
