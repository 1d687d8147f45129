"""A fitted mixture in words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unbounded.chain.export import FLAG


def text(estimator: Any) -> str:
    """The posterior of the number of clusters, cluster sizes, and the table of diagnostics."""
    posterior = estimator.posterior_
    number = posterior["n_clusters"].values.ravel()
    low, high = np.quantile(number, [0.05, 0.95])
    sizes = np.bincount(estimator.labels_)
    shown = ", ".join(f"{size:,}" for size in sizes[:20]) + (", ..." if len(sizes) > 20 else "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = estimator.summary()
    columns = [name for name in ("mean", "sd", "hdi_3%", "hdi_97%", "ess_bulk", "ess_tail", "r_hat") if name in table]
    lines = [] if estimator.exact_ else [FLAG, ""]
    lines += [
        f"rows                 {len(estimator.labels_):,}",
        f"clusters (estimate)  {estimator.n_clusters_}",
        f"clusters (posterior) mean {number.mean():.2f}, 90% interval {low:.0f} to {high:.0f}",
        f"cluster sizes        {shown}",
        f"draws                {posterior.sizes['chain']} x {posterior.sizes['draw']}",
        "",
        table[columns].to_string(float_format=lambda value: f"{value:.4g}"),
        "",
    ]
    return "\n".join(lines)
