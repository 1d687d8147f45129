"""Draws as ArviZ takes them: an InferenceData of its versions 0.x, an xarray.DataTree of its versions 1.x."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from unbounded.arrays import Array
from unbounded.chain.importing import arviz

VARIABLE = "rows"  # what observations are called
_STATISTICS = {"log_joint": "lp", "log_likelihood": "log_likelihood", "holdout": "holdout"}


class KeptDraws(NamedTuple):
    """Results for the draws that were kept whole, chain after chain."""

    draws: Sequence[Sequence[int]]  # their numbers, of every chain
    log_likelihood: Array | None = None  # [whole draws, rows]
    predictive: Array | None = None  # [whole draws, rows, columns]; of words, [whole draws, rows]
    observed: Array | None = None  # [rows, columns]; of words, [rows]
    groups: Array | None = None  # [rows]: where rows have groups, which


def inference_data(posterior: xr.Dataset, whole: KeptDraws | None = None) -> Any:
    """Scalars of all draws or, given results for whole draws, of those alone: ArviZ wants groups of one length.

    Assignments are left out, since labels are not comparable between draws. Statistics of the sampler have a group of
    their own.
    """
    scalars = posterior.drop_vars("assignments", errors="ignore")
    groups: dict[str, xr.Dataset] = {}
    if whole is not None:
        n_draws = min(map(len, whole.draws))
        each = [list(numbers)[:n_draws] for numbers in whole.draws]
        scalars = xr.concat([scalars.isel(chain=[c], draw=d).assign_coords(draw=np.arange(n_draws))
                             for c, d in enumerate(each)], "chain")  # fmt: skip
        groups |= _of_whole_draws(whole, n_draws)
    statistics = [name for name in _STATISTICS if name in scalars]
    groups["posterior"] = scalars.drop_vars(statistics)
    groups["sample_stats"] = scalars[statistics].rename({name: _STATISTICS[name] for name in statistics})
    return assembled({name: groups[name] for name in _ORDER if name in groups and len(groups[name].data_vars)})


_ORDER = ("posterior", "posterior_predictive", "log_likelihood", "sample_stats", "observed_data")


def _of_whole_draws(whole: KeptDraws, n_draws: int) -> dict[str, xr.Dataset]:
    starts = np.cumsum([0, *map(len, whole.draws)])[:-1]
    chosen = np.stack([start + np.arange(n_draws) for start in starts])
    groups = {}
    if whole.log_likelihood is not None:
        groups["log_likelihood"] = _dataset(whole.log_likelihood[chosen], ("chain", "draw", "row"))
    if whole.predictive is not None:
        groups["posterior_predictive"] = _dataset(whole.predictive[chosen], ("chain", "draw", "row", "column"))
    if whole.observed is not None:
        groups["observed_data"] = _dataset(whole.observed, ("row", "column"))
    if whole.groups is not None:
        groups = {name: data.assign_coords(group=("row", whole.groups)) for name, data in groups.items()}
    return groups


def _dataset(values: Array, dims: tuple[str, ...]) -> xr.Dataset:
    sizes = dict(zip(dims, values.shape, strict=False))  # words have no columns
    return xr.Dataset({VARIABLE: (tuple(sizes), values)}, {dim: np.arange(n) for dim, n in sizes.items()})


def assembled(groups: Mapping[str, xr.Dataset]) -> Any:
    """The groups in the form that the installed version of ArviZ takes."""
    library = arviz()
    if library.__version__.startswith("0."):  # in later versions the name stands for a DataTree
        return library.InferenceData(**groups)
    return xr.DataTree.from_dict(dict(groups))
