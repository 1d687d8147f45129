"""What a sampler can do, tried: how many rows it takes, and whether its shards can live apart.

Four models on generated data, from the true structure: Gaussian clusters with a Dirichlet or a Pitman-Yor process
(rows of 8 columns, 10 clusters), documents with a hierarchical one (100 tokens each, 30 topics), images with
beta-Bernoulli features (36 pixels, 4 features).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np

from experiments.chains import Method, Plan, Stopwatch, replay, timed
from unbounded import datasets
from unbounded.arrays import Array
from unbounded.columns import describe
from unbounded.contracts import Engine, Gathered, Message, Recipe, Step
from unbounded.engines import build
from unbounded.engines.local import restore, state_of
from unbounded.instantiation import resolve
from unbounded.likelihoods import Gaussian
from unbounded.models.features import start as feature_start
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli
from unbounded.models.features.samplers import FEATURES
from unbounded.models.groups import start as hierarchical_start
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.samplers import HIERARCHICAL
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.mixtures import start
from unbounded.models.mixtures.measure import DirichletProcess, PitmanYor
from unbounded.models.mixtures.samplers import DIRICHLET, PITMAN_YOR
from unbounded.priors import Gamma
from unbounded.round import rounds
from unbounded.setup import Setup, build_sampler

BEGIN = {"DIRICHLET": start, "PITMAN_YOR": start, "HIERARCHICAL": hierarchical_start, "FEATURES": feature_start}
DOCUMENT = 100  # tokens
SEVERAL, PATIENCE = 5, 5.0  # rounds of a size, fewer (but one) where they take more CPU seconds
N_SHARDS, N_ROWS = 4, 40  # of chains that only show that they run


REGISTRIES: dict[str, Any] = {
    "DIRICHLET": DIRICHLET, "PITMAN_YOR": PITMAN_YOR, "FEATURES": FEATURES, "HIERARCHICAL": HIERARCHICAL,
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """Data, a model of them without its sampler, and the structure that made them."""

    registry: str
    measure: Any
    likelihood: Any
    X: Any
    extent: Any  # the number of rows, or the sizes of groups
    truth: Array
    options: dict[str, Any] = field(default_factory=dict)

    def model(self, method: Method, plan: Plan) -> Any:
        samplers = REGISTRIES[self.registry]
        return build_sampler(
            samplers,
            method.sampler,
            Setup(
                self.measure,
                self.likelihood,
                self.extent,
                samplers[method.sampler].shards(plan.n_shards),
                plan.seed,
                n_rounds=plan.n_rounds,
                sweeps=plan.sweeps,
                dtype="float64",
            ),
            resolve(method.instantiate),
            **(self.options if method.sampler == "hybrid" else {}) | method.options,
        )

    def begin(self, model: Any, engine: Engine) -> Any:
        return BEGIN[self.registry].begin(model, engine, self.X, self.truth)


def _clusters(n: int, registry: str, measure: Any) -> Problem:
    data = datasets.gaussian_mixture(n, 8, 10, seed=0)
    return Problem(registry, measure, Gaussian().bind(describe(data.X)), data.X, n, data.labels, {"jumps": None})


def _documents(n: int) -> Problem:
    length = min(DOCUMENT, n // 10)
    data = datasets.topics(n // length, length, seed=0)
    sizes = np.full(n // length, length)
    measure, likelihood = HierarchicalMeasure(), Tokens().bind(describe(data.X))
    return Problem("HIERARCHICAL", measure, likelihood, data.words, sizes, data.labels)


def _images(n: int) -> Problem:
    data = datasets.cambridge(n, seed=0)
    likelihood, Z = LinearGaussian(intercept=False).bind(describe(data.X)), data.Z.astype(int)
    return Problem("FEATURES", BetaBernoulli(Gamma(1.0, 1.0), 1.0), likelihood, data.X, n, Z, {"jumps": None})


PROBLEMS = {
    "beta-Bernoulli": _images,
    "DP": partial(_clusters, registry="DIRICHLET", measure=DirichletProcess()),
    "HDP": _documents,
    "PY": partial(_clusters, registry="PITMAN_YOR", measure=PitmanYor()),
}


@cache
def problem(kind: str, n: int) -> Problem:
    """Made once: of the largest size, data take longer than a round."""
    return PROBLEMS[kind](n)


def tiny(kind: str, method: Method, measure: Any = None) -> Any:
    """The sampler's model of a few rows, with another measure if one is given: what it says of itself."""
    this = problem(kind, N_ROWS)
    return replace(this, measure=measure or this.measure).model(method, Plan(N_SHARDS, 4))


