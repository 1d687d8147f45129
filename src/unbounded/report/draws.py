"""Draws of a run in charts: the posterior of the number of atoms, traces of all scalars, the held-out score."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.report import parts, svg
from unbounded.report.parts import number
from unbounded.report.phrases import plain_name
from unbounded.report.svg import Frame, Range
from unbounded.report.view import View

NAMES = "What the names mean"
_CAPTIONS = {"holdout": "held-out score (nats)", "log_joint": "log_joint (nats)"}


def title(config: Mapping[str, Any]) -> str:
    """The model, in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(config["model"]))


def count(run: View) -> str:
    """The posterior of the number of atoms."""
    counts = np.concatenate(run.trace(run.family.counted))
    edges = svg.steps(counts)
    shares = np.histogram(counts, edges)[0] / len(counts)
    name = f"number of {run.family.atoms}"
    low, high = edges[0] - max(0.0, (6 - len(edges)) / 2), edges[-1] + max(0.0, (6 - len(edges)) / 2)
    frame = Frame(
        Range(low, high, name, svg.ticks(max(low, 0.0), high, 7, whole=True)),
        Range.around(shares, "posterior probability", zero=True),
        220,
    )
    alt = f"Posterior of the {name}: most probable {edges[shares.argmax()] + 0.5:.0f}, share {shares.max():.2f}."
    return frame.chart([svg.bars(frame, edges, shares)], alt)


def legend(run: View) -> str:
    return parts.legend([f"chain {c}" for c in range(len(run.chains))], "line") if len(run.chains) > 1 else ""


def trace(run: View, name: str, height: int = 190) -> str:
    series = run.trace(name)
    values = np.concatenate(series)
    finite = values[np.isfinite(values)]
    whole = bool(len(finite)) and bool((finite == np.rint(finite)).all())
    frame = Frame(
        Range.around(np.arange(1, max(map(len, series)) + 1), "draw", whole=True),
        Range.around(values, caption(run, name), whole),
        height,
    )
    marks = [svg.line(frame, np.arange(1, len(one) + 1), one, c) for c, one in enumerate(series)]
    return frame.chart(marks, f"Trace of {name}: {len(series)} chains, mean {number(_mean(finite))}.")


def units(run: View) -> Mapping[str, str]:
    """Other words for rows, columns and groups, where this run has them."""
    return run.family.units(plain_name(run.config.get("likelihood", "")))


def scored(run: View) -> str:
    """What a held-out score is the mean over."""
    return units(run).get("scored", run.family.scored)


def caption(run: View, name: str) -> str:
    if name == run.family.counted:
        return f"number of {run.family.atoms}"
    return _in_units(run, (_CAPTIONS | dict(run.family.captions)).get(name, name))


def _in_units(run: View, words: str) -> str:
    """With this run's word for rows."""
    return re.sub(r"\brows\b", units(run).get("rows", "rows"), words)


def meanings(run: View) -> str:
    """What the scalars of this run mean, one sentence each."""
    atoms = run.family.atoms
    known = {run.family.counted: f"number of {atoms}"} | dict(run.family.meanings)
    known |= {"holdout": f"mean log predictive density of a held-out {scored(run)}; higher is better"}
    sentences = []
    for name in run.names:
        share = name.removeprefix("above_").replace("_", " ")
        text = f"{atoms} with more than {share} of the rows" if name.startswith("above_") else known.get(name)
        sentences += [f"{name}: {_in_units(run, text)}."] if text else []
    nats = "Nats are the units of natural logarithms."
    return " ".join([*sentences, nats] if any("(nats)" in caption(run, name) for name in run.names) else sentences)


def constant(run: View, name: str) -> bool:
    """Whether a scalar never moved, but for rounding."""
    values = np.concatenate(run.trace(name))
    finite = values[np.isfinite(values)]
    return len(finite) == len(values) and svg.is_constant(finite)


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")
