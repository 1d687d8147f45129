"""Chains, round by round, with what each round takes: on as many processors as there are shards, and on this machine.

Critical path: shards run one after the other and each is timed (CPU seconds, which other work on the machine hardly
disturbs); a round takes what its global step and, of the shards, the slowest one took. Wall time: the same chain on
threads. Scores and compilation never count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numba.core import event
from scipy.special import logsumexp

from experiments.common import Rows
from experiments.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY
from unbounded.arrays import Array
from unbounded.columns import describe
from unbounded.contracts import Engine, Model, Recipe
from unbounded.engines import build
from unbounded.engines.local import Serial
from unbounded.instantiation import resolve
from unbounded.likelihoods import Gaussian
from unbounded.models.features import start as feature_start
from unbounded.models.features.jump import Jumps as FeatureJumps
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli
from unbounded.models.features.predictive import Cells, held_out
from unbounded.models.features.samplers import FEATURES
from unbounded.models.labelled.predictive import log_predictive, with_new
from unbounded.models.mixtures import start
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.models.mixtures.samplers import DIRICHLET
from unbounded.priors import Gamma
from unbounded.round import rounds
from unbounded.setup import Setup, build_sampler

Measure = Callable[[Any, Engine], dict[str, float]]
LOCK = "numba:compiler_lock"  # held while compiled code is made or loaded


@dataclass(frozen=True)
class Method:
    """A sampler as figures name it."""

    label: str
    colour: str
    dash: str = "-"
    sampler: str = "hybrid"
    instantiate: str = "ghosts"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def look(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": self.dash, "linewidth": 1.6}


GHOSTS = Method("hybrid, ghosts (ours)", BLUE)  # without moves of whole atoms, which no rival has but subcluster
JUMPING = Method("hybrid, ghosts with jumps (ours, the default)", BLACK, "-", options={"jumps": Jumps()})
FEATURE_JUMPING = replace(JUMPING, options={"jumps": FeatureJumps()})
PUBLISHED = Method("hybrid, as published (cold)", RED, "--", instantiate="published-cold")
WARM = Method("hybrid, as published (warm)", ORANGE, "-.", instantiate="published-warm")
HOT = Method("hybrid, as published (always hot)", PINK, ":", instantiate="published-hot")
ONE_OPEN = Method("hybrid, one open (ours)", SKY, "-.", instantiate="one_open")
COLLAPSED = Method("collapsed", GREY, "-", "collapsed")
UNCOLLAPSED = Method("uncollapsed", GREEN, "-.", "uncollapsed", options={"empty": 10})
SLICE = Method("distributed slice", GREEN, "-.", "slice")
ASYNCHRONOUS = Method("asynchronous", ORANGE, ":", "asynchronous")
SUBCLUSTER = Method("sub-clusters", PINK, "-", "subcluster")
AUXILIARY = Method("auxiliary processors", SKY, "--", "auxiliary")


@dataclass(frozen=True)
class Plan:
    """How a chain runs."""

    n_shards: int = 1
    n_rounds: int = 100
    sweeps: int = 1
    seed: int = 0


def mixture(X: Array, method: Method, plan: Plan, likelihood: Any = None, concentration: Any = None) -> Any:
    """A Dirichlet process mixture; Gaussian with full covariances unless said otherwise."""
    bound = (likelihood or Gaussian()).bind(describe(X))
    return build_sampler(
        DIRICHLET,
        method.sampler,
        Setup(
            DirichletProcess(concentration),
            bound,
            len(X),
            DIRICHLET[method.sampler].shards(plan.n_shards),
            plan.seed,
            n_rounds=plan.n_rounds,
            sweeps=plan.sweeps,
            dtype="float64",
        ),
        resolve(method.instantiate),
        **({"jumps": None} if method.sampler == "hybrid" else {}) | method.options,
    )


def features(X: Array, method: Method, plan: Plan, likelihood: Any = None) -> Any:
    """Beta-Bernoulli features with concentration 1, the Indian buffet process, as in the paper."""
    bound = (likelihood or LinearGaussian(intercept=False)).bind(describe(X))
    return build_sampler(
        FEATURES,
        method.sampler,
        Setup(
            BetaBernoulli(Gamma(1.0, 1.0), 1.0),
            bound,
            len(X),
            FEATURES[method.sampler].shards(plan.n_shards),
            plan.seed,
            n_rounds=plan.n_rounds,
            sweeps=plan.sweeps,
            dtype="float64",
        ),
        resolve(method.instantiate),
        **({"jumps": None} if method.sampler == "hybrid" else {}) | method.options,
    )


# ---- time


class Compilation(event.Listener):
    """CPU seconds in which compiled code was made or loaded: a chain may meet its last kernel late."""

    def __init__(self) -> None:
        self.seconds, self._began, self._depth = 0.0, 0.0, 0

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._began = time.thread_time()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.thread_time() - self._began


class Stopwatch(Serial):
    """One shard after another; `waited` is the time that the others would have waited for the slowest one."""

    waited = 0.0

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self._compilation = Compilation()
        event.register(LOCK, self._compilation)

    def close(self) -> None:
        event.unregister(LOCK, self._compilation)
        super().close()

    def now(self) -> float:
        return time.thread_time() - self._compilation.seconds

    def map(self, function: Callable[..., Any], own: Sequence[Any] | None = None) -> list[Any]:
        return self._timed(super().map, function, own)

    def run(self, step: Any, message: Any) -> Any:
        return self._timed(super().run, step, message)

    def _timed(self, call: Callable[..., Any], step: Callable[..., Any], *rest: Any) -> Any:
        times: list[float] = []

        def timed(*args: Any) -> Any:
            began = self.now()
            result = step(*args)
            times.append(self.now() - began)
            return result

        result = call(timed, *rest)
        self.waited += sum(times) - max(times)
        return result


def timed(model: Any, engine: Stopwatch, state: Any) -> Iterator[tuple[Any, float]]:
    """The states of a chain, each with the critical path of its round."""
    chain = rounds(model, engine, state)
    while True:
        engine.waited, began = 0.0, engine.now()
        state = next(chain)
        yield state, engine.now() - began - engine.waited


def trace(
    model: Any, X: Array, init: Any, n_rounds: int, measure: Measure, every: int = 1, start_of: Any = start
) -> Rows:
    """What is measured of the states of a chain, the first one included, and the critical path up to each."""
    engine = Stopwatch(model.recipe(X))
    try:
        first = start_of.begin(model, engine, X, init)
        rows, total = [{"round": 0, "critical_s": 0.0, **measure(first, engine)}], 0.0
        for number, (state, seconds) in enumerate(islice(timed(model, engine, first), n_rounds), 1):
            total += seconds
            if number % every == 0 or number == n_rounds:
                rows.append({"round": number, "critical_s": total, **measure(state, engine)})
        return rows
    finally:
        engine.close()


def trace_for(model: Any, X: Array, init: Any, measure: Measure, budget: float, points: int = 40) -> Rows:
    """A chain of a mixture until its critical path is `budget` seconds long, measured at times in a geometric row."""
    engine = Stopwatch(model.recipe(X))
    try:
        first = start.begin(model, engine, X, init)
        rows, total = [{"round": 0, "critical_s": 0.0, **measure(first, engine)}], 0.0
        due = iter(np.geomspace(budget / 1000.0, budget, points))
        wanted = next(due)
        for number, (state, seconds) in enumerate(timed(model, engine, first), 1):
            total += seconds
            if total >= wanted or total >= budget:
                rows.append({"round": number, "critical_s": total, **measure(state, engine)})
                wanted = next((time for time in due if time > total), budget)
            if total >= budget:
                break
        return rows
    finally:
        engine.close()


def at(rows: Rows, time: float, name: str = "score", clock: str = "critical_s") -> float:
    """What a chain has at a time, between two measurements on a straight line."""
    return float(np.interp(time, [row[clock] for row in rows], [row[name] for row in rows]))


def first_above(rows: Rows, target: float, clock: str = "critical_s") -> float:
    """When a chain's score first reaches the target; infinity if it never does."""
    return float(next((row[clock] for row in rows if row["score"] >= target), np.inf))


