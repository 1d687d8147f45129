"""Draws as xarray and ArviZ objects, and a table of diagnostics."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from unbounded.arrays import Array
from unbounded.chain.run import Chain

FLAG = "NOT EXACT: these draws come from a sampler or a rule that does not leave the posterior invariant."


def to_dataset(chains: Sequence[Chain]) -> xr.Dataset:
    """Every scalar trace with dims (chain, draw); chains that an interruption left unequal are cut to the shortest."""
    n_draws = min(len(chain.draws) for chain in chains)
    names = list(chains[0].draws[0]) if n_draws else []
    data: dict[str, Any] = {
        name: (("chain", "draw"), np.array([[draw[name] for draw in chain.draws[:n_draws]] for chain in chains]))
        for name in names
    }
    kept = [chain.assignments for chain in chains]
    if n_draws and all(assignment is not None for assignment in kept):
        whole = np.stack([_stack(assignment[:n_draws], kept) for assignment in kept if assignment is not None])
        data["assignments"] = (("chain", "draw", "row", "feature")[: whole.ndim], whole)
    coords = {"chain": np.arange(len(chains)), "draw": np.arange(n_draws)}
    return xr.Dataset(data, coords, {"exact": int(all(chain.exact for chain in chains))})


def _stack(draws: Sequence[Array], everything: Sequence[Sequence[Array] | None]) -> Array:
    """Labels of draws as they are; matrices Z padded with zeros to the widest of all chains."""
    if draws[0].ndim == 1:
        return np.stack(draws)
    widest = max(Z.shape[1] for chain in everything for Z in chain or ())
    return np.stack([np.pad(Z, ((0, 0), (0, widest - Z.shape[1]))) for Z in draws])


def to_arviz(posterior: xr.Dataset) -> Any:
    """The same draws as an ArviZ InferenceData; assignments stay out, since labels mean nothing between draws."""
    import arviz as az

    return az.InferenceData(posterior=posterior.drop_vars("assignments", errors="ignore"))


def table(posterior: xr.Dataset) -> pd.DataFrame:
    """Mean, sd, interval, effective sample sizes and R-hat of every scalar; inexact draws are flagged loudly."""
    import arviz as az

    scalars = posterior.drop_vars("assignments", errors="ignore")
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # it would complain that one chain has no R-hat
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            summary: Any = az.summary(scalars, round_to="none")
    finally:
        logging.disable(before)
    if not posterior.attrs["exact"]:
        warnings.warn(FLAG, stacklevel=2)
        summary.insert(0, "exact", False)
    return summary
