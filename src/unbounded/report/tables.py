"""The tables of a report: diagnostics of every scalar, time by phase, settings."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
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


_RULES = {"Ghosts": "ghosts", "OneOpen": "one open shard", "AsPublished": "the published rule"}
_ASKED = {
    "model": "model", "likelihood": "likelihood", "measure": "prior", "instantiate": "instantiation",
    "sampler": "sampler", "init": "starts of the chains", "dtype": "precision", "seed": "seed",
    "jumps": "jumps of whole atoms", "n_shards": "shards", "sweeps_per_round": "sweeps per round",
    "n_warmup": "rounds of warm-up", "thin": "rounds per draw", "n_chains": "chains", "n_draws": "draws per chain",
    "max_draws": "most draws per chain", "n_snapshots": "whole draws kept, at most",
    "keep_assignments": "labels of every draw kept", "device": "device",
    "data": "fingerprint of the data",
    "holdout": "fingerprint of the held-out part", "engine": "engine", "n_workers": "workers",
    "instantiate.spread": "their number varies by a factor of up to", "instantiate.ghosts": "their number",
}  # fmt: skip


def in_words(name: str) -> str:
    """LinearGaussian: linear Gaussian."""
    words = _RULES.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("Pitman Yor", "Pitman-Yor")
    return " ".join(word if word in _PEOPLE or word.isupper() else word.lower() for word in words.split())


_PEOPLE = ("Gaussian", "Bernoulli", "Poisson", "Dirichlet", "Pitman-Yor", "Gamma", "Beta")


def kind_of_data(likelihood: str) -> str:
    """What the rows are taken for."""
    return "columns of several kinds" if likelihood == "Product" else f"{in_words(likelihood)} likelihood"


def named(entry: str, thing: Any, phrases: Mapping[str, str]) -> str:
    """An entry of run.json in words: its name, and the options that were chosen; defaults of None are left out."""
    if isinstance(thing, list):
        return ", ".join(named(entry, one, phrases) for one in thing)
    if not isinstance(thing, dict):
        return str(thing)
    name = str(thing.get("name", ""))
    chosen = [
        f"{phrases.get(f'{entry}.{key}', key.replace('_', ' '))}: {_value(value)}"
        for key, value in thing.items()
        if key != "name" and value not in (None, "None")
    ]
    return "; ".join([*([in_words(name)] if name and name.lower() != entry else []), *chosen]) or in_words(name)


def _value(value: Any) -> str:
    """An option in words; run directories have objects as Python shows them."""
    words = str(value).strip("'")
    for keys, prior in _PRIORS.items():
        if numbers := re.fullmatch(f"{{'{keys[0]}': ([^,]+), '{keys[1]}': ([^,]+)}}", words):
            return f"learned, with the prior {prior}({float(numbers[1]):g}, {float(numbers[2]):g})"
    if words.startswith("{"):
        return "(" + words[1:-1].replace("'", "").replace(":", "") + ")"
    return words


_PRIORS = {("shape", "rate"): "Gamma", ("a", "b"): "Beta"}


def scalars(run: View) -> str:
    used, found = run.long_chains(), run.convergence
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the head of the page says whether the draws are exact
        lines = export.table(run.compared, found)
    rows = [row(str(name), *_statistics(line, found.problems(str(name)))) for name, line in lines.iterrows()]
    notes = [
        f"From {found.n_chains} x {found.n_draws:,} draws. ! marks R-hat above {R_HAT} and effective sample sizes "
        f"below {ESS} per chain: the mean and the interval beside them may still move."
    ]
    if found.n_chains == 1:
        notes.append("R-hat of one chain compares its halves.")
    if len(used) < len(run.chains):
        notes.append("Chains that have just begun are left out here.")
    whole = table(["", *_STATISTICS.values()], rows)
    return section("Diagnostics", paragraph(" ".join(notes), quiet=True), whole, _HELP)


_HELP = parts.help_(
    "What these numbers mean",
    "mean and sd: of all draws. 3% and 97%: the shortest interval with 94% of the draws. ESS: how many independent "
    "draws the chains are worth, in the middle (bulk) and at the ends (tail) of the distribution. R-hat: the spread of "
    "all draws over that within the chains; 1 if they all see the same. constant: the number was fixed, or has not "
    "moved.",
)


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
    note = (
        f"Wall time of {rounds:,} rounds, all chains and sessions together, up to the last checkpoint of each. "
        "Whatever runs first also compiles its kernels, if they were not cached."
    )
    return section("Time", paragraph(note, quiet=True), table(["phase", "time", "share", "per round", ""], rows))


def _per_round(value: float, rounds: int) -> str:
    each = 1e3 * value / max(rounds, 1)
    return f"{number(each, 3)} ms" if each >= 0.001 else "under 1 µs"


def settings(run: View) -> str:
    asked, phrases = dict(run.family.in_words(run.config)), _ASKED | dict(run.family.phrases)
    asked.pop("pieces", None)  # a checksum for each of many
    asked |= {name: run.about.get(name, "unknown") for name in ("engine", "n_workers")}
    listed = {
        phrases.get(name, name): parts.NOTHING if value is None else named(name, value, phrases)
        for name, value in asked.items()
    }
    listed |= {f"version of {name}": str(value) for name, value in run.about.get("versions", {}).items()}
    rows = [row(name, cell(text(value), "", "text wide")) for name, value in ({"run": run.name} | listed).items()]
    whole = f'<table class="stack"><tbody>{"".join(rows)}</tbody></table>'
    title = "Everything that the chains are a function of, and where the last session ran"
    return section("Settings", f'<details class="more"><summary>{title}</summary>{whole}</details>')
