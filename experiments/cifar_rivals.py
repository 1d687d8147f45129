"""CIFAR-100 on eight shards: the hybrid sampler beside all rivals that take shards, at equal time.

Two starts, since they decide much: from one cluster, which a sampler that draws new clusters from the prior hardly
leaves; and from labels drawn from the prior, which give all samplers clusters to work with.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from experiments import data, figures
from experiments.chains import (
    ASYNCHRONOUS,
    AUXILIARY,
    GHOSTS,
    JUMPING,
    PUBLISHED,
    SLICE,
    SUBCLUSTER,
    Method,
    Plan,
    at,
    mixture,
    of_mixture,
    trace_for,
)
from experiments.common import (
    Experiment,
    Finding,
    Request,
    Rows,
    Run,
    about,
    more,
    save_notes,
    save_rows,
    spread,
    standard_error,
)
from unbounded.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (PUBLISHED, GHOSTS, JUMPING, ASYNCHRONOUS, SLICE, SUBCLUSTER, AUXILIARY)
COMPARED = (SLICE, ASYNCHRONOUS)  # the paper's two comparison methods
STARTS = {"one": "from one cluster", "prior": "from labels of the prior"}
PREPARE = 400
FLAT = 0.02  # nats between the middle and the end of the last half of the time

Kind = tuple[int, str, str]  # dimension, start, label of the method
Curves = dict[Kind, list[Rows]]  # the rows of each seed


@dataclass(frozen=True)
class Sizes:
    dimensions: tuple[int, ...]
    seconds: tuple[float, ...]  # of every chain's critical path, by dimension
    n_train: int
    n_test: int
    seeds: int
    n_shards: int = 8


def run(sizes: Sizes, request: Request) -> list[Finding]:
    seeds = range(request.seed, request.seed + sizes.seeds)
    budgets = dict(zip(sizes.dimensions, sizes.seconds, strict=True))
    kinds = [(d, start, method) for d in sizes.dimensions for start in STARTS for method in METHODS]
    tasks = [(sizes, request, *kind, budgets[kind[0]], seed) for kind in kinds for seed in seeds]
    runs = iter(spread(chain, tasks, request.jobs))
    curves: Curves = {(d, start, method.label): [next(runs) for _ in seeds] for d, start, method in kinds}
    save_rows(_rows(curves, request.seed), request)
    save_notes(_split(request, sizes, sizes.dimensions[0]).notes, request)
    return [f for d in sizes.dimensions for start in STARTS for f in _judge(curves, d, start, budgets[d])]


@cache
def _split(request: Request, sizes: Sizes, dimension: int) -> data.Split:
    return data.cifar(request, sizes.n_train, sizes.n_test, dimension)


def chain(
    sizes: Sizes, request: Request, dimension: int, start: str, method: Method, seconds: float, seed: int
) -> Rows:
    train, test, _ = _split(request, sizes, dimension)
    _chain(train[:PREPARE], test[:PREPARE], method, sizes.n_shards, "one", 0.01, 0)
    return _chain(train, test, method, sizes.n_shards, start, seconds, seed)


def _chain(train: Array, test: Array, method: Method, n_shards: int, start: str, seconds: float, seed: int) -> Rows:
    model = mixture(train, method, Plan(n_shards, 100_000, seed=seed), concentration=1.0)
    return trace_for(model, train, start, of_mixture(model, test), seconds)


def _rows(curves: Curves, first: int) -> Rows:
    return [
        {"dimension": d, "start": start, "method": label, "seed": seed, **row}
        for (d, start, label), runs in curves.items()
        for seed, rows in enumerate(runs, first)
        for row in rows
    ]


def draw(run: Run) -> dict[str, Figure]:
    """Means over seeds with their standard errors, against the critical path."""
    sizes, curves = run.sizes, run.table().set_index(["dimension", "start", "method"]).sort_index()
    whole, grid = figures.figure(len(STARTS), len(sizes.dimensions), width=4.4, sharex="col")
    for line, start in zip(grid, STARTS, strict=True):
        for axes, d, seconds in zip(line, sizes.dimensions, sizes.seconds, strict=True):
            times = np.geomspace(seconds / 200, seconds, 60)
            for method in METHODS:
                seeds = [rows.to_dict("records") for _, rows in curves.loc[d, start, method.label].groupby("seed")]
                scores = np.array([[at(rows, time) for time in times] for rows in seeds])
                figures.band(axes, times, scores, method.look, method.label)
            figures.log_seconds(axes)
            axes.set_title(f"{d} dimensions, {STARTS[start]}", fontsize="medium")
        line[0].set_ylabel("test log likelihood\n(nats per image)")
    for axes in grid[-1]:
        axes.set_xlabel("critical path (CPU s)")
    figures.legend(whole, grid[0, 0])
    notes = [f"P = {sizes.n_shards}", f"means over {sizes.seeds} seeds with standard errors"]
    return {"figure": figures.noted(whole, run, [*notes, *figures.beyond_cores(sizes.n_shards, run)])}


def _judge(curves: Curves, d: int, start: str, seconds: float) -> list[Finding]:
    """Converges faster: a higher mean score over the time that all had. Ours are also judged at the end of it."""
    where = f"{d} dimensions, {STARTS[start]}"

    def compared(this: Method, other: Method, when: str) -> Finding:
        key = _way if when == "on the way" else _end
        scores = [np.array([key(rows, seconds) for rows in curves[d, start, m.label]]) for m in (this, other)]
        finding = more(f"{where}: {this.label} is above {other.label} {when}", *scores, "nats")
        means = [f"{s.mean():.3f} ± {standard_error(s):.2g}" for s in scores]
        rounds = [np.mean([rows[-1]["round"] for rows in curves[d, start, m.label]]) for m in (this, other)]
        took = f"{seconds:g} s each: {rounds[0]:.0f} and {rounds[1]:.0f} rounds"
        return Finding(finding.statement, finding.held, f"{means[0]} and {means[1]}, {finding.evidence}; {took}")

    ours = [compared(JUMPING, other, when) for other in METHODS if other is not JUMPING for when in WHEN]
    ghosts = [compared(GHOSTS, other, "at the end") for other in (PUBLISHED, *COMPARED)]
    papers = [about("converges faster", compared(PUBLISHED, other, "on the way")) for other in COMPARED]
    if d == max(dimension for dimension, _, _ in curves):
        papers.append(about("slice, poorly", compared(ASYNCHRONOUS, SLICE, "at the end")))
    return [*papers, *ghosts, *ours, _flat(where, curves, d, start, seconds)]


WHEN = ("on the way", "at the end")


def _way(rows: Rows, seconds: float) -> float:
    """The mean score over the critical path."""
    return float(np.mean([at(rows, time) for time in np.linspace(0.0, seconds, 200)[1:]]))


def _end(rows: Rows, seconds: float) -> float:
    """The mean score over the last tenth of it."""
    return float(np.mean([at(rows, time) for time in np.linspace(0.9 * seconds, seconds, 20)]))


def _flat(where: str, curves: Curves, d: int, start: str, seconds: float) -> Finding:
    """Whether the race was long enough to speak of its end."""
    rise = {
        m.label: float(np.mean([_end(rows, seconds) - at(rows, 0.5 * seconds) for rows in curves[d, start, m.label]]))
        for m in METHODS
    }
    worst = max(rise, key=lambda label: rise[label])
    words = f"{where}: all curves are flat at the end, within {FLAT:g} nats of half-time"
    return Finding(words, bool(rise[worst] < FLAT), f"most left to gain: {worst}, {rise[worst]:+.3f} nats")


EXPERIMENT = Experiment(
    "cifar-rivals",
    "Gaussian mixtures with full covariances and concentration 1, eight shards, all samplers for the same critical "
    "path.",
    quick=Sizes((8,), (0.2,), 2_000, 500, 2),
    small=Sizes((16, 64), (1.0, 3.0), 5_000, 1_000, 3),
    full=Sizes((16, 64), (10.0, 40.0), 20_000, 2_000, 8),
    run=run,
    draw=draw,
)
