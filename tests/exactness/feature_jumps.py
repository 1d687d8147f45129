"""Moves of whole columns against brute force: alone, without any sweep (in the round: feature_truth.py).

On tiny data all kinds of proposals and both directions are worth a try, and the pool is the data or a part of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any
from unittest import mock

import numpy as np
from enumeration import Verdict, judge
from feature_problems import problem
from feature_truth import Problem, compare, questions

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.models.features import column_moves, fold, jump, launch
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.jump import Jumps
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli
from unbounded.setup import Setup

LEAST = 0.01  # of the rounds
_NONE = launch.AtomDraws(np.empty((0, 3)), np.empty(0))  # no loadings and no weights, of three columns of data
RARE = 0.02

# Deaths, absorptions, discoveries, multiples.
KINDS = {
    "death": (1.0, 0.0, 0.0, 0.0),
    "absorption": (0.2, 0.8, 0.0, 0.0),
    "discovery": (0.2, 0.0, 0.8, 0.0),
    "multiple": (0.3, 0.0, 0.0, 0.7),
    "all": (0.3, 0.3, 0.3, 0.1),
    "fold": (1.0, 0.0, 0.0, 0.0),
}


@dataclass(frozen=True)
class Moves:
    """Which moves, on how many shards, and how often."""

    kind: str = "all"
    n_shards: int = 2
    pool: int = 100
    strict: bool = False  # the pool's first decision counts, however few rows it has
    ahead: float = 0.5
    tries: int = 1
    folds: int = 0
    few: bool = False  # launches consider few counts one by one, and larger ones by a geometric law
    engine: str = "serial"
    chains: int = 40
    rounds: int = 40
    seed: int = 0

    @property
    def jumps(self) -> Jumps:
        slack = {"slack": 0.3, "doubt": 0.0} if self.strict else {}
        return Jumps(
            every=1,
            tries=self.tries,
            pool=self.pool,
            ahead=self.ahead,
            kinds=KINDS[self.kind],
            folds=self.folds,
            **slack,
        )


def check(problem: Problem, moves: Moves) -> Verdict:
    """C independent chains of jumps, each from an exact posterior draw of Z and holes, which then stay.

    Jumps alone are slow on tiny data, and need not be quick; but some must be made. A chain stays in a state for some
    40 rounds, so that one of 120 rounds sees a rare state either never or all the time; with 300 chains, such states
    were up to 7 standard errors off in one of three runs, each time others, and so they are left out.
    """
    if moves.few:
        with mock.patch.multiple(column_moves, LARGEST=(0, 1, 1, 1, 1, 1, 1, 1, 1), MORE=np.log(0.3)):
            return check(problem, replace(moves, few=False))
    asked, made = questions(problem), 0
    seen = np.zeros((moves.chains, len(asked.names)))
    setup = Setup(problem.law.measure, problem.bound, problem.n, moves.n_shards, 0)
    model = HybridFeatures(setup, jumps=moves.jumps)
    engine = build(moves.engine, model.recipe(problem.X.copy()))
    rng = np.random.default_rng([moves.seed, 15])
    for c in range(moves.chains):
        model = model.reseeded(1000 * moves.seed + c)
        state = problem.likelihood.begin(model, engine, problem.draw(rng), rng)
        for round_ in range(moves.rounds):
            after = model.jump(state, engine)
            made += after is not state
            state = replace(after, round=round_ + 1)
            seen[c] += asked.answers(np.asarray(model.assignments(state, engine), np.int64).T) / moves.rounds
    engine.close()
    if made < LEAST * moves.chains * moves.rounds:
        raise RuntimeError(f"only {made} jumps were made")
    return replace(compare(problem, seen, moves.rounds, asked, RARE), too_slow=np.inf)


# ---- parts of moves


def flipped(law: str) -> Verdict:
    """What flips say of every column of some Z, against the same counted anew: nothing is random, 1e-8 is rounding."""
    rng, tiny = np.random.default_rng(4), problem("gaussian-intercept", law, 3)
    model = HybridFeatures(Setup(tiny.law.measure, tiny.bound, 3, 2, 0))
    engine = build("serial", model.recipe(tiny.X.copy()))
    said, counted = [], []
    for _ in range(20):
        Z = rng.integers(0, 2, (3, 4))
        Z[:2] = [[0, 0, 1, 1], [1, 0, 0, 1]]
        Z[2, [1, 3]] = 1, 0
        here = launch.jump_state(model, model.begin(engine, Z))
        for k in range(4):
            Z[:, k] = 1 - Z[:, k]
            there = launch.jump_state(model, model.begin(engine, Z))
            said.append(_numbers(fold._flipped(here, k)))
            counted.append(_numbers(there))
            here = there
    off = np.abs(np.array(said) - np.array(counted))
    return Verdict([str(q) for q in range(off.shape[1])], 1e8 * off.max(axis=0), 1.0, (-1.0, 1.0), 1.0, np.inf)


def _numbers(here: Any) -> list[float]:
    return [here.log_target, here.entries, *here.statistics.members, *here.statistics.sums.ravel()]


def choices(size: int = 4, tries: int = 1500) -> Verdict:
    """How often deaths choose each column, and discoveries each set of columns to replace, in its order, against what
    they say of it."""
    here, pool, rng = _few_columns(size)
    names = [f"death of {k}" for k in range(size)]
    dead = [_death(here, rng) for _ in range(tries)]
    seen: list[Any] = [[change.gone[0] == k for change in dead] for k in range(size)]
    said = [np.exp(jump._log_chance(here, dead[0]._replace(gone=np.array([k])))) for k in range(size)]
    for k, ahead in ((2, True), (3, True), (2, False), (3, False)):
        with mock.patch.multiple(jump, FITS=((k, k),), CHANCES=(1.0,), fit=lambda *_, k=k: _anything(k)):
            changes = [_discovery(here, pool, ahead, rng) for _ in range(tries)]
            for chosen in permutations(range(size), k):
                own = [change for change in changes if tuple(change.gone) == chosen]
                names.append(f"{chosen} {ahead}")
                seen.append([tuple(change.gone) == chosen for change in changes])
                said.append(np.exp(_log_choice(here, own[0])) if own else 0.0)
    return judge(names, np.array(seen, float).T, np.array(said))


def sizes(tries: int = 1500) -> Verdict:
    """By how many columns discoveries replace how many, where there are two, against what they say of it."""
    here, pool, rng = _few_columns(2)
    names, seen, said = [], [], []
    with mock.patch.object(jump, "fit", lambda _model, _state, _pool, k, _rng: _anything(k)):
        for ahead in (True, False):
            changes = [_discovery(here, pool, ahead, rng) for _ in range(tries)]
            for chance, fits in zip(jump.CHANCES, jump.FITS, strict=True):
                k, k_new = fits if ahead else fits[::-1]
                own = [(len(change.gone), len(change.new.weights)) == (k, k_new) for change in changes]
                if k <= 2:
                    names.append(f"{k} by {k_new} {ahead}")
                    seen.append(own)
                    any_of = changes[own.index(True)]
                    sets = (any_of._replace(gone=np.array(chosen, int)) for chosen in permutations(range(2), k))
                    said.append(chance * sum(np.exp(_log_choice(here, change)) for change in sets))
                assert k <= 2 or not any(own)
    return judge(names, np.array(seen, float).T, np.array(said))


def _few_columns(size: int) -> tuple[Any, Any, np.random.Generator]:
    """A state with some columns, all of its rows, and random numbers."""
    rng = np.random.default_rng(8)
    Z = (rng.random((40, size)) < [0.2, 0.4, 0.6, 0.8][:size]).astype(int)
    X = Z @ rng.normal(0.0, 1.0, (size, 3)) + 0.5 * rng.normal(size=(40, 3))
    model = HybridFeatures(Setup(BetaBernoulli(1.0, 1.0), LinearGaussian(0.5, 1.0).bind(describe(X)), 40, 1, 0))
    engine = build("serial", model.recipe(X))
    here = launch.jump_state(model, model.begin(engine, Z))
    return here, launch.fetch(model, here.state, engine, np.arange(40)), rng


def _anything(k: int) -> launch.Guide:
    return launch.Guide(np.zeros((k, 3)), np.ones(k), (np.ones(k), np.ones(k)))


def _death(here: Any, rng: np.random.Generator) -> Any:
    change = jump.Change(jump.DEATH, True, np.empty(0, int), _NONE, _NONE, 1.0)
    return change._replace(gone=jump._choose(here, change, rng))


def _discovery(here: Any, pool: Any, ahead: bool, rng: np.random.Generator) -> Any:
    return jump._discover(here, pool, jump.Change(jump.DISCOVERY, ahead, np.empty(0, int), _NONE, _NONE, 1.0), rng)


def _log_choice(here: Any, change: Any) -> float:
    """What is said of a discovery, without the densities of new loadings and weights."""
    loadings, weights, measure = *change.new, here.model.measure
    if not change.ahead:
        broad = np.full(len(weights), jump.BROAD)
        densities = jump._log_any(here, loadings) + measure.log_weight_density(weights, broad, broad).sum()
    else:
        apart, variances = loadings - change.guide.loadings, change.guide.variances[:, None]
        densities = -0.5 * np.sum(np.log(2.0 * np.pi * variances) + apart**2 / variances)
        densities += measure.log_weight_density(weights, *change.guide.shapes).sum()
    return float(jump._log_discovery(here, change) - densities)
