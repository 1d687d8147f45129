"""Draws as xarray and ArviZ objects, and a table of diagnostics."""

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

FLAG = "NOT EXACT: these draws come from a sampler or a rule that does not leave the posterior invariant."


def to_dataset(chains: Sequence[Chain]) -> xr.Dataset:
    """Every scalar trace with dims (chain, draw); chains that an interruption left unequal are cut to the shortest."""
    n_draws = min(len(chain.draws) for chain in chains)
    names = [name for name in chains[0].draws[0] if all(name in chain.draws[0] for chain in chains)] if n_draws else []
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

    return az.InferenceData(posterior=_scalars(posterior))


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
