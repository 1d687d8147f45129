"""Figures of a posterior. They are drawn on `Figure` objects, so that no display and no global state is touched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.sources import Source

if TYPE_CHECKING:
    import xarray
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito's colours, without black and with a darker yellow: distinct for all common kinds of colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*", "<", ">")  # 7 colours x 10 markers: 70 looks before one repeats
HATCHES = ("", "////", "....", "xxxx")

_MAX_LEGEND = 20
_GREY = "#595959"


def traces(posterior: xarray.Dataset) -> Figure:
    """The trace of every scalar with dimensions (chain, draw), beside a histogram of its draws."""
    names = [str(name) for name, values in posterior.data_vars.items() if set(values.dims) == {"chain", "draw"}]
    if not names:
        raise ValueError("the posterior has no variable with the dimensions (chain, draw).")
    figure = _figure(9.0, 1.3 + 1.5 * len(names))
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
    for chain, (sample, look) in enumerate(zip(samples, _looks(), strict=False)):
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
    if 1 < len(handles) <= _MAX_LEGEND:
        legend = figure.legend(handles, labels, loc="outside upper center", ncols=min(len(handles), 8), frameon=False)
        for line in legend.get_lines():
            line.set_linewidth(2.0)


def clusters(X: Any, labels: Array, names: Sequence[str] | None = None, max_rows: int = 20000) -> Figure:
    """The rows coloured by cluster: a histogram of one column, a scatter of two, or of two principal components.

    `names` are those of the columns. Of more than `max_rows` rows, evenly spaced ones are drawn; rows with missing
    entries are left out. The legend counts all rows.
    """
    X, labels = X if isinstance(X, Source) else np.asarray(X), np.asarray(labels)
    if len(X) != len(labels):
        raise ValueError(f"there are {len(labels)} labels for {len(X)} rows.")
    shown = np.linspace(0, len(X) - 1, min(len(X), max_rows)).astype(int)
    rows = X[shown].astype(float)
    rows = rows if rows.ndim == 2 else rows[:, None]
    complete = np.isfinite(rows).all(1)
    points, axis_names = plane(rows[complete], names)
    groups, sizes = labels[shown[complete]], _sizes(labels)
    figure = _figure(8.0, 5.5)
    axes = figure.subplots()
    draw = _histograms if points.shape[1] == 1 else _scatter
    _size_legend(figure, sizes, draw(axes, points, groups, list(sizes)))
    axes.set_xlabel(axis_names[0])
    axes.set_ylabel(axis_names[1])
    _say_missing(axes, len(points), len(labels))
    return figure


def _sizes(labels: Array) -> dict[Any, int]:
    """Cluster -> number of rows, largest first: a cluster's look is its rank, the same in every figure."""
    values, counts = np.unique(labels, return_counts=True)
    order = np.lexsort((values, -counts))
    return {values[k]: int(counts[k]) for k in order}


def plane(X: Array, names: Sequence[str] | None) -> tuple[Array, list[str]]:
    """At most two coordinates of the rows, and what the axes are called."""
    if X.shape[1] > 2:
        return _principal(X)
    names = list(names or [f"column {d}" for d in range(X.shape[1])])
    return X, [*names, "rows per bin"][:2]


def _principal(X: Array) -> tuple[Array, list[str]]:
    """Scores on the first two principal components of the columns, each scaled to unit variance."""
    centred = X - X.mean(0) if len(X) else X
    scale = centred.std(0) if len(X) else np.ones(X.shape[1])
    centred = centred / np.where(scale > 0, scale, 1.0)
    variances, axes = np.linalg.eigh(centred.T @ centred)
    variances, axes = variances[::-1][:2] / max(variances.sum(), 1e-300), axes[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), [0, 1]])
    kinds = [f"principal component {k + 1} ({share:.0%} of variance)" for k, share in enumerate(variances)]
    return centred @ axes, kinds


class _Look(NamedTuple):
    colour: str
    marker: str
    hatch: str


def _looks() -> Iterator[_Look]:
    """The look of the first cluster, the second, ...: marker and hatch change when the colours begin again."""
    for rank in itertools.count():
        turn, colour = divmod(rank, len(COLOURS))
        yield _Look(COLOURS[colour], MARKERS[turn % len(MARKERS)], HATCHES[turn % len(HATCHES)])


