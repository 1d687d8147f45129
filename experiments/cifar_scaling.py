"""CIFAR-100 on one to eight shards: how much sooner a given test log likelihood is reached.

From labels drawn from the prior, from which chains rise steadily; when one begins to rise from one cluster is luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from experiments import data, figures
from experiments.chains import (
    GHOSTS,
    JUMPING,
    PUBLISHED,
    Method,
    Plan,
    first_above,
    mixture,
    of_mixture,
    replay,
    trace,
)
from experiments.common import (
    Experiment,
    Finding,
    Request,
    Rows,
    Run,
    about,
    save_notes,
    save_rows,
    spread,
    standard_error,
)
from unbounded.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (PUBLISHED, GHOSTS, JUMPING)
START, PREPARE = "prior", 400
WORTH = 0.5  # of the ideal speed-up: what counts as roughly linear


@dataclass(frozen=True)
class Sizes:
    shards: tuple[int, ...]
    dimensions: tuple[int, ...]
    n_train: int
    n_test: int
    seeds: int
    n_rounds: int


def run(sizes: Sizes, request: Request) -> list[Finding]:
    seeds = range(request.seed, request.seed + sizes.seeds)
    kinds = [(d, method, p) for d in sizes.dimensions for method in METHODS for p in sizes.shards]
    tasks = [(sizes, request, *kind, seed) for kind in kinds for seed in seeds]
    runs = iter(spread(chain, tasks, request.jobs))
    curves = {(d, method.label, p): [next(runs) for _ in seeds] for d, method, p in kinds}
    walls = {(d, method.label, p): _wall(sizes, request, d, method, p) for d, method, p in kinds}
    plotted = [row for d in sizes.dimensions for m in METHODS for row in _speedups(curves, walls, d, m.label, sizes)]
    save_rows(plotted, request)
    save_rows(
        [
            {"dimension": d, "method": label, "shards": p, "seed": seed, **row}
            for (d, label, p), of_seeds in curves.items()
            for seed, rows in zip(seeds, of_seeds, strict=True)
            for row in rows
        ],
        request,
        "traces",
    )
    save_notes(_split(request, sizes, sizes.dimensions[0]).notes, request)
    return _judge(plotted, sizes)


@cache
def _split(request: Request, sizes: Sizes, dimension: int) -> data.Split:
    return data.cifar(request, sizes.n_train, sizes.n_test, dimension)


def _model(train: Array, method: Method, n_shards: int, n_rounds: int, seed: int) -> object:
    return mixture(train, method, Plan(n_shards, n_rounds, seed=seed), concentration=1.0)


def chain(sizes: Sizes, request: Request, dimension: int, method: Method, n_shards: int, seed: int) -> Rows:
    train, test, _ = _split(request, sizes, dimension)
    rows: Rows = []
    for X, n_rounds in ((train[:PREPARE], 2), (train, sizes.n_rounds)):
        model = _model(X, method, n_shards, n_rounds, seed)
        rows = trace(model, X, START, n_rounds, of_mixture(model, test))
    return rows


def _wall(sizes: Sizes, request: Request, dimension: int, method: Method, n_shards: int) -> Array:
    """Seconds up to the end of each round of the first chain, alone on this machine."""
    train = _split(request, sizes, dimension).train
    model: object = _model(train, method, n_shards, sizes.n_rounds, request.seed)
    return replay(model, train, START, sizes.n_rounds)[0]  # type: ignore[type-var]


def _speedups(curves: dict, walls: dict, d: int, label: str, sizes: Sizes) -> Rows:
    """Times to the target, which all chains of all samplers reach, and of all rounds: means over seeds, and ratios."""
    target = _target([rows for m in METHODS for p in sizes.shards for rows in curves[d, m.label, p]])
    out: Rows = []
    for p in sizes.shards:
        runs = curves[d, label, p]
        reached = np.array([first_above(rows, target) for rows in runs])
        whole = np.array([rows[-1]["critical_s"] for rows in runs])
        out.append({
            "dimension": d, "method": label, "shards": p, "target": target,
            "rounds": np.mean([first_above(rows, target, "round") for rows in runs]),
            "critical_s": reached.mean(), "critical_s_error": standard_error(reached),
            "all_critical_s": whole.mean(), "all_critical_s_error": standard_error(whole),
            "wall_s": walls[d, label, p][int(first_above(runs[0], target, "round"))],
            "all_wall_s": walls[d, label, p][-1],
        })  # fmt: skip
    one = out[0]
    names = ("critical_s", "all_critical_s", "wall_s", "all_wall_s")
    return [row | {f"speedup_{name}": one[name] / row[name] for name in names} for row in out]


def _target(runs: list[Rows]) -> float:
    """What all chains reach: a little below the lowest of their best scores."""
    best = min(max(row["score"] for row in rows) for rows in runs)
    return float(best - 0.05 * (best - np.mean([rows[0]["score"] for rows in runs])))


def draw(run: Run) -> dict[str, Figure]:
    sizes, plotted = run.sizes, run.table().set_index(["dimension", "method"]).sort_index()
    whole, grid = figures.figure(len(sizes.dimensions), 2, width=3.8, sharey=True, sharex=True)
    for line, d in zip(grid, sizes.dimensions, strict=True):
        for axes, (kind, title) in zip(line, (("", "time to the target"), ("all_", "time of all rounds")), strict=True):
            axes.plot(sizes.shards, sizes.shards, color=figures.GREY, linewidth=0.8, label="ideal")
            for method in METHODS:
                mine = plotted.loc[d, method.label]
                for (clock, (words, _, filled)), marker in zip(figures.CLOCKS.items(), "os", strict=True):
                    look = method.look | {"marker": marker, "markerfacecolor": filled}
                    y = mine[f"speedup_{kind}{clock}"]
                    axes.plot(mine["shards"], y, label=f"{method.label}: {words}", **look)
            axes.set_xticks(sizes.shards)
            axes.set_title(f"{d} dimensions: {title}", fontsize="medium")
        line[0].set_ylabel("speed-up over P = 1")
    for axes in grid[-1]:
        axes.set_xlabel("number of shards P")
    notes = [f"{sizes.n_rounds} rounds", *figures.beyond_cores(sizes.shards[-1], run)]
    if run.cores < sizes.shards[-1]:
        for axes in grid.ravel():
            axes.axvspan(run.cores, sizes.shards[-1], color="0.93", zorder=0)
        notes = ["shaded: more shards than cores", *notes]
    figures.legend(whole, grid[0, 0])
    return {"figure": figures.noted(whole, run, notes)}


def _judge(plotted: Rows, sizes: Sizes) -> list[Finding]:
    """Roughly linear: at least half of the ideal with the most shards. Absolute times stand beside the ratios."""
    findings, most = [], sizes.shards[-1]
    for d in sizes.dimensions:
        for method in METHODS:
            mine = [row for row in plotted if (row["dimension"], row["method"]) == (d, method.label)]
            times = ", ".join(
                f"P = {row['shards']}: {row['critical_s']:.3g} ± {row['critical_s_error']:.1g} s, {row['rounds']:.1f} "
                f"rounds ({row['speedup_critical_s']:.2f}x)"
                for row in mine
            )
            words = (
                f"{d} dimensions, {method.label}: with {most} shards {mine[0]['target']:.2f} nats are reached at least "
                f"{WORTH * most:g} times sooner"
            )
            finding = Finding(words, bool(mine[-1]["speedup_critical_s"] >= WORTH * most), f"critical path {times}")
            findings.append(about("linear", finding) if method is PUBLISHED else finding)
    return findings  # fmt: skip


EXPERIMENT = Experiment(
    "cifar-scaling",
    "Gaussian mixtures on one to eight shards from labels of the prior; the target is a score that every chain "
    "reaches.",
    quick=Sizes((1, 2, 4), (16,), 10_000, 500, 1, 30),
    small=Sizes((1, 2, 4, 8), (16, 64), 10_000, 500, 2, 40),
    full=Sizes((1, 2, 3, 4, 5, 6, 7, 8), (16, 64), 50_000, 2_000, 8, 60),
    run=run,
    draw=draw,
)
