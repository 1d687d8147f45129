"""The tables of a report: diagnostics of every scalar, time by phase, settings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd

from unbounded.chain import export
from unbounded.chain.convergence import ESS, R_HAT
from unbounded.report import parts
from unbounded.report.parts import cell, number, paragraph, row, section, table, text
from unbounded.report.view import View
from unbounded.round import PHASES

_STATISTICS = {
    "mean": "mean", "sd": "sd", "hdi_3%": "3%", "hdi_97%": "97%", "ess_bulk": "ESS bulk", "ess_tail": "ESS tail",
    "r_hat": "R-hat", "verdict": "verdict",
}  # fmt: skip
_WORDS = {
    "start": "first state", "jump": "jumps of whole atoms", "global": "global step",
    "local": "local sweeps, all shards", "gather": "gather", "score": "held-out score", "record": "recording draws",
    "checkpoint": "checkpoints",
}  # fmt: skip


def named(thing: Any) -> str:
    """A configuration as a call: name(option=value)."""
    if not isinstance(thing, dict):
        return str(thing)
    options = ", ".join(f"{key}={value}" for key, value in thing.items() if key != "name")
    return f"{thing.get('name', '')}({options})" if options else str(thing.get("name", ""))


def scalars(run: View) -> str:
    used, found = run.long_chains(), run.convergence
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the head of the page says whether the draws are exact
        lines = export.table(run.compared, found)
    rows = [row(str(name), *_statistics(line, found.problems(str(name)))) for name, line in lines.iterrows()]
    said = [
        f"From {found.n_chains} x {found.n_draws:,} draws. ! marks R-hat above {R_HAT} and effective sample sizes "
        f"below {ESS} per chain: the mean and the interval beside them may still move."
    ]
    if found.n_chains == 1:
        said.append("R-hat of one chain compares its halves.")
    if len(used) < len(run.chains):
        said.append("Chains that have just begun are left out here.")
    return section("Diagnostics", paragraph(" ".join(said), quiet=True), table(["", *_STATISTICS.values()], rows))


def _statistics(line: pd.Series, bad: Sequence[str]) -> list[str]:
    cells = []
    for key, name in _STATISTICS.items():
        value = line[key]
        shown = value if isinstance(value, str) else number(float(value))
        cells.append(cell(f"{shown} !" if key in bad else shown, name, "flag" if key in bad else ""))
    return cells


def time(run: View) -> str:
    spent = {name: sum(clock.seconds[name] for clock in run.clocks) for name in PHASES}
    total, rounds = sum(spent.values()), sum(clock.rounds for clock in run.clocks)
    if not total:
        return section(
            "Time", paragraph("No times were recorded: the run has no checkpoint yet, or an old version made it.")
        )
    rows = [
        row(
            _WORDS[name], cell(parts.seconds(value), "time"), cell(f"{value / total:.1%}", "share"),
            cell(_per_round(value, rounds) if name != "start" else parts.NOTHING, "per round"),
            cell(parts.bar(value / total), "", "track wide"),
        )
        for name, value in spent.items() if name != "score" or "holdout" in run.names
    ]  # fmt: skip
    said = (
        f"Wall time of {rounds:,} rounds, all chains and sessions together, up to the last checkpoint of each. "
        "Whatever runs first also compiles its kernels, if they were not cached."
    )
    return section("Time", paragraph(said, quiet=True), table(["phase", "time", "share", "per round", ""], rows))


def _per_round(value: float, rounds: int) -> str:
    each = 1e3 * value / max(rounds, 1)
    return f"{number(each, 3)} ms" if each >= 0.001 else "under 1 µs"


def settings(run: View) -> str:
    listed = {"run": run.name, **run.config}
    listed["data fingerprint"] = listed.pop("data", None)
    listed["held-out fingerprint"] = listed.pop("holdout", None)
    listed |= {name: run.about.get(name, "unknown") for name in ("engine", "n_workers")}
    listed |= {f"version of {name}": value for name, value in run.about.get("versions", {}).items()}
    rows = [
        row(name, cell(text(parts.NOTHING if value is None else named(value)), "", "text wide"))
        for name, value in listed.items()
    ]
    return section("Settings", f'<table class="stack"><tbody>{"".join(rows)}</tbody></table>')
