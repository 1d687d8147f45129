"""Figures of features, drawn by Matplotlib."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unbounded.arrays import Array
from unbounded.report.plots import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    figure = new_figure(1.4 + 1.1 * across, 0.6 + (1.1 * tall + 0.3) * down)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, component, label in zip(grid.flat, components, labels, strict=False):
        axes.set_axis_on()
        image = axes.imshow(component.reshape(shape), **look)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color(GREY)
        axes.spines[:].set_linewidth(0.5)
        axes.set_xlabel(label, fontsize="small")
    figure.supxlabel(name, fontsize="small", color=GREY)
    return figure, image, list(grid.flat)


def _lines(components: Array, labels: Sequence[str], name: str, look: dict[str, Any]) -> Any:
    figure = new_figure(8.0, float(np.clip(1.5 + 0.3 * len(components), 2.5, 12.0)))
    axes = figure.subplots()
    image = axes.imshow(components if len(components) else np.zeros((1, components.shape[1])), aspect="auto", **look)
    step = max(1, len(labels) // 40)
    axes.set_yticks(range(0, len(labels), step), labels[::step])
    axes.set_xlabel("column")
    axes.set_ylabel(name)
    return figure, image, axes


def assignments(Z: Array, max_lines: int = 600) -> Figure:
    """A picture of Z, or of its posterior mean: a column for each feature, most used first, and rows sorted by them.

    Neighbours in this order are similar: when there are more rows than `max_lines`, a line is the mean of several.
    """
    Z = np.asarray(Z)
    Z = Z[:, np.argsort(-Z.mean(0), kind="stable")]
    order = np.lexsort(np.rint(Z).T[::-1]) if Z.shape[1] else np.arange(len(Z))
    edges = np.linspace(0, len(Z), min(len(Z), max_lines) + 1).astype(int)
    lines = np.stack([Z[order[a:b]].mean(0) for a, b in itertools.pairwise(edges)])[::-1]
    figure = new_figure(float(np.clip(2.5 + 0.25 * Z.shape[1], 4.5, 12.0)), 6.0)
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