def _scatter(axes: Axes, points: Array, labels: Array, order: Sequence[Any]) -> list[Artist]:
    """Large clusters first, so that small ones lie on top of them; many points are small and translucent."""
    from matplotlib.lines import Line2D

    area, alpha = np.clip(60_000 / max(len(points), 1), 8, 28), np.clip(2500 / max(len(points), 1), 0.4, 0.8)
    samples: list[Artist] = []
    for cluster, (colour, marker, _) in zip(order, _looks(), strict=False):
        x, y = points[labels == cluster].T
        axes.scatter(x, y, s=area, c=colour, marker=marker, alpha=alpha, linewidths=0, rasterized=len(points) > 5000)
        samples.append(Line2D([], [], color=colour, marker=marker, linestyle=""))
    return samples


def _histograms(axes: Axes, points: Array, labels: Array, order: Sequence[Any]) -> list[Artist]:
    """Clusters stacked on common bins, so that the outline is the histogram of all rows."""
    from matplotlib.patches import Patch

    bins = np.histogram_bin_edges(points, 60)
    base = np.zeros(len(bins) - 1)
    samples: list[Artist] = []
    for cluster, (colour, _, hatch) in zip(order, _looks(), strict=False):
        style: dict[str, Any] = {"facecolor": colour, "edgecolor": "white", "hatch": hatch, "linewidth": 0}
        top = base + np.histogram(points[labels == cluster], bins)[0]
        axes.stairs(top, bins, baseline=base, fill=True, **style)
        samples.append(Patch(**style))
        base = top
    axes.set_ylim(bottom=0)
    return samples


def _size_legend(figure: Figure, sizes: dict[Any, int], samples: list[Artist]) -> None:
    """A sample of each cluster's look with its size; past 20 clusters, dots."""
    from matplotlib.patches import Patch

    texts = [f"{cluster} ({size:,})" for cluster, size in sizes.items()]
    if len(texts) > _MAX_LEGEND:
        texts, samples = [*texts[:_MAX_LEGEND], "..."], [*samples[:_MAX_LEGEND], Patch(visible=False)]
    figure.legend(samples, texts, title="cluster (rows)", loc="outside right upper", frameon=False)


def _say_missing(axes: Axes, shown: int, n_rows: int) -> None:
    if shown < n_rows:
        axes.set_title(f"{shown:,} of {n_rows:,} rows shown", fontsize="small", color=_GREY, loc="right")


def similarity(matrix: Array, order: Array | None = None) -> Figure:
    """A heat map of co-clustering probabilities; `order` has a label for each row, by which rows are sorted."""
    matrix = np.asarray(matrix, float)
    figure = _figure(6.6, 5.6)
    axes = figure.subplots()
    if order is not None:
        rank = np.argsort(order, kind="stable")
        matrix = matrix[np.ix_(rank, rank)]
        _boundaries(axes, np.asarray(order)[rank])
    image = axes.imshow(matrix, cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="probability of sharing a cluster", shrink=0.85)
    axes.set_xlabel("row" if order is None else "row, ordered by cluster")
    axes.set_ylabel(axes.get_xlabel())
    axes.spines[:].set_visible(False)
    return figure


def _boundaries(axes: Axes, ordered: Array) -> None:
    """Thin lines between the clusters, while they are few enough to leave the picture visible."""
    edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 0.5
    for edge in edges if len(edges) < 40 else ():
        axes.axhline(edge, color="white", linewidth=0.6)
        axes.axvline(edge, color="white", linewidth=0.6)


def features(components: Array, shape: tuple[int, int] | None = None, usage: Array | None = None) -> Figure:
    """Features as images of the given shape (rows, columns), with zero in white and the same colours for all of them.

    Without a shape, one picture with a line for each feature. `usage`: how much of each a row uses on average.
    """
    components = np.asarray(components, float)
    if shape is not None and shape[0] * shape[1] != components.shape[1]:
        raise ValueError(f"a shape of {shape[0]} x {shape[1]} does not fit {components.shape[1]} columns.")
    most = float(np.abs(components).max(initial=0.0)) or 1.0
    look: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "interpolation": "nearest"}
    labels = [f"{k}" + ("" if usage is None else f" ({usage[k]:.2g})") for k in range(len(components))]
    name = "feature" + ("" if usage is None else " (mean use per row)")
    if shape is None or not len(components):
        figure, image, all_axes = _lines(components, labels, name, look)
    else:
        figure, image, all_axes = _images(components, shape, labels, name, look)
    figure.colorbar(image, ax=all_axes, label="loading", shrink=0.8)
    return figure


