"""CIFAR-100 on eight shards: the hybrid sampler beside the two rivals that can be distributed."""

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
    known,
    mixture,
    of_mixture,
    trace,
    with_wall,
)
from experiments.common import Experiment, Finding, Request, Rows, more, save_rows, say
from unbounded.arrays import Array
from unbounded.samplers import DIRICHLET

METHODS = (PUBLISHED, GHOSTS, ASYNCHRONOUS, SLICE)
PREPARE = 400


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
    methods, rows = known(METHODS, DIRICHLET), []
    curves: dict[str, list[Rows]] = {}
    for method in methods:
        _chain(train[:PREPARE], test[:PREPARE], method, 2, sizes.n_shards, 0)
        curves[method.label] = []
        for seed in range(request.seed, request.seed + sizes.seeds):
            found = _chain(train, test, method, sizes.n_rounds, sizes.n_shards, seed)
            curves[method.label].append(found)
            rows += [{"method": method.label, "seed": seed, **row} for row in found]
            last = found[-1]
            say(f"{method.label}: {last['score']:.3f}, K={last['clusters']}, {last['critical_s']:.1f} s")
    save_rows(rows, request)
    _draw(curves, methods, sizes, request, notes)
    return _judge(curves, methods)


def _chain(train: Array, test: Array, method: Method, n_rounds: int, n_shards: int, seed: int) -> Rows:
    model = mixture(train, method, Plan(n_shards, n_rounds, seed=seed), concentration=1.0)
    return with_wall(trace(model, train, "one", n_rounds, of_mixture(model, test)), model, train, "one")


def _draw(
    curves: dict[str, list[Rows]], methods: list[Method], sizes: Sizes, request: Request, notes: list[str]
) -> None:
    whole, grid = figures.figure(1, 3, sharey=True)
    kinds = ("critical_s", "critical path (CPU s)"), ("wall_s", "wall time (s)"), ("round", "round (sweep)")
    for axes, (name, label) in zip(grid[0], kinds, strict=True):
        for method in methods:
            for number, rows in enumerate(curves[method.label]):
                x, y = ([row[key] for row in rows[1:]] for key in (name, "score"))
                axes.plot(x, y, label=method.label if number == 0 else None, **method.look)
        figures.log_seconds(axes)
        axes.set_xlabel(label)
    grid[0, 0].set_ylabel("test log likelihood (nats per image)")
    figures.legend(whole, grid[0, 0])
    notes = [*notes, f"{sizes.dimension} dimensions, P = {sizes.n_shards}", *figures.beyond_cores(sizes.n_shards)]
    figures.finish(whole, request, notes=notes)


def _judge(curves: dict[str, list[Rows]], methods: list[Method]) -> list[Finding]:
    findings = []
    for hybrid in (PUBLISHED, GHOSTS):
        for rival in methods[2:]:
            pairs = list(zip(curves[hybrid.label], curves[rival.label], strict=True))
            for when, key in (("on the way", _way), ("at the end", _end)):
                statement = f"{hybrid.label} is above {rival.label} {when}"
                findings.append(more(statement, *np.transpose([key(a, b) for a, b in pairs]), "nats"))
    statement = f"{GHOSTS.label} is above {PUBLISHED.label} on the way"
    pairs = list(zip(curves[GHOSTS.label], curves[PUBLISHED.label], strict=True))
    return [*findings, more(statement, *np.transpose([_way(a, b) for a, b in pairs]), "nats")]


def _end(a: Rows, b: Rows) -> tuple[float, float]:
    """Mean scores of the last quarter of the rounds, whatever they took."""
    return tuple(float(np.mean([row["score"] for row in rows[-(len(rows) // 4) :]])) for rows in (a, b))  # type: ignore[return-value]


def _way(a: Rows, b: Rows) -> tuple[float, float]:
    """Mean scores over the critical path that both have been through."""
    end = min(a[-1]["critical_s"], b[-1]["critical_s"])
    times = np.linspace(0.0, end, 200)[1:]
    values = [np.interp(times, [r["critical_s"] for r in rows], [r["score"] for r in rows]) for rows in (a, b)]
    return float(values[0].mean()), float(values[1].mean())


EXPERIMENT = Experiment(
    "cifar-rivals",
    "On eight processors the hybrid sampler converges faster than the distributed slice sampler and to a better test "
    "log likelihood than the asynchronous approximation.",
    quick=Sizes(8, 2_000, 500, 3, 60),
    full=Sizes(16, 20_000, 2_000, 3, 100),
    run=run,
)
