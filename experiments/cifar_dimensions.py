"""CIFAR-100 in 8, 16, 32 and 64 principal components: test log likelihood against time on one processor.

Every chain has the same CPU time. A chain has converged, as this experiment reads the paper, when it is nine tenths of
the way from where it began to where the collapsed sampler ended: a reading of ours, chosen beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from experiments import data, figures
from experiments.chains import (
    COLLAPSED,
    GHOSTS,
    JUMPING,
    PUBLISHED,
    UNCOLLAPSED,
    Method,
    Plan,
    first_above,
    mixture,
    of_mixture,
    trace_for,
)
from experiments.common import Experiment, Finding, Request, Rows, Run, about, more, save_notes, save_rows, spread
from unbounded.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (COLLAPSED, UNCOLLAPSED, PUBLISHED, GHOSTS, JUMPING)
PREPARE = 400  # rows of the run that compiles
ARRIVED = 0.9
COMPARABLE = 2.0  # times as long, or as short

Curves = dict[tuple[str, int], list[Rows]]  # (method, dimension) -> the rows of each seed


@dataclass(frozen=True)
class Sizes:
    dimensions: tuple[int, ...]
    seconds: tuple[float, ...]  # of every chain, by dimension
    n_train: int
    n_test: int
    seeds: int


def run(sizes: Sizes, request: Request) -> list[Finding]:
    seeds = range(request.seed, request.seed + sizes.seeds)
    kinds = [(method, d, s) for d, s in zip(sizes.dimensions, sizes.seconds, strict=True) for method in METHODS]
    tasks = [(sizes, request, *kind, seed) for kind in kinds for seed in seeds]
    runs = iter(spread(chain, tasks, request.jobs))
    curves = {(method.label, d): [next(runs) for _ in seeds] for method, d, _ in kinds}
    rows = [
        {"method": label, "dimension": d, "seed": seed, **row}
        for (label, d), of_seeds in curves.items()
        for seed, rows in zip(seeds, of_seeds, strict=True)
        for row in rows
    ]
    save_rows(rows, request)
    save_notes(_rows(request, sizes, sizes.dimensions[0]).notes, request)
    return _judge(curves, sizes)


@cache
def _rows(request: Request, sizes: Sizes, dimension: int) -> data.Split:
    return data.cifar(request, sizes.n_train, sizes.n_test, dimension)


def chain(sizes: Sizes, request: Request, method: Method, dimension: int, seconds: float, seed: int) -> Rows:
    train, test, _ = _rows(request, sizes, dimension)
    _chain(train[:PREPARE], test[:PREPARE], method, 0.01, 0)
    return _chain(train, test, method, seconds, seed)


def _chain(train: Array, test: Array, method: Method, seconds: float, seed: int) -> Rows:
    model = mixture(train, method, Plan(1, 10_000, seed=seed), concentration=1.0)
    return trace_for(model, train, "one", of_mixture(model, test), seconds)


def draw(run: Run) -> dict[str, Figure]:
    sizes, curves = run.sizes, run.table().set_index(["dimension", "method"]).sort_index()
    whole, grid = figures.figure(1, len(sizes.dimensions), width=3.0)
    for axes, dimension in zip(grid[0], sizes.dimensions, strict=True):
        for method in METHODS:
            for number, (_, rows) in enumerate(curves.loc[dimension, method.label].groupby("seed")):
                later = rows[rows["round"] > 0]
                label = method.label if number == 0 else None
                axes.plot(later["critical_s"], later["score"], label=label, **method.look)
        figures.log_seconds(axes)
        axes.set_title(f"{dimension} dimensions", fontsize="medium")
        axes.set_xlabel("CPU time (s), one processor")
    grid[0, 0].set_ylabel("test log likelihood (nats per image)")
    figures.legend(whole, grid[0, 0])
    return {"figure": figures.noted(whole, run, ["from one cluster, a line for each seed"])}


def _judge(curves: Curves, sizes: Sizes) -> list[Finding]:
    findings, times = [], []
    for d in sizes.dimensions:
        goal = _goal([curves[method.label, d] for method in METHODS])
        of = {m.label: curves[m.label, d] for m in METHODS}
        words = f"in {d} dimensions the uncollapsed sampler"
        pair = of[UNCOLLAPSED.label], of[COLLAPSED.label]
        found = [
            later(f"{words} takes more iterations than the collapsed one", *pair, goal, "round"),
            more(f"{words} takes less time for an iteration", *_times(*pair[::-1]), "of log s"),
        ]
        findings += [about("more iterations", finding) for finding in found]
        times.append(later(f"in {d} dimensions", *pair, goal))
        for hybrid in (PUBLISHED, GHOSTS, JUMPING):
            words, key = f"in {d} dimensions {hybrid.label}", "in general faster" if hybrid is PUBLISHED else None
            mine = of[hybrid.label]
            found = [
                later(f"{words} converges sooner than the {r.label} sampler", of[r.label], mine, goal) for r in RIVALS
            ]
            if hybrid is PUBLISHED:
                found.append(
                    _comparable(f"{words} has an iteration time comparable to the collapsed sampler's", mine, pair[1])
                )
            findings += [about(key, finding) if key else finding for finding in found]
    return [about("more iterations", _some(times)), *findings]


def _some(times: list[Finding]) -> Finding:
    """In some cases: in one dimension at least."""
    held = [finding.held for finding in times]
    evidence = "; ".join(f"{finding.statement} {finding.evidence}" for finding in times)
    words = "in some dimension the uncollapsed sampler converges later in time than the collapsed one"
    return Finding(words, True if True in held else None if None in held else False, evidence)


RIVALS = (COLLAPSED, UNCOLLAPSED)


def _goal(runs: list[list[Rows]]) -> float:
    """Nine tenths of the way from where chains begin to where those of the first method end."""
    first, last = (float(np.mean([rows[place]["score"] for rows in runs[0]])) for place in (0, -1))
    return first + ARRIVED * (last - first)


def later(statement: str, a: list[Rows], b: list[Rows], goal: float, clock: str = "critical_s") -> Finding:
    """Does a reach the goal later than b, by differences of log times? Whoever never does has at least all its time."""
    times = [np.array([first_above(rows, goal, clock) for rows in runs]) for runs in (a, b)]
    most = max(rows[-1][clock] for rows in (*a, *b))
    capped = [np.where(np.isfinite(t), t, most) for t in times]
    finding = more(statement, *np.log(np.maximum(capped, 1e-9)))
    unit = "s" if clock == "critical_s" else "iterations"
    middle = [f"{np.median(t):.3g} {unit}" + _missed(full) for t, full in zip(capped, times, strict=True)]
    nobody = not np.isfinite(np.concatenate(times)).any()
    held = None if nobody else finding.held
    return Finding(statement, held, f"{middle[0]} against {middle[1]} (medians), log ratio {finding.evidence[11:]}")


def _missed(times: Array) -> str:
    missing = int((~np.isfinite(times)).sum())
    return f" or more, {missing} of {len(times)} not there yet" if missing else ""


def _times(a: list[Rows], b: list[Rows]) -> tuple[Array, Array]:
    """Log seconds of an iteration."""
    first, second = (np.array([np.log(rows[-1]["critical_s"] / rows[-1]["round"]) for rows in runs]) for runs in (a, b))
    return first, second


def _comparable(statement: str, a: list[Rows], b: list[Rows]) -> Finding:
    first, second = (float(np.exp(times.mean())) for times in _times(a, b))
    held = bool(1.0 / COMPARABLE < first / second < COMPARABLE)
    return Finding(statement, held, f"{1e3 * first:.3g} ms and {1e3 * second:.3g} ms, within a factor {COMPARABLE:g}")


EXPERIMENT = Experiment(
    "cifar-dimensions",
    "Gaussian mixtures with full covariances and concentration 1, one processor, from one cluster, all samplers for "
    "the same CPU time.",
    quick=Sizes((8, 16), (0.5, 0.5), 2_000, 500, 2),
    small=Sizes((8, 16, 32, 64), (6.0, 6.0, 10.0, 15.0), 5_000, 1_000, 3),
    full=Sizes((8, 16, 32, 64), (60.0, 60.0, 120.0, 240.0), 50_000, 2_000, 8),
    run=run,
    draw=draw,
)