# ---- how many rows


def attempts(kind: str, method: Method, plan: Plan, sizes: Sequence[int], limit: float) -> Iterator[dict[str, Any]]:
    """A round of each size, until one takes longer than the limit on the critical path; then no larger one is tried."""
    _round(problem(kind, 10 * plan.n_shards), method, plan)  # compiles
    for n in sizes:
        critical = _round(problem(kind, n), method, plan)
        wall = _wall(problem(kind, n), method, plan) if critical <= limit else np.nan
        yield {"model": kind, "rows": n, "critical_s": critical, "wall_s": wall, "fits": critical <= limit}
        if critical > limit:
            return


def _round(this: Problem, method: Method, plan: Plan) -> float:
    """The critical path of the best of several rounds."""
    model = this.model(method, plan)
    engine, best = Stopwatch(model.recipe(this.X)), np.inf
    try:
        state, began = this.begin(model, engine), time.thread_time()
        for _, seconds in islice(timed(model, engine, state), SEVERAL):
            best = min(best, seconds)
            if time.thread_time() - began > PATIENCE:
                break
        return best
    finally:
        engine.close()


def _wall(this: Problem, method: Method, plan: Plan) -> float:
    """The wall time of the better of two rounds."""
    seconds, _ = replay(this.model(method, plan), this.X, this.truth, 2, BEGIN[this.registry])
    return float(np.diff(seconds).min())


# ---- shards that live apart


class Slot:
    """A place for a shard, so that the same processes serve one model after another."""

    def __init__(self, index: int):
        self.index = index

    def fill(self, recipe: Recipe) -> None:
        self.shard = recipe(self.index)

    def arrays(self) -> dict[str, Array]:
        return self.shard.arrays()  # type: ignore[no-any-return]

    def restore(self, arrays: Any) -> None:
        restore(self.shard, arrays)


@dataclass(frozen=True)
class Slots:
    n_shards: int = N_SHARDS

    def __call__(self, p: int) -> Slot:
        return Slot(p)


def _inside(function: Any, slot: Slot, *rest: Any) -> Any:
    return function(slot.shard, *rest)


class Apart:
    """An engine on two processes that others lend: shards have no memory in common."""

    def __init__(self, workers: Engine, recipe: Recipe):
        self._workers, self.parallel = workers, workers.parallel
        workers.map(Slot.fill, [recipe] * N_SHARDS)

    def run(self, step: Step, message: Message) -> Gathered:
        return self._workers.run(partial(_inside, step), message)

    def map(self, function: Any, own: Sequence[Any] | None = None) -> list[Any]:
        return self._workers.map(partial(_inside, function), own)


def two_processes() -> Engine:
    return build("processes", Slots(), 2)


def distributed(kind: str, method: Method, workers: Engine) -> bool:
    """Whether two rounds with shards in two processes, which exchange messages only, are those of one process."""
    model, this = tiny(kind, method), problem(kind, N_ROWS)
    if model.n_shards < N_SHARDS:
        return False
    together = build("serial", model.recipe(this.X))
    try:
        return _two_rounds(this, model, Apart(workers, model.recipe(this.X))) == _two_rounds(this, model, together)
    finally:
        together.close()


def _two_rounds(this: Problem, model: Any, engine: Any) -> list[Any]:
    """All there is of the state after them, as bytes."""
    state = next(islice(rounds(model, engine, this.begin(model, engine)), 1, None))
    return [
        [(name, value.shape, value.tobytes()) for name, value in sorted(part.items())]
        for part in (state.arrays(), *engine.map(state_of))
    ]
