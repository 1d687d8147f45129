"""Moves of whole columns against brute force: alone, without any sweep (in the round: feature_truth.py).

On tiny data all kinds of proposals and both directions are worth a try, and the pool is the data or a part of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from enumeration import Verdict
from feature_truth import Problem, compare, questions

from unbounded.engines import build
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.jump import Jumps
from unbounded.setup import Setup

LEAST = 0.01  # of the rounds
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