def _images(components: Array, shape: tuple[int, int], labels: Sequence[str], name: str, look: dict[str, Any]) -> Any:
    """A grid of images with their labels below."""
    across = min(len(components), max(4, int(np.ceil(np.sqrt(1.6 * len(components))))))
    down = -(-len(components) // across)
    tall = np.clip(shape[0] / shape[1], 0.5, 2.0)
    figure = _figure(1.4 + 1.1 * across, 0.6 + (1.1 * tall + 0.3) * down)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, component, label in zip(grid.flat, components, labels, strict=False):
        axes.set_axis_on()
        image = axes.imshow(component.reshape(shape), **look)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color(_GREY)
        axes.spines[:].set_linewidth(0.5)
        axes.set_xlabel(label, fontsize="small")
    figure.supxlabel(name, fontsize="small", color=_GREY)
    return figure, image, list(grid.flat)


def _lines(components: Array, labels: Sequence[str], name: str, look: dict[str, Any]) -> Any:
    figure = _figure(8.0, float(np.clip(1.5 + 0.3 * len(components), 2.5, 12.0)))
    axes = figure.subplots()
    image = axes.imshow(components if len(components) else np.zeros((1, components.shape[1])), aspect="auto", **look)
    step = max(1, len(labels) // 40)
    axes.set_yticks(range(0, len(labels), step), labels[::step])
    axes.set_xlabel("column")
    axes.set_ylabel(name)
    return figure, image, axes


def assignments(Z: Array, max_lines: int = 600) -> Figure:
    """A picture of Z, or of its posterior mean: a column for each feature, most used first, and rows sorted by them.

    Neighbours in this order are much alike: when there are more rows than `max_lines`, a line is the mean of several.
    """
    Z = np.asarray(Z)
    Z = Z[:, np.argsort(-Z.mean(0), kind="stable")]
    order = np.lexsort(np.rint(Z).T[::-1]) if Z.shape[1] else np.arange(len(Z))
    edges = np.linspace(0, len(Z), min(len(Z), max_lines) + 1).astype(int)
    lines = np.stack([Z[order[a:b]].mean(0) for a, b in itertools.pairwise(edges)])[::-1]
    figure = _figure(float(np.clip(2.5 + 0.25 * Z.shape[1], 4.5, 12.0)), 6.0)
    axes = figure.subplots()
    shown = lines if lines.shape[1] else np.zeros((len(lines), 1))
    image = axes.imshow(
        shown, cmap="Blues", vmin=0, vmax=max(1.0, float(shown.max())), aspect="auto", interpolation="nearest",
        extent=(-0.5, shown.shape[1] - 0.5, len(Z), 0),
    )  # fmt: skip
    for edge in range(1, shown.shape[1]):
        axes.axvline(edge - 0.5, color="white", linewidth=0.8)
    figure.colorbar(image, ax=axes, label="use", shrink=0.8)
    axes.set_xlabel("feature, most used first")
    axes.set_ylabel("row, sorted" if len(lines) == len(Z) else f"row, sorted ({len(Z) / len(lines):,.0f} in a line)")
    axes.locator_params(axis="x", integer=True)
    return figure


def topics(history: Array, names: Sequence[str] | None = None) -> Figure:
    """Shares of the largest topics over the draws that were kept [draws, topics], largest first, and of all others."""
    figure = _figure(9.0, 5.0)
    axes = figure.subplots()
    shown = min(history.shape[1], _MAX_LEGEND)
    for k, look in zip(range(shown), _looks(), strict=False):
        label = str(k) if names is None else f"{k}: {names[k]}"
        axes.plot(history[:, k], color=look.colour, marker=look.marker, markersize=4, linewidth=1.0, label=label)
    if shown < history.shape[1]:
        label = f"{history.shape[1] - shown} others"
        axes.plot(history[:, shown:].sum(1), color=_GREY, linestyle="--", linewidth=1.0, label=label)
    axes.set_xlabel("draw that was kept")
    axes.set_ylabel("share of all tokens")
    axes.set_yscale("log")
    axes.grid(True, alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small", title="topic")
    return figure


def _figure(width: float, height: float) -> Figure:
    """An empty figure; axes that are added to it make room for labels and legends by themselves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=120)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    return figure
