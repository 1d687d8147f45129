"""Draws as an xarray object, and a table of diagnostics."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from unbounded.arrays import Array
from unbounded.chain.convergence import Check, check
from unbounded.chain.run import Chain
from unbounded.disk import allocate

FLAG = "NOT EXACT: these draws come from a sampler or a rule that does not leave the posterior invariant."


def to_dataset(chains: Sequence[Chain], dimensions: tuple[str, ...] | None = None) -> xr.Dataset:
    """Every scalar trace with dims (chain, draw); chains that an interruption left unequal are cut to the shortest.

    dimensions: of the assignments of a draw, if they were kept; without them these are left out.
    """
    n_draws = min(len(chain.draws) for chain in chains)
    names = [name for name in chains[0].draws[0] if all(name in chain.draws[0] for chain in chains)] if n_draws else []
    data: dict[str, Any] = {
        name: (("chain", "draw"), np.array([[draw[name] for draw in chain.draws[:n_draws]] for chain in chains]))
        for name in names
    }
    kept = [chain.assignments for chain in chains]
    if dimensions and n_draws and all(assignment is not None for assignment in kept):
        whole = _stack([assignment[:n_draws] for assignment in kept if assignment is not None])
        data["assignments"] = ("chain", "draw", *dimensions), whole
    coords = {"chain": np.arange(len(chains)), "draw": np.arange(n_draws)}
    return xr.Dataset(data, coords, {"exact": int(all(chain.exact for chain in chains))})


def _stack(chains: Sequence[Sequence[Array]]) -> Array:
    """Labels of draws as they are; matrices Z padded with zeros to the widest one. A large stack is kept on disk."""
    sizes = [draw.shape for chain in chains for draw in chain]
    dtype = np.result_type(*{draw.dtype for chain in chains for draw in chain})
    whole = allocate((len(chains), len(chains[0]), *(max(size) for size in zip(*sizes, strict=True))), dtype)
    for c, chain in enumerate(chains):
        for d, draw in enumerate(chain):
            used = tuple(slice(size) for size in draw.shape)
            if draw.shape != whole[c, d].shape:
                whole[c, d] = 0
            whole[c, d][used] = draw
    return whole


def table(posterior: xr.Dataset, found: Check | None = None) -> pd.DataFrame:
    """Every scalar with its mean, sd, shortest interval of 94%, diagnostics and what the check of convergence says.

    Inexact draws are flagged loudly.
    """
    found = check(posterior) if found is None else found
    lines = {name: _line(trace.values, str(name), found) for name, trace in _scalars(posterior).items()}
    summary = pd.DataFrame.from_dict(lines, orient="index")
    # mutant: exact flag
    if not posterior.attrs["exact"]:
        warnings.warn(FLAG, stacklevel=2)
        summary.insert(0, "exact", False)
    return summary


def _scalars(posterior: xr.Dataset) -> xr.Dataset:
    return posterior.drop_vars("assignments", errors="ignore")


def _line(draws: Array, name: str, found: Check) -> dict[str, Any]:
    low, high = _shortest(draws.ravel(), 0.94)
    line = {"mean": draws.mean(), "sd": draws.std(ddof=1) if draws.size > 1 else 0.0, "hdi_3%": low, "hdi_97%": high}
    if name in found.scalars:
        measured = found.scalars[name]
        line["mcse_mean"] = line["sd"] / np.sqrt(max(measured.ess_bulk, 1.0))  # mutant: standard error
        line |= {statistic: getattr(measured, statistic) for statistic in ("ess_bulk", "ess_tail", "r_hat")}
    return line | {"verdict": found.verdict(name)}


def _shortest(draws: Array, share: float) -> tuple[float, float]:
    """The shortest interval that has this share of the draws."""
    ordered = np.sort(draws)
    inside = int(share * len(ordered))
    first = int(np.argmin(ordered[inside:] - ordered[: len(ordered) - inside]))  # mutant: shortest interval
    return float(ordered[first]), float(ordered[first + inside])
