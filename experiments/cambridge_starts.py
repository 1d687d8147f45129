"""1,000 Cambridge images on 1 to 128 shards: how chains start, and which shards may make features.

A tenth of the pixels, at random, is hidden and scored. (The authors hide half of the pixels of a tenth of the rows;
rows with that many imputed values hardly move, and their score says more of that than of the features.) As the authors
do, chains start from a draw of the Indian buffet process, and shards exchange after every 5 sweeps. The paper's rules
have no jumps of whole features; ours is shown with and without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from experiments import data, figures
from experiments.chains import GHOSTS, HOT, PUBLISHED, WARM, Plan, feature_trace
from experiments.common import Experiment, Finding, Request, Rows, more, no_worse, save_rows, say
from unbounded.arrays import Array
from unbounded.models.features.jump import Jumps

JUMPING = replace(GHOSTS, label="hybrid, ghosts with jumps (ours)", options={"jumps": Jumps()})
METHODS = (PUBLISHED, WARM, HOT, GHOSTS, JUMPING)
SWEEPS, HIDDEN = 5, 0.1
TRUE_FEATURES = 4


@dataclass(frozen=True)
class Sizes:
    n_rows: int
    shards: tuple[int, ...]
    seeds: int
    n_rounds: int


def run(sizes: Sizes, request: Request) -> list[Finding]:
    X, notes = data.cambridge_rows(request, sizes.n_rows)
    mask, rows = np.random.default_rng(request.seed).random(X.shape) < HIDDEN, []
    for method in METHODS:
        for n_shards in sizes.shards:
            for seed in range(request.seed, request.seed + sizes.seeds):
                plan = Plan(n_shards, sizes.n_rounds, SWEEPS, seed)
                _, _, found = feature_trace(X, mask, method, plan, "prior")
                rows += [{"method": method.label, "shards": n_shards, "seed": seed, **row} for row in found]
            last = found[-1]
            say(f"{method.label}, P={n_shards}: {last['score']:.3f}, {last['features']} features, {_seconds(last)}")
    save_rows(rows, request)
    scores, numbers = (_blocks(rows, name, sizes) for name in ("score", "features"))
    times = {clock: _blocks(rows, clock, sizes)[..., -1].mean(-1) / sizes.n_rounds / SWEEPS for clock in figures.CLOCKS}
    _draw(scores, numbers, times, sizes, request, notes)
    return _judge(scores, numbers, sizes)


def _seconds(last: dict[str, float]) -> str:
    return f"{last['critical_s']:.2f} s critical path, {last['wall_s']:.2f} s wall"


def _blocks(rows: Rows, name: str, sizes: Sizes) -> Array:
    """[methods, shards, seeds, rounds + 1]."""
    shape = len(METHODS), len(sizes.shards), sizes.seeds, sizes.n_rounds + 1
    return np.array([row[name] for row in rows], float).reshape(shape)


def _draw(
    scores: Array, numbers: Array, times: dict[str, Array], sizes: Sizes, request: Request, notes: list[str]
) -> None:
    whole, grid = figures.figure(3, len(METHODS), width=2.5, height=2.2, sharex="row", sharey="row")
    x = np.arange(sizes.n_rounds + 1) * SWEEPS
    for m, method in enumerate(METHODS):
        for p, (n_shards, colour) in enumerate(zip(sizes.shards, figures.shades(len(sizes.shards)), strict=True)):
            for axes, values in zip(grid[:2, m], (scores, numbers), strict=True):
                axes.plot(x, values[m, p].mean(0), color=colour, linewidth=1.3, label=f"{n_shards}")
                axes.set_xlabel("iteration (sweep)")
        grid[0, m].set_title(method.label.replace("hybrid, ", ""), fontsize="medium")
        grid[1, m].axhline(TRUE_FEATURES, color=figures.GREY, linewidth=0.8, linestyle=":")
    low = np.quantile(scores[:, :, :, 1:], 0.02)
    grid[0, 0].set_ylim(low, scores.max() + 0.05 * (scores.max() - low))
    grid[0, 0].set_ylabel("held-out log likelihood\n(nats per pixel)")
    figures.doubling(grid[1, 0], numbers.max())
    grid[1, 0].set_ylabel("number of features\n(dotted: the truth)")
    _draw_times(grid[2], times, sizes)
    figures.legend(whole, grid[0, 0], "number of shards P")
    notes = [*notes, f"exchange every {SWEEPS} sweeps, means over {sizes.seeds} seeds"]
    figures.finish(whole, request, notes=[*notes, *figures.beyond_cores(sizes.shards[-1])])


def _draw_times(row: Array, times: dict[str, Array], sizes: Sizes) -> None:
    """Of a sweep, its part of the exchange included, means over the chain."""
    for m, axes in enumerate(row):
        mine = {clock: values[m] for clock, values in times.items()}
        figures.clocks(axes, sizes.shards, mine, {"color": figures.GREY, "marker": "o", "markersize": 4}, "sweep")
        axes.set_xlabel("number of shards P")
        axes.tick_params(axis="x", labelsize="small")
        axes.label_outer()
    row[0].set_xscale("log", base=2)
    row[0].set_xticks(sizes.shards, [str(n_shards) for n_shards in sizes.shards])
    figures.clock_legend(row[0])


def _judge(scores: Array, numbers: Array, sizes: Sizes) -> list[Finding]:
    """Pairs: the same seed and number of shards, of those that have many."""
    many = np.array(sizes.shards) >= min(16, sizes.shards[-1])
    early, late = slice(1, 1 + sizes.n_rounds // 4), slice(-(sizes.n_rounds // 4), None)
    which = {method.label: m for m, method in enumerate(METHODS)}

    def of(values: Array, label: str, when: slice) -> Array:
        chosen: Array = values[which[label]][many][:, :, when].mean(-1).ravel()
        return chosen

    words = f"with P >= {np.array(sizes.shards)[many][0]}"
    cold, warm, hot, ghosts, jumping = (method.label for method in METHODS)
    first = {label: of(scores, label, early) for label in which}
    last = {label: of(scores, label, late) for label in which}
    number = {label: of(numbers, label, late) for label in which}
    return [
        more(f"{words} the warm start is above the cold one early", first[warm], first[cold], "nats"),
        more(f"{words} always-hot ends with more features than warm", number[hot], number[warm]),
        more(f"{words} warm ends above always-hot", last[warm], last[hot], "nats"),
        more(f"{words} ghosts (no jumps) are above the cold start early", first[ghosts], first[cold], "nats"),
        no_worse(f"{words} ghosts (no jumps) end no worse than warm", last[ghosts], last[warm], 0.01, "nats"),
        _near_truth(f"{words} ghosts with jumps end with at most one feature too many", number[jumping]),
    ]


def _near_truth(statement: str, numbers: Array) -> Finding:
    mean = float(numbers.mean())
    return Finding(statement, bool(abs(mean - TRUE_FEATURES) <= 1), f"{mean:.2f} features on average, truth 4")


EXPERIMENT = Experiment(
    "cambridge-starts",
    "With many processors a warm start converges sooner than a cold one; letting all processors make features always "
    "is no sampler of the posterior, keeps too many features and ends with a lower test log likelihood.",
    quick=Sizes(300, (1, 16), 3, 60),
    full=Sizes(1_000, (1, 4, 8, 16, 32, 64, 128), 3, 200),
    run=run,
)
