"""1,000 Cambridge images on 1 to 128 shards: how chains start, and which shards may make features.

As in the paper, chains start from a single feature and shards exchange after every 5 sweeps. A tenth of the pixels, at
random, is hidden and scored. The paper does not say what its test set is; the authors' code hides half of the pixels of
a tenth of the rows, but rows with that many imputed values hardly move, and their score says more of that than of the
features. The paper's rules have no jumps of whole features; ours is shown with and without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments import data, figures
from experiments.chains import (
    FEATURE_JUMPING,
    GHOSTS,
    HOT,
    PUBLISHED,
    WARM,
    Method,
    Plan,
    feature_trace,
    features,
    hide,
    replay,
)
from experiments.common import (
    Experiment,
    Finding,
    Request,
    Rows,
    Run,
    about,
    more,
    no_worse,
    save_notes,
    save_rows,
    spread,
)
from experiments.common import standard_error as error_of
from unbounded.arrays import Array
from unbounded.models.features import start as feature_start

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

METHODS = (PUBLISHED, WARM, HOT, GHOSTS, FEATURE_JUMPING)
SWEEPS, HIDDEN = 5, 0.1
TRUE_FEATURES = 4
ARRIVED = 0.9  # of the way from the first score to the best final one: what counts as converged
ROUGHLY = 0.05  # nats per pixel: what counts as the same score


@dataclass(frozen=True)
class Sizes:
    n_rows: int
    shards: tuple[int, ...]
    seeds: int
    n_rounds: int


def run(sizes: Sizes, request: Request) -> list[Finding]:
    seeds = range(request.seed, request.seed + sizes.seeds)
    kinds = [(method, n_shards) for method in METHODS for n_shards in sizes.shards]
    tasks = [(sizes, request, *kind, seed) for kind in kinds for seed in seeds]
    runs = spread(chain, tasks, request.jobs)
    walls = np.array([_wall(sizes, request, *kind) for kind in kinds]).reshape(len(METHODS), -1)
    rows = [
        {"method": method.label, "shards": n_shards, "seed": seed, **row}
        for (_, _, method, n_shards, seed), found in zip(tasks, runs, strict=True)
        for row in found
    ]
    save_rows(rows, request)
    save_notes(data.cambridge_rows(request, sizes.n_rows)[1], request)
    names = ("score", "features", "used", "critical_s")
    blocks = {name: _blocks(rows, name, sizes) for name in names}
    times = {"critical_s": blocks["critical_s"][..., -1].mean(-1), "wall_s": walls}
    times = {clock: values / sizes.n_rounds / SWEEPS for clock, values in times.items()}
    seconds = zip(kinds, *(values.ravel() for values in times.values()), strict=True)
    save_rows(
        [{"method": m.label, "shards": p, "critical_s": c, "wall_s": w} for (m, p), c, w in seconds], request, "times"
    )
    return Judge(sizes, **blocks).findings()


def chain(sizes: Sizes, request: Request, method: Method, n_shards: int, seed: int) -> Rows:
    X, mask = _hidden(sizes, request)
    return feature_trace(X, mask, method, Plan(n_shards, sizes.n_rounds, SWEEPS, seed), "one", wall=False)[2]


def _hidden(sizes: Sizes, request: Request) -> tuple[Array, Array]:
    X, _ = data.cambridge_rows(request, sizes.n_rows)
    return X, np.random.default_rng(request.seed).random(X.shape) < HIDDEN


def _wall(sizes: Sizes, request: Request, method: Method, n_shards: int) -> float:
    """Seconds of the first chain, alone on this machine."""
    X, _ = hide(*_hidden(sizes, request))
    model = features(X, method, Plan(n_shards, sizes.n_rounds, SWEEPS, request.seed))
    return float(replay(model, X, "one", sizes.n_rounds, feature_start)[0][-1])


def _blocks(rows: Rows, name: str, sizes: Sizes) -> Array:
    """[methods, shards, seeds, rounds + 1]."""
    shape = len(METHODS), len(sizes.shards), sizes.seeds, sizes.n_rounds + 1
    return np.array([row[name] for row in rows], float).reshape(shape)


def draw(run: Run) -> dict[str, Figure]:
    """Means over seeds."""
    sizes, rows, times = run.sizes, run.table(), run.table("times").set_index("method")
    means = rows.groupby(["method", "shards", "round"])[["score", "features"]].mean()
    whole, grid = figures.figure(3, len(METHODS), width=2.5, height=2.2, sharex="row", sharey="row")
    for m, method in enumerate(METHODS):
        for n_shards, colour in zip(sizes.shards, figures.shades(len(sizes.shards)), strict=True):
            mine = means.loc[method.label, n_shards]
            for axes, name in zip(grid[:2, m], means, strict=True):
                axes.plot(mine.index * SWEEPS, mine[name], color=colour, linewidth=1.3, label=f"{n_shards}")
                axes.set_xlabel("iteration (sweep)")
        grid[0, m].set_title(method.label.replace("hybrid, ", ""), fontsize="medium")
        grid[1, m].axhline(TRUE_FEATURES, color=figures.GREY, linewidth=0.8, linestyle=":")
        _draw_times(grid[2, m], times.loc[method.label], sizes)
    low, high = rows["score"][rows["round"] > 0].quantile(0.02), rows["score"].max()
    grid[0, 0].set_ylim(low, high + 0.05 * (high - low))
    grid[0, 0].set_ylabel("held-out log likelihood\n(nats per pixel)")
    figures.doubling(grid[1, 0], rows["features"].max())
    grid[1, 0].set_ylabel("number of features\n(dotted: the truth)")
    grid[2, 0].set_xscale("log", base=2)
    grid[2, 0].set_xticks(sizes.shards, [str(n_shards) for n_shards in sizes.shards])
    figures.clock_legend(grid[2, 0])
    figures.legend(whole, grid[0, 0], "number of shards P")
    notes = [f"exchange every {SWEEPS} sweeps, means over {sizes.seeds} seeds"]
    return {"figure": figures.noted(whole, run, [*notes, *figures.beyond_cores(sizes.shards[-1], run)])}


def _draw_times(axes: Axes, times: DataFrame, sizes: Sizes) -> None:
    """Of a sweep, its part of the exchange included, means over the chain."""
    look = {"color": figures.GREY, "marker": "o", "markersize": 4}
    figures.clocks(axes, sizes.shards, {clock: times[clock].to_numpy() for clock in figures.CLOCKS}, look, "sweep")
    axes.set_xlabel("number of shards P")
    axes.tick_params(axis="x", labelsize="small")
    axes.label_outer()


@dataclass(frozen=True)
class Judge:
    """All numbers [methods, shards, seeds, rounds + 1]."""

    sizes: Sizes
    score: Array
    features: Array
    used: Array
    critical_s: Array

    @property
    def many(self) -> Array:
        return np.array(self.sizes.shards) >= min(16, self.sizes.shards[-1])

    @property
    def words(self) -> str:
        return f"with P >= {np.array(self.sizes.shards)[self.many][0]}"

    def of(self, values: Array, method: Method, when: slice, all_shards: bool = False) -> Array:
        """Means over rounds [shards, seeds]."""
        mine: Array = values[METHODS.index(method)][:, :, when].mean(-1)
        return mine if all_shards else mine[self.many]

    @property
    def early(self) -> slice:
        return slice(1, 1 + self.sizes.n_rounds // 4)

    @property
    def late(self) -> slice:
        return slice(-(self.sizes.n_rounds // 4), None)

    def arrivals(self, method: Method) -> Array:
        """Log seconds of critical path until the score is there [shards, seeds]; all of them where it never is."""
        m, there = METHODS.index(method), self.there(method)
        when = np.where(there.any(-1), there.argmax(-1), self.sizes.n_rounds)
        seconds: Array = np.log(np.take_along_axis(self.critical_s[m], when[..., None], -1)[..., 0])
        return seconds

    def there(self, method: Method) -> Array:
        """Whether the score is nine tenths of the way to the best final one of all [shards, seeds, rounds + 1]."""
        first, last = self.score[..., 0].mean(), self.score[..., self.late].mean(-1).max()
        near: Array = self.score[METHODS.index(method)] >= first + ARRIVED * (last - first)
        return near

    def findings(self) -> list[Finding]:
        return [*self._cold(), *self._warm(), *self._hot(), *self._ours()]

    def _cold(self) -> list[Finding]:
        when = self.arrivals(PUBLISHED)
        features = self.of(self.features, PUBLISHED, slice(1, 1 + self.sizes.n_rounds // 8), all_shards=True)
        alone = np.broadcast_to(features[:1], features[self.many].shape).ravel()
        one = np.broadcast_to(when[:1], when[self.many].shape).ravel()
        words = f"cold, {self.words}: fewer features in the first eighth than with P = 1"
        fewer = more(words, alone, features[self.many].ravel())
        return [
            about("cold", more(
                f"cold, {self.words}: the score is there later on the critical path than with P = 1",
                when[self.many].ravel(), one, "of log s",
            )),
            about("rate decreases", fewer),
            about("grows slowly", fewer),
        ]  # fmt: skip

    def _warm(self) -> list[Finding]:
        early = [self.of(self.score, method, self.early).ravel() for method in (WARM, PUBLISHED)]
        eighth = self.sizes.n_rounds // 8
        open_ = self.of(self.features, WARM, slice(eighth, eighth + 1)).ravel()
        return [
            about("warm", more(f"{self.words} the warm start is above the cold one early", *early, "nats")),
            about("over-estimate", more(
                f"{self.words} warm has more than {TRUE_FEATURES} features after the last round with all shards open",
                open_, np.full_like(open_, TRUE_FEATURES),
            )),
            about("close to four", self._close("warm ends", WARM)),
            about("monotonically", self._monotone(WARM)),
        ]  # fmt: skip

    def _hot(self) -> list[Finding]:
        score = self.of(self.score, HOT, self.late, all_shards=True).mean(1)
        hot, warm = (self.of(self.features, method, self.late) for method in (HOT, WARM))
        number = self.of(self.features, HOT, self.late, all_shards=True)
        first, last = self.sizes.shards[0], self.sizes.shards[-1]
        by_shards = ", ".join(f"P = {p}: {s:.3f}" for p, s in zip(self.sizes.shards, score, strict=True))
        spans = [np.ptp(self.arrivals(method), axis=0) for method in (WARM, HOT)]
        ours = self.of(self.features, FEATURE_JUMPING, self.late)
        sooner = [self.arrivals(method)[self.many].ravel() for method in (HOT, WARM)]
        return [
            about("hot, the same", Finding(
                f"always-hot ends with the same score for every P, within {ROUGHLY:g} nats per pixel",
                bool(np.ptp(score) < ROUGHLY), by_shards,
            )),
            about("hot, more features", more(
                f"{self.words} always-hot ends with more features than warm", hot.ravel(), warm.ravel()
            )),
            about("hot, more features", more(
                f"always-hot ends with more features with P = {last} than with P = {first}", number[-1], number[0]
            )),
            about("hot, less dramatic", more(
                "times to the score differ more between P after a warm start than always-hot", *spans, "of log s"
            )),
            about("overestimating", more(
                f"{self.words} always-hot ends with more features than ghosts with jumps, which are exact",
                hot.ravel(), ours.ravel(),
            )),
            about("both processes", more(
                f"{self.words} the score is there sooner on the critical path after a warm start than always-hot, the "
                "only comparison of the beta-Bernoulli process", *sooner, "of log s",
            )),
        ]  # fmt: skip

    def _ours(self) -> list[Finding]:
        ghosts, warm, cold = (self.of(self.score, method, self.late).ravel() for method in (GHOSTS, WARM, PUBLISHED))
        jumping = self.of(self.score, FEATURE_JUMPING, self.late).ravel()
        return [
            no_worse(f"{self.words} ghosts (no jumps) end no worse than warm", ghosts, warm, 0.01, "nats"),
            more(f"{self.words} ghosts with jumps end above cold", jumping, cold, "nats"),
            more(f"{self.words} ghosts with jumps end above warm", jumping, warm, "nats"),
            self._close("ghosts (no jumps) end", GHOSTS),
            self._close("ghosts with jumps end", FEATURE_JUMPING),
        ]

    def _close(self, words: str, method: Method) -> Finding:
        """Generally close: in three chains of four, one feature from the truth at most."""
        numbers = self.of(self.features, method, self.late, all_shards=True)
        used = self.of(self.used, method, self.late, all_shards=True)
        share = float((np.abs(numbers - TRUE_FEATURES) <= 1.0).mean())
        by_shards = ", ".join(
            f"P = {p}: {n:.1f} ({u:.1f} in 1% of the rows)"
            for p, n, u in zip(self.sizes.shards, numbers.mean(1), used.mean(1), strict=True)
        )
        evidence = f"in {100 * share:.0f}% of the chains; means: {by_shards}"
        return Finding(f"{words} within one feature of the truth, 4, in three chains of four", share >= 0.75, evidence)

    def _monotone(self, method: Method) -> Finding:
        """Held if every step to more shards is sooner; not if one is later beyond doubt."""
        when = self.arrivals(method)
        steps = np.diff(when, axis=0)
        surely_later = [bool(step.mean() > 2.0 * error_of(step)) for step in steps]
        there = self.there(method).any(-1)
        held = True if (steps.mean(1) < 0).all() else False if any(surely_later) else None
        times = ", ".join(
            f"P = {p}: {np.exp(w.mean()):.3g} s{'' if t.all() else f' or more, {(~t).sum()} of {t.size} not there yet'}"
            for p, w, t in zip(self.sizes.shards, when, there, strict=True)
        )
        held = held if there.mean() > 0.5 else None  # times of chains that never arrive say little
        words = "warm: with every step to more shards the score is there sooner on the critical path"
        return Finding(words, held, times)


EXPERIMENT = Experiment(
    "cambridge-starts",
    "The Indian buffet process with linear Gaussian features, from a single feature, an exchange after every 5 sweeps; "
    "a tenth of the pixels is hidden and scored.",
    quick=Sizes(300, (1, 16), 3, 60),
    small=Sizes(500, (1, 4, 16, 64), 3, 80),
    full=Sizes(1_000, (1, 4, 8, 16, 32, 64, 128), 8, 200),
    run=run,
    draw=draw,
)
