"""A fit in words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unbounded.chain.export import FLAG

_SHOWN = 20


def text(estimator: Any) -> str:
    """The posterior of the number of atoms, how much of the data each has, and the table of diagnostics."""
    posterior = estimator.posterior_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = estimator.summary()
    columns = [name for name in ("mean", "sd", "hdi_3%", "hdi_97%", "ess_bulk", "ess_tail", "r_hat") if name in table]
    lines = [] if estimator.exact_ else [FLAG, ""]
    lines += _atoms(estimator)
    lines += [
        f"draws                {posterior.sizes['chain']} x {posterior.sizes['draw']}",
        "",
        table[columns].to_string(float_format=lambda value: f"{value:.4g}"),
        "",
    ]
    return "\n".join(lines)


def _atoms(estimator: Any) -> list[str]:
    if hasattr(estimator, "n_topics_"):
        return _topics(estimator)
    return _clusters(estimator) if hasattr(estimator, "labels_") else _features(estimator)


def _topics(estimator: Any) -> list[str]:
    empty = estimator.n_empty_ if hasattr(estimator, "n_empty_") else 0
    return [
        f"groups               {len(estimator.proportions_):,}" + (f" ({empty:,} of them empty)" if empty else ""),
        f"tokens or rows       {len(estimator.labels_):,}",
        f"topics (estimate)    {estimator.n_topics_}",
        f"topics (posterior)   {_number(estimator.posterior_['n_topics'])}",
        f"topic shares         {_list([f'{share:.3g}' for share in estimator.topic_shares_])}",
    ]


def _clusters(estimator: Any) -> list[str]:
    return [
        f"rows                 {len(estimator.labels_):,}",
        f"clusters (estimate)  {estimator.n_clusters_}",
        f"clusters (posterior) {_number(estimator.posterior_['n_clusters'])}",
        f"cluster sizes        {_list([f'{size:,}' for size in np.bincount(estimator.labels_)])}",
    ]


def _features(estimator: Any) -> list[str]:
    usage = estimator.assignments_.mean(0, dtype=float)
    return [
        f"rows                 {len(estimator.assignments_):,}",
        f"features (estimate)  {estimator.n_atoms_}",
        f"features (posterior) {_number(estimator.posterior_['n_features'])}",
        f"uses per row         {_list([f'{share:.3g}' for share in usage])}",
    ]


def _number(draws: Any) -> str:
    values = draws.values.ravel()
    low, high = np.quantile(values, [0.05, 0.95])
    return f"mean {values.mean():.2f}, 90% interval {low:.0f} to {high:.0f}"


def _list(words: list[str]) -> str:
    return ", ".join(words[:_SHOWN]) + (", ..." if len(words) > _SHOWN else "")
