"""Figures of a posterior. They are drawn on `Figure` objects, so that no display and no global state is touched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unbounded.arrays import Array

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito's colours, without black and with a darker yellow: distinct for all common kinds of colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*", "<", ">")  # 7 colours x 10 markers: 70 looks before one repeats
HATCHES = ("", "////", "....", "xxxx")

MAX_LEGEND = 20
GREY = "#595959"


def traces(posterior: xarray.Dataset) -> Figure:
    """The trace of every scalar with dimensions (chain, draw), beside a histogram of its draws."""
    names = [str(name) for name, values in posterior.data_vars.items() if set(values.dims) == {"chain", "draw"}]
    if not names:
        raise ValueError("the posterior has no variable with the dimensions (chain, draw).")
    figure = new_figure(9.0, 1.3 + 1.5 * len(names))
    grid = figure.subplots(len(names), 2, squeeze=False, sharey="row", width_ratios=(4, 1))
    for name, (left, right) in zip(names, grid, strict=True):
        _trace(left, right, posterior[name].transpose("chain", "draw"))
    for axes in grid[:-1, 0]:
        axes.tick_params(labelbottom=False)
    grid[-1, 0].set_xlabel("draw")
    grid[-1, 1].set_xlabel("share of draws")
    figure.align_ylabels(grid[:, 0])
    _chain_legend(figure, grid[0, 0])
    return figure


def _trace(left: Axes, right: Axes, values: xarray.DataArray) -> None:
    """One panel: a line for each chain, and the same chains' histograms on common bins, turned to share the axis."""
    draws = np.asarray(values.coords["draw"] if "draw" in values.coords else np.arange(values.sizes["draw"]))
    samples = np.asarray(values, float)
    bins = _bins(samples)
    for chain, (sample, look) in enumerate(zip(samples, looks(), strict=False)):
        left.plot(draws, sample, color=look.colour, linewidth=0.7, alpha=0.85, label=f"chain {chain}")
        heights = np.histogram(sample[np.isfinite(sample)], bins)[0] / max(len(sample), 1)
        right.stairs(heights, bins, orientation="horizontal", color=look.colour, linewidth=1.3)
    units = values.attrs.get("units")
    left.set_ylabel(f"{values.name} ({units})" if units else str(values.name))
    left.locator_params(axis="y", nbins=5, integer=_whole(samples))
    left.margins(x=0.01)
    right.set_xlim(left=0)
    right.locator_params(axis="x", nbins=3)


def _whole(samples: Array) -> bool:
    finite = samples[np.isfinite(samples)]
    return bool((finite == np.round(finite)).all())


def _bins(samples: Array) -> Array:
    """Bin edges for all chains; whole numbers get a bin each as long as they are few."""
    finite = samples[np.isfinite(samples)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if _whole(finite) and high - low <= 40:
        return np.arange(low - 0.5, high + 1.0)
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    return np.linspace(low, high, 31)


def _chain_legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if 1 < len(handles) <= MAX_LEGEND:
        legend = figure.legend(handles, labels, loc="outside upper center", ncols=min(len(handles), 8), frameon=False)
        for line in legend.get_lines():
            line.set_linewidth(2.0)


class Look(NamedTuple):
    """How an atom or a chain is drawn."""

    colour: str
    marker: str
    hatch: str


def looks() -> Iterator[Look]:
    """The look of the first atom, the second, ...: marker and hatch change when the colours begin again."""
    for rank in itertools.count():
        turn, colour = divmod(rank, len(COLOURS))
        yield Look(COLOURS[colour], MARKERS[turn % len(MARKERS)], HATCHES[turn % len(HATCHES)])


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; axes that are added to it make room for labels and legends by themselves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=120)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    return figure
