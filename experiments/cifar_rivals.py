"""CIFAR-100 on eight shards: the hybrid sampler beside the two rivals that can be distributed.

Two starts, since they decide much: from one cluster, which a sampler that draws new clusters from the prior hardly
leaves; and from labels drawn from the prior, which give all samplers clusters to work with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments import data, figures
from experiments.chains import (
    ASYNCHRONOUS,
    GHOSTS,
    PUBLISHED,
    SLICE,
    Method,
    Plan,
    mixture,
    of_mixture,
    trace,
    with_wall,
)
from experiments.common import Experiment, Finding, Request, Rows, more, save_rows, say
from unbounded.arrays import Array

METHODS = (PUBLISHED, GHOSTS, ASYNCHRONOUS, SLICE)
STARTS = {"one": "from one cluster", "prior": "from labels of the prior"}
PREPARE = 400

Curves = dict[tuple[str, str], list[Rows]]  # (start, method) -> the rows of each seed


@dataclass(frozen=True)
class Sizes:
    dimension: int
    n_train: int
    n_test: int
    seeds: int
    n_rounds: int
    n_shards: int = 8


def run(sizes: Sizes, request: Request) -> list[Finding]:
    train, test, notes = data.cifar(request, sizes.n_train, sizes.n_test, sizes.dimension)
    methods = list(METHODS)
    curves: Curves = {}
    for method in methods:
        _chain(train[:PREPARE], test[:PREPARE], method, 2, sizes.n_shards, 0, "one")
        for start in STARTS:
            curves[start, method.label] = [
                _chain(train, test, method, sizes.n_rounds, sizes.n_shards, seed, start)
                for seed in range(request.seed, request.seed + sizes.seeds)
            ]
            last = curves[start, method.label][-1][-1]
            say(f"{method.label}, {STARTS[start]}: {last['score']:.3f}, {last['clusters']} clusters")
    save_rows(_rows(curves, request.seed), request)
    _draw(curves, methods, sizes, request, notes)
    return [finding for start in STARTS for finding in _judge(curves, methods, start)]


def _chain(train: Array, test: Array, method: Method, n_rounds: int, n_shards: int, seed: int, start: str) -> Rows:
    model = mixture(train, method, Plan(n_shards, n_rounds, seed=seed), concentration=1.0)
    return with_wall(trace(model, train, start, n_rounds, of_mixture(model, test)), model, train, start)


def _rows(curves: Curves, first: int) -> Rows:
    return [
        {"start": start, "method": label, "seed": seed, **row}
        for (start, label), runs in curves.items()
        for seed, rows in enumerate(runs, first)
        for row in rows
    ]


def _draw(curves: Curves, methods: list[Method], sizes: Sizes, request: Request, notes: list[str]) -> None:
    whole, grid = figures.figure(len(STARTS), 3, sharey=True, sharex="col")
    kinds = ("critical_s", "critical path (CPU s)"), ("wall_s", "wall time (s)"), ("round", "round (sweep)")
    for line, start in zip(grid, STARTS, strict=True):
        for axes, (name, _) in zip(line, kinds, strict=True):
            for method in methods:
                for number, rows in enumerate(curves[start, method.label]):
                    x, y = ([row[key] for row in rows[1:]] for key in (name, "score"))
                    axes.plot(x, y, label=method.label if number == 0 else None, **method.look | {"linewidth": 1.0})
            figures.log_seconds(axes)
        line[0].set_ylabel("test log likelihood\n(nats per image)")
        line[1].set_title(STARTS[start], fontsize="medium")
    for axes, (_, label) in zip(grid[-1], kinds, strict=True):
        axes.set_xlabel(label)
    figures.legend(whole, grid[0, 0])
    notes = [*notes, f"{sizes.dimension} dimensions, P = {sizes.n_shards}", "a line for each seed"]
    figures.finish(whole, request, notes=[*notes, *figures.beyond_cores(sizes.n_shards)])


def _judge(curves: Curves, methods: list[Method], start: str) -> list[Finding]:
    """The claims: sooner than the slice sampler, better in the end than the asynchronous one (and, ours: sooner)."""
    tests = [(hybrid, rival, *how) for hybrid in (PUBLISHED, GHOSTS) for rival, *how in _CLAIMS if rival in methods]
    findings = []
    for this, other, when, key in [*tests, (GHOSTS, PUBLISHED, "on the way", _way)]:
        pairs = zip(curves[start, this.label], curves[start, other.label], strict=True)
        statement = f"{STARTS[start]}, {this.label} is above {other.label} {when}"
        findings.append(more(statement, *np.transpose([key(a, b) for a, b in pairs]), "nats"))
    return findings


def _end(a: Rows, b: Rows) -> tuple[float, float]:
    """Mean scores of the last quarter of the rounds, whatever they took."""
    first, second = (float(np.mean([row["score"] for row in rows[-(len(rows) // 4) :]])) for rows in (a, b))
    return first, second


def _way(a: Rows, b: Rows) -> tuple[float, float]:
    """Mean scores over the critical path that both have been through."""
    times = np.linspace(0.0, min(a[-1]["critical_s"], b[-1]["critical_s"]), 200)[1:]
    values = [np.interp(times, [r["critical_s"] for r in rows], [r["score"] for r in rows]) for rows in (a, b)]
    return float(values[0].mean()), float(values[1].mean())


_CLAIMS = ((SLICE, "on the way", _way), (ASYNCHRONOUS, "on the way", _way), (ASYNCHRONOUS, "at the end", _end))

EXPERIMENT = Experiment(
    "cifar-rivals",
    "On eight processors the hybrid sampler converges faster than the distributed slice sampler and to a better test "
    "log likelihood than the asynchronous approximation.",
    quick=Sizes(8, 2_000, 500, 3, 60),
    full=Sizes(16, 20_000, 2_000, 8, 100),
    run=run,
)
