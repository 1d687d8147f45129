"""A fit in words, for the command line."""

from __future__ import annotations

import warnings
from textwrap import fill

from unbounded.chain.convergence import on_the_command_line
from unbounded.chain.export import FLAG
from unbounded.estimator import ChainEstimator
from unbounded.models.families import family_of


def text(estimator: ChainEstimator) -> str:
    """The posterior of the number of atoms, how much data each has, convergence, and the table of diagnostics."""
    posterior, converged = estimator.posterior_, estimator.convergence_.said(on_the_command_line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = estimator.summary()
    columns = ["mean", "sd", "hdi_3%", "hdi_97%", "ess_bulk", "ess_tail", "r_hat", "verdict"]
    lines = [] if estimator.exact_ else [FLAG, ""]
    lines += family_of(type(estimator).__name__).summary(estimator)
    lines += [
        f"estimates            {_whole(estimator)}",
        f"draws                {posterior.sizes['chain']} x {posterior.sizes['draw']}",
        *fill(f"convergence          {converged}", 118, subsequent_indent=" " * 21).splitlines(),
        "",
        table[columns].to_string(float_format=lambda value: f"{value:.4g}"),
        "",
    ]
    return "\n".join(lines)


def _whole(estimator: ChainEstimator) -> str:
    """How many whole draws point estimates were made of."""
    number = len(estimator._snapshots)
    if number == 1 and estimator.interrupted_:
        return "none yet: what is shown above is the only whole draw"
    return f"from {number} whole draws"
