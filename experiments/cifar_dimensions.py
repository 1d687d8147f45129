"""CIFAR-100 in 8, 16, 32 and 64 principal components: test log likelihood against time on one processor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from experiments import data, figures
from experiments.chains import (
    COLLAPSED,
    GHOSTS,
    PUBLISHED,
    UNCOLLAPSED,
    Method,
    Plan,
    mixture,
    of_mixture,
    trace,
)
from experiments.common import Experiment, Finding, Request, Rows, more, save_rows, say
from unbounded.arrays import Array

METHODS = (COLLAPSED, UNCOLLAPSED, PUBLISHED, GHOSTS)
PREPARE = 400  # rows of the run that compiles


@dataclass(frozen=True)
class Sizes:
    dimensions: tuple[int, ...]
    n_train: int
    n_test: int
    seeds: int
    n_rounds: int  # of the collapsed sampler
    longer: int  # times as many rounds of the others, which are faster


def run(sizes: Sizes, request: Request) -> list[Finding]:
    rows, notes = [], []
    for dimension in sizes.dimensions:
        train, test, notes = data.cifar(request, sizes.n_train, sizes.n_test, dimension)
        for method in METHODS:
            _chain(train[:PREPARE], test[:PREPARE], method, 2, 0)
            for seed in range(request.seed, request.seed + sizes.seeds):
                found = _chain(train, test, method, sizes.n_rounds * (1 if method is COLLAPSED else sizes.longer), seed)
                rows += [{"method": method.label, "dimension": dimension, "seed": seed, **row} for row in found]
                last = found[-1]
                say(f"D={dimension} {method.label}: {last['score']:.3f}, {last['critical_s']:.1f} s")
    save_rows(rows, request)
    curves = {
        (method.label, d): [
            [row for row in rows if (row["method"], row["dimension"], row["seed"]) == (method.label, d, seed)]
            for seed in range(request.seed, request.seed + sizes.seeds)
        ]
        for method in METHODS
        for d in sizes.dimensions
    }
    _draw(curves, sizes, request, notes)
    return _judge(curves, sizes)


def _chain(train: Array, test: Array, method: Method, n_rounds: int, seed: int) -> Rows:
    model = mixture(train, method, Plan(1, n_rounds, seed=seed), concentration=1.0)
    return trace(model, train, "one", n_rounds, of_mixture(model, test))


def _draw(curves: dict, sizes: Sizes, request: Request, notes: list[str]) -> None:
    whole, grid = figures.figure(1, len(sizes.dimensions), width=3.0)
    for axes, dimension in zip(grid[0], sizes.dimensions, strict=True):
        for method in METHODS:
            for number, rows in enumerate(curves[method.label, dimension]):
                x, y = ([row[name] for row in rows] for name in ("critical_s", "score"))
                axes.plot(x[1:], y[1:], label=method.label if number == 0 else None, **method.look)
        figures.log_seconds(axes)
        axes.set_title(f"{dimension} dimensions", fontsize="medium")
        axes.set_xlabel("CPU time (s), one processor")
    grid[0, 0].set_ylabel("test log likelihood (nats per image)")
    figures.legend(whole, grid[0, 0])
    figures.finish(whole, request, notes=[*notes, "from one cluster, a line for each seed"])


def _judge(curves: dict, sizes: Sizes) -> list[Finding]:
    """At equal time: the most that both have used."""
    findings = []
    for hybrid, rival in product((PUBLISHED, GHOSTS), (COLLAPSED, UNCOLLAPSED)):
        leads = np.array([
            [_lead(a, b) for a, b in zip(curves[hybrid.label, d], curves[rival.label, d], strict=True)]
            for d in sizes.dimensions
        ])  # fmt: skip
        for d, lead in zip(sizes.dimensions, leads, strict=True):
            statement = f"in {d} dimensions {hybrid.label} is above the {rival.label} sampler at equal time"
            findings.append(more(statement, lead, 0.0 * lead, "nats per image"))
        low, high = sizes.dimensions[0], sizes.dimensions[-1]
        statement = f"{hybrid.label} leads the {rival.label} sampler by more in {high} dimensions than in {low}"
        findings.append(more(statement, leads[-1], leads[0], "nats per image"))
    return findings


def _lead(a: Rows, b: Rows) -> float:
    """Score of a minus score of b at the end of the shorter of the two."""
    end = min(a[-1]["critical_s"], b[-1]["critical_s"])
    values = [np.interp(end, [r["critical_s"] for r in rows], [r["score"] for r in rows]) for rows in (a, b)]
    return float(values[0] - values[1])


EXPERIMENT = Experiment(
    "cifar-dimensions",
    "The hybrid sampler reaches a higher test log likelihood sooner than the collapsed and the uncollapsed one, and "
    "its lead grows with the dimension.",
    quick=Sizes((8, 16), 2_000, 500, 1, 20, 5),
    full=Sizes((8, 16, 32, 64), 5_000, 2_000, 3, 20, 4),
    run=run,
)