def replay(model: Model, X: Array, init: Any, n_rounds: int, start_of: Any = start) -> tuple[Array, Any]:
    """The same chain on all cores: seconds up to the end of each round [n_rounds + 1], and the last state."""
    engine = build("threads", model.recipe(X))
    try:
        state = start_of.begin(model, engine, X, init)
        chain, began, seconds = rounds(model, engine, state), time.perf_counter(), [0.0]
        for _ in range(n_rounds):
            state = next(chain)
            seconds.append(time.perf_counter() - began)
        return np.array(seconds), state
    finally:
        engine.close()


def with_wall(rows: Rows, model: Any, X: Array, init: Any, start_of: Any = start) -> Rows:
    """The same rows with the wall time up to each of them."""
    return _beside(rows, replay(model, X, init, rows[-1]["round"], start_of)[0])


def _beside(rows: Rows, seconds: Array) -> Rows:
    return [row | {"wall_s": float(seconds[row["round"]])} for row in rows]


# ---- what is measured


def density(model: Any, state: Any, X: Array) -> float:
    """Mean log predictive density of new rows, parameters integrated out."""
    counts = state.table.counts[state.occupied].astype(float)
    atoms, sums = with_new(counts, state.table.statistics[state.occupied])
    weights = model.measure.log_predictive(state.hyper, counts)
    logs = log_predictive(model.likelihood, atoms, sums, X) + weights[:, None]
    return float(np.mean(logsumexp(logs, axis=0) + model.likelihood.log_base(X)))


def of_mixture(model: Any, test: Array) -> Measure:
    return lambda state, engine: {"score": density(model, state, test), "clusters": len(state.occupied)}


def of_features(model: Any, cells: Cells) -> Measure:
    """The held-out score per cell, and the number of features, all of them and those that 1% of the rows use."""

    def measure(state: Any, engine: Engine) -> dict[str, float]:
        members = state.table.members[state.occupied]
        return {
            "score": held_out(model, state, engine, cells),
            "features": len(members),
            "used": int((members > 0.01 * model.n_rows).sum()),
        }

    return measure


def hide(X: Array, mask: Array) -> tuple[Array, Cells]:
    """The rows with the masked cells missing, and those cells."""
    rows, columns = np.nonzero(mask)
    return np.where(mask, np.nan, X), Cells(rows, columns, X[rows, columns])


def feature_trace(
    X: Array, mask: Array, method: Method, plan: Plan, init: Any, likelihood: Any = None, wall: bool = True
) -> tuple[Any, Any, Rows]:
    """(model, last state, what was measured of every state, if asked with both times up to it)."""
    hidden, cells = hide(X, mask)
    model = features(hidden, method, plan, likelihood)
    rows = trace(model, hidden, init, plan.n_rounds, of_features(model, cells), start_of=feature_start)
    if not wall:
        return model, None, rows
    seconds, state = replay(model, hidden, init, plan.n_rounds, feature_start)
    return model, state, _beside(rows, seconds)
