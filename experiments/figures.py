"""The look of all figures: one colour and line for each method, the Okabe-Ito colours, units on axes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.common import Run
from unbounded.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY = "#595959"
LETTERS = 13  # of the notes below a figure, in an inch
CLOCKS = {"critical_s": ("critical path", "-", None), "wall_s": ("wall time", "--", "white")}  # words, dash, marker


def figure(down: int, across: int, width: float = 3.3, height: float = 2.7, **options: Any) -> tuple[Figure, Any]:
    """A figure and its grid of axes [down, across]."""
    from matplotlib.figure import Figure

    whole = Figure(figsize=(width * across + 0.6, height * down + 0.9), layout="constrained", dpi=110)
    return whole, whole.subplots(down, across, squeeze=False, **options)


def band(axes: Axes, x: Array, runs: Array, look: dict[str, Any], label: str) -> None:
    """The mean of runs [seeds, points] with its standard error."""
    mean = np.mean(runs, axis=0)
    axes.plot(x, mean, label=label, **look)
    if len(runs) > 1:
        error = np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
        axes.fill_between(x, mean - error, mean + error, color=look["color"], alpha=0.2, linewidth=0)


def shades(number: int) -> list[Any]:
    """Colours of an ordered quantity, from dark to light, that differ in lightness."""
    from matplotlib import colormaps

    return [colormaps["viridis"](v) for v in np.linspace(0.0, 0.92, number)]


def doubling(axes: Axes, most: float) -> None:
    """A logarithmic axis of whole numbers."""
    axes.set_yscale("log", base=2)
    ticks = [2**i for i in range(int(np.ceil(np.log2(max(most, 2.0)))) + 1)]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])


def log_seconds(axes: Axes) -> None:
    """A logarithmic axis below, labelled at powers of ten only."""
    from matplotlib.ticker import NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())


def clocks(axes: Axes, x: Any, times: dict[str, Array], look: dict[str, Any], unit: str) -> None:
    """Milliseconds on both clocks: solid on the critical path, dashed on this machine."""
    for clock, (_, dash, filled) in CLOCKS.items():
        axes.plot(x, 1e3 * times[clock], **look | {"linestyle": dash, "markerfacecolor": filled})
    log_milliseconds(axes)
    axes.set_ylabel(f"time of a {unit} (ms)")


def log_milliseconds(axes: Axes) -> None:
    """A logarithmic axis at the side of what is drawn already, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high < 30.0 * low else (1.0, 3.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def clock_legend(axes: Axes) -> None:
    """Which line is which clock, whatever its colour."""
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=GREY, linestyle=dash, label=words) for words, dash, _ in CLOCKS.values()]
    axes.legend(handles=lines, frameon=False, fontsize="small")


def legend(whole: Figure, axes: Axes, title: str | None = None) -> None:
    """Above the figure, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    columns = int(whole.get_figwidth() * LETTERS / (max(map(len, labels)) + 10))
    columns = max(1, min(columns, len(labels)))
    whole.legend(handles, labels, title=title, loc="outside upper center", ncols=columns, frameon=False)


def noted(whole: Figure, run: Run, notes: Sequence[str]) -> Figure:
    """The figure, with what a reader must know of the run below it."""
    width = int(whole.get_figwidth() * LETTERS)
    whole.supxlabel(textwrap.fill("; ".join([*run.notes, *notes]), width), fontsize="small", color=GREY)
    return whole


def beyond_cores(most: int, run: Run) -> list[str]:
    """A note where there are more shards than cores: what P processors would take was not measured on P of them."""
    if most <= run.cores:
        return [f"{run.cores} cores"]
    critical = "critical path = slowest shard + global step, shards timed one by one"
    return [f"P up to {most} on {run.cores} cores: {critical}; wall time = all shards on those cores"]
