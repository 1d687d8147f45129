"""CIFAR-100 on one to eight shards: how much sooner a given test log likelihood is reached.

From labels drawn from the prior, from which chains rise steadily; when one begins to rise from one cluster is luck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments import data, figures
from experiments.chains import GHOSTS, PUBLISHED, Method, Plan, mixture, of_mixture, trace, with_wall
from experiments.common import Experiment, Finding, Request, Rows, save_rows, say
from unbounded.arrays import Array
from unbounded.engines.local import available_cores

METHODS = (PUBLISHED, GHOSTS)
START, PREPARE = "prior", 400
WORTH = 0.5  # of the ideal speed-up


@dataclass(frozen=True)
class Sizes:
    shards: tuple[int, ...]
    dimension: int
    n_train: int
    n_test: int
    seeds: int
    n_rounds: int


def run(sizes: Sizes, request: Request) -> list[Finding]:
    train, test, notes = data.cifar(request, sizes.n_train, sizes.n_test, sizes.dimension)
    rows = []
    for method in METHODS:
        _chain(train[:PREPARE], test[:PREPARE], method, 2, 2, 0)
        for n_shards in sizes.shards:
            for seed in range(request.seed, request.seed + sizes.seeds):
                found = _chain(train, test, method, sizes.n_rounds, n_shards, seed)
                rows += [{"method": method.label, "shards": n_shards, "seed": seed, **row} for row in found]
                say(f"{method.label}, P={n_shards}: {found[-1]['score']:.3f}, {found[-1]['critical_s']:.1f} s")
    save_rows(rows, request, "traces")
    target = _target(rows)
    plotted = _speedups(rows, sizes, target)
    save_rows(plotted, request)
    _draw(plotted, target, sizes, request, notes)
    return _judge(plotted, sizes)


def _chain(train: Array, test: Array, method: Method, n_rounds: int, n_shards: int, seed: int) -> Rows:
    model = mixture(train, method, Plan(n_shards, n_rounds, seed=seed), concentration=1.0)
    return with_wall(trace(model, train, START, n_rounds, of_mixture(model, test)), model, train, START)


def _target(rows: Rows) -> float:
    """What all chains reach: a little below the lowest of their best scores."""
    best: dict[tuple, float] = {}
    for row in rows:
        key = row["method"], row["shards"], row["seed"]
        best[key] = max(best.get(key, -np.inf), row["score"])
    first = np.mean([row["score"] for row in rows if row["round"] == 0])
    return float(min(best.values()) - 0.05 * (min(best.values()) - first))


def _speedups(rows: Rows, sizes: Sizes, target: float) -> Rows:
    """Time to the target, and the ratio of one shard's to it, means over seeds."""
    out = []
    for method in METHODS:
        reached = {}
        for n_shards in sizes.shards:
            mine = [row for row in rows if (row["method"], row["shards"]) == (method.label, n_shards)]
            first = [
                next(row for row in mine if row["seed"] == seed and row["score"] >= target)
                for seed in sorted({row["seed"] for row in mine})
            ]
            whole = [row for row in mine if row["round"] == sizes.n_rounds]
            reached[n_shards] = {
                "round": np.mean([row["round"] for row in first]),
                **{f"{clock}": np.mean([row[clock] for row in first]) for clock in figures.CLOCKS},
                **{f"all_{clock}": np.mean([row[clock] for row in whole]) for clock in figures.CLOCKS},
            }
        one = reached[sizes.shards[0]]
        for n_shards, times in reached.items():
            ratios = {f"speedup_{key}": one[key] / times[key] for key in times if key != "round"}
            out.append({"method": method.label, "shards": n_shards, "target": target, **times, **ratios})
    return out


def _draw(plotted: Rows, target: float, sizes: Sizes, request: Request, notes: list[str]) -> None:
    whole, grid = figures.figure(1, 2, width=3.8, sharey=True)
    panels = ("", f"time to {target:.2f} nats per image"), ("all_", f"time of {sizes.n_rounds} rounds")
    for axes, (kind, title) in zip(grid[0], panels, strict=True):
        axes.plot(sizes.shards, sizes.shards, color=figures.GREY, linewidth=0.8, label="ideal")
        for method in METHODS:
            mine = [row for row in plotted if row["method"] == method.label]
            for (clock, (words, _, filled)), marker in zip(figures.CLOCKS.items(), "os", strict=True):
                look = method.look | {"marker": marker, "markerfacecolor": filled}
                y = [row[f"speedup_{kind}{clock}"] for row in mine]
                axes.plot(sizes.shards, y, label=f"{method.label}: {words}", **look)
        axes.set_xlabel("number of shards P")
        axes.set_xticks(sizes.shards)
        axes.set_title(title, fontsize="medium")
    if available_cores() < sizes.shards[-1]:
        for axes in grid[0]:
            axes.axvspan(available_cores(), sizes.shards[-1], color="0.93", zorder=0)
            axes.set_xlim(sizes.shards[0] - 0.2, sizes.shards[-1] + 0.2)
        notes = [*notes, "shaded: more shards than cores"]
    grid[0, 0].set_ylabel("speed-up over P = 1")
    figures.legend(whole, grid[0, 0])
    notes = [*notes, f"{sizes.dimension} dimensions", *figures.beyond_cores(sizes.shards[-1])]
    figures.finish(whole, request, notes=notes)


def _judge(plotted: Rows, sizes: Sizes) -> list[Finding]:
    findings, most = [], sizes.shards[-1]
    for method in METHODS:
        mine = [row for row in plotted if row["method"] == method.label]
        ratios = [row["speedup_critical_s"] for row in mine]
        evidence = ", ".join(f"P={row['shards']}: {row['speedup_critical_s']:.2f}x" for row in mine)
        statement = f"{method.label}: with {most} shards the target is reached more than {WORTH * most:g} times sooner"
        findings.append(Finding(statement, bool(ratios[-1] > WORTH * most), f"critical path {evidence}"))
    return findings


EXPERIMENT = Experiment(
    "cifar-scaling",
    "The time to a given test log likelihood falls almost in proportion to the number of processors, up to eight.",
    quick=Sizes((1, 2, 4), 16, 20_000, 500, 1, 40),
    full=Sizes((1, 2, 3, 4, 5, 6, 7, 8), 16, 20_000, 2_000, 2, 60),
    run=run,
)
