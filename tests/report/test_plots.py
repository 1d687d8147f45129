"""Figures are saved without a warning, whatever the shape of the data, and show what they should."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest
import xarray as xr

from unbounded.models.features import plots as feature_plots
from unbounded.models.groups import plots as topic_plots
from unbounded.models.mixtures import plots as cluster_plots
from unbounded.report import plots

pytestmark = [  # files that other tests left open are closed at any time, also here
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def saved(figure: Any) -> bytes:
    """The figure as PNG; also that it belongs to no window or global registry."""
    assert figure.canvas.manager is None
    file = BytesIO()
    figure.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")
    return file.getvalue()


def legend_texts(figure: Any) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def posterior(n_chains: int, n_draws: int = 50) -> xr.Dataset:
    rng = np.random.default_rng(0)
    dims, shape = ("chain", "draw"), (n_chains, n_draws)
    return xr.Dataset(
        {
            "n_clusters": (dims, rng.integers(3, 9, shape)),
            "log_joint": (dims, rng.normal(-1e4, 10, shape), {"units": "nats"}),
            "constant": (dims, np.full(shape, 0.25)),
            "broken": (dims, np.full(shape, np.nan)),
            "sizes": ((*dims, "cluster"), np.zeros((*shape, 3))),
        }
    )


@pytest.mark.parametrize("n_chains", [1, 4, 30])
def test_traces_have_a_panel_and_a_histogram_for_every_scalar(n_chains: int) -> None:
    figure = plots.traces(posterior(n_chains))
    saved(figure)
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == ["n_clusters", "log_joint (nats)", "constant", "broken"]
    assert all(len(axes.get_lines()) == n_chains for axes in figure.axes[::2])
    assert len(legend_texts(figure)) == (4 if n_chains == 4 else 0)


def test_traces_accept_one_draw_and_any_order_of_dimensions() -> None:
    saved(plots.traces(posterior(2, 1)))
    saved(plots.traces(posterior(2).transpose("draw", "chain", "cluster")))
    with pytest.raises(ValueError, match="no variable"):
        plots.traces(posterior(2)[["sizes"]])


@pytest.mark.parametrize("n_columns", [1, 2, 3, 40])
@pytest.mark.parametrize("missing", [0.0, 0.02, 1.0])
def test_clusters_of_any_width_with_holes(n_columns: int, missing: float) -> None:
    rng = np.random.default_rng(n_columns)
    labels = rng.integers(0, 5, 300)
    X = rng.normal(size=(300, n_columns)) + 5 * labels[:, None]
    X[rng.random(X.shape) < missing] = np.nan
    figure = cluster_plots.clusters(X, labels)
    saved(figure)
    sizes = np.sort(np.bincount(labels))[::-1]
    assert [text.split()[1] for text in legend_texts(figure)] == [f"({size})" for size in sizes]
    complete = int(np.isfinite(X).all(1).sum())
    assert figure.axes[0].get_title(loc="right") == ("" if complete == 300 else f"{complete} of 300 rows shown")


def test_axes_are_named_after_columns_or_components() -> None:
    X, labels = np.random.default_rng(1).normal(size=(50, 3)), np.zeros(50, int)
    names = ["length (cm)", "width (cm)", "mass (g)"]

    def axis_names(D: int) -> tuple[str, str]:
        axes = cluster_plots.clusters(X[:, :D], labels, names[:D]).axes[0]
        return axes.get_xlabel(), axes.get_ylabel()

    assert axis_names(1) == ("length (cm)", "rows per bin")
    assert axis_names(2) == ("length (cm)", "width (cm)")
    assert all(name.startswith("principal component") for name in axis_names(3))


def test_names_are_not_mathematics() -> None:
    names = ["$\\frac{$", "a\x1b$b$"]
    figure = cluster_plots.clusters(np.zeros((3, 2)), np.zeros(3, int), names)
    saved(figure)
    assert [figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()] == [r"\$\frac{\$", r"a\x1b\$b\$"]
    saved(topic_plots.topics(np.full((3, 2), 0.5), names))


@pytest.mark.parametrize("n_columns", [1, 2])
def test_many_clusters_end_the_legend_with_dots(n_columns: int) -> None:
    labels = np.arange(400) % 80
    figure = cluster_plots.clusters(np.random.default_rng(2).normal(size=(400, n_columns)), labels)
    saved(figure)
    assert len(legend_texts(figure)) == 21
    assert legend_texts(figure)[-1] == "..."


def test_large_data_are_thinned_but_counted() -> None:
    figure = cluster_plots.clusters(np.random.default_rng(3).normal(size=(5000, 2)), np.arange(5000) % 2, max_rows=100)
    assert sum(len(dots.get_offsets()) for dots in figure.axes[0].collections) == 100
    assert legend_texts(figure) == ["0 (2,500)", "1 (2,500)"]


def test_odd_data_are_drawn_too() -> None:
    saved(cluster_plots.clusters(np.ones(20), np.zeros(20, int)))
    saved(cluster_plots.clusters(np.ones((20, 5)), np.array(["left", "right"] * 10)))
    saved(cluster_plots.clusters(np.ones((1, 2), np.int32), np.zeros(1, int)))
    with pytest.raises(ValueError, match="3 labels for 2 rows"):
        cluster_plots.clusters(np.ones((2, 2)), np.zeros(3))


def test_similarity_orders_rows_by_label() -> None:
    labels = np.array([1, 0, 1, 0, 2])
    matrix = (labels[:, None] == labels[None, :]).astype(float)
    plain, ordered = cluster_plots.similarity(matrix), cluster_plots.similarity(matrix, labels)
    saved(plain)
    saved(ordered)
    np.testing.assert_array_equal(plain.axes[0].get_images()[0].get_array(), matrix)
    shown = np.asarray(ordered.axes[0].get_images()[0].get_array())
    np.testing.assert_array_equal(np.diag(shown, 1), [1, 0, 1, 0])
    assert ordered.axes[0].get_xlabel() == "row, ordered by cluster"


@pytest.mark.parametrize("n_features", [0, 1, 4, 37])
@pytest.mark.parametrize("shape", [(6, 6), (3, 12), None])
def test_features_share_one_scale_around_zero(n_features: int, shape: tuple[int, int] | None) -> None:
    components = np.random.default_rng(0).normal(size=(n_features, 36))
    figure = feature_plots.features(components, shape, usage=np.full(n_features, 0.25))
    saved(figure)
    images = [image for axes in figure.axes for image in axes.get_images()]
    assert len(images) == (n_features if shape and n_features else 1)
    most = np.abs(components).max(initial=0.0) or 1.0
    assert all(image.get_clim() == (-most, most) for image in images)
    if shape and n_features:
        assert [axes.get_xlabel() for axes in figure.axes[:n_features]] == [f"{k} (0.25)" for k in range(n_features)]
        np.testing.assert_array_equal(images[0].get_array(), components[0].reshape(shape))


def test_features_that_do_not_fit_their_shape() -> None:
    with pytest.raises(ValueError, match="5 x 7 does not fit 36 columns"):
        feature_plots.features(np.ones((2, 36)), (5, 7))


@pytest.mark.parametrize("n_features", [0, 1, 5, 60])
@pytest.mark.parametrize("n_rows", [1, 50, 20_000])
def test_assignments_of_any_number_of_rows(n_rows: int, n_features: int) -> None:
    """Columns by use, rows sorted; thousands of rows are averaged to as many lines as a picture can show."""
    Z = np.random.default_rng(0).poisson(np.linspace(0.1, 1.5, n_features), (n_rows, n_features))
    figure = feature_plots.assignments(Z, max_lines=400)
    saved(figure)
    shown = figure.axes[0].get_images()[0].get_array()
    assert shown.shape == (min(n_rows, 400), max(n_features, 1))
    np.testing.assert_allclose(shown.mean(0), np.sort(Z.mean(0))[::-1] if n_features else [0.0], atol=0.02)
    assert (np.diff(shown[:, 0]) <= 1e-9).all()
