"""Figures of topics, drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unbounded.arrays import Array
from unbounded.report.phrases import without_math
from unbounded.report.plots import GREY, MAX_LEGEND, looks, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def topics(history: Array, names: Sequence[str] | None = None) -> Figure:
    """Shares of the largest topics over the draws that were kept [draws, topics], largest first, and of all others."""
    figure = new_figure(9.0, 5.0)
    axes = figure.subplots()
    shown = min(history.shape[1], MAX_LEGEND)
    for k, look in zip(range(shown), looks(), strict=False):
        label = str(k) if names is None else f"{k}: {without_math(names[k])}"
        axes.plot(history[:, k], color=look.colour, marker=look.marker, markersize=4, linewidth=1.0, label=label)
    if shown < history.shape[1]:
        label = f"{history.shape[1] - shown} others"
        axes.plot(history[:, shown:].sum(1), color=GREY, linestyle="--", linewidth=1.0, label=label)
    axes.set_xlabel("draw that was kept")
    axes.set_ylabel("share of all tokens")
    axes.set_yscale("log")
    axes.grid(True, alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small", title="topic")
    return figure
