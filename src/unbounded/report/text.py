"""A fit in words, for the command line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from textwrap import fill

from unbounded.chain.convergence import on_the_command_line
from unbounded.chain.export import FLAG
from unbounded.estimator import ChainEstimator
from unbounded.models.families import family_of


def text(estimator: ChainEstimator, warned: Sequence[str] = ()) -> str:
    """The posterior of the number of atoms, how much data each has, convergence, and the table of diagnostics.

    warned: what the fit warned of.
    """
    posterior = estimator.posterior_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = estimator.summary()
    columns = ["mean", "sd", "hdi_3%", "hdi_97%", "ess_bulk", "ess_tail", "r_hat", "verdict"]
    lines = [] if estimator.exact_ else [FLAG, ""]
    lines += family_of(type(estimator).__name__).summary(estimator)
    lines += [
        f"estimates            {_whole(estimator)}",
        f"draws                {posterior.sizes['chain']} x {posterior.sizes['draw']}",
        *_paragraph("convergence", estimator.convergence_.said(on_the_command_line)),
        *(line for one in warned for line in _paragraph("warning", one)),
        "",
        table[columns].to_string(float_format=lambda value: f"{value:.4g}"),
        "",
    ]
    return "\n".join(lines)


def _paragraph(name: str, words: str) -> list[str]:
    return fill(f"{name:<21}{words}", 118, subsequent_indent=" " * 21).splitlines()


def _whole(estimator: ChainEstimator) -> str:
    """How many whole draws point estimates were made of."""
    number = len(estimator._snapshots)
    return f"from {number} whole draws" if estimator._has_estimate else f"none yet: whole draws are too few ({number})"
