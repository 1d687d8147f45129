"""Moves of whole atoms against brute force: alone, without any sweep, and as a part of the round.

The posterior is that of enumeration.py; here a round is nothing but cuts, merges, or both. Tiny data are no reason to
give a launch up or to end the cuts early, so checks ask for that; and seeds are one or two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
from enumeration import Problem, Tally, Verdict, canonical, compare, put_holes

from unbounded.engines import build
from unbounded.models.labelled import halves
from unbounded.models.mixtures import launch, merges
from unbounded.models.mixtures.cuts import cut_some
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.merges import merge_some
from unbounded.models.mixtures.neighbours import move_neighbours
from unbounded.setup import Setup


@dataclass(frozen=True)
class Moves:
    """Which moves, on how many shards, and how often."""

    kind: str  # cut, near (neighbours), coin, seeds, both (cut and merge), all
    n_shards: int = 2
    share: float = 1.0
    pool: int = 1024
    coin: float = 0.4
    strict: bool = False  # launches that promise nothing are given up
    engine: str = "serial"
    device: str = "cpu"
    few: bool = False  # passes as those of few rows, with nothing compiled
    chains: int = 40
    rounds: int = 150
    seed: int = 0

    @property
    def jumps(self) -> Jumps:
        return Jumps(every=1, share=self.share, pool=self.pool, passes=2, joined=0.4, merges=4, coin=self.coin)

    def move(self, model: Any, state: Any, engine: Any) -> Any:
        every = [cut_some, move_neighbours, merge_some]
        kinds = {"cut": every[:1], "near": every[1:2], "both": every[::2], "all": every}
        for some in kinds.get(self.kind, every[2:]):
            state = some(model, state, engine, self.jumps)
        return replace(state, round=state.round + 1)


def simulate(problem: Problem, moves: Moves) -> Tally:
    """C independent chains, each from an exact posterior draw of labels and holes, which then stay."""
    index = {tuple(z): b for b, z in enumerate(problem.partitions.tolist())}
    frequencies = np.zeros((moves.chains, len(index)))
    setup = Setup(problem.measure, problem.likelihood, problem.n, moves.n_shards, 0, device=moves.device)
    model = HybridMixture(setup)
    engine = build(moves.engine, model.recipe(problem.X))
    rng = np.random.default_rng([moves.seed, 15])
    for c in range(moves.chains):
        model = model.reseeded(1000 * moves.seed + c)
        labels, hyper, values = problem.draw(rng)
        put_holes(engine, problem.holes, values)
        state = model.begin(engine, labels, hyper)
        for _ in range(moves.rounds):
            state = moves.move(model, state, engine)
            frequencies[c, index[canonical(model.assignments(state, engine))]] += 1.0 / moves.rounds
    engine.close()
    return Tally(frequencies)


def check(problem: Problem, moves: Moves) -> Verdict:
    limits = (0.0, 0.0) if moves.strict else (launch.HOPELESS, launch.SLACK)
    ways = {"coin": (0,), "seeds": (1, 2)}.get(moves.kind, (0, 1, 2))
    with (
        mock.patch.multiple(launch, HOPELESS=limits[0], SLACK=limits[1]),
        mock.patch.object(merges, "SEEDS", ways),
        mock.patch.object(halves, "FEW", halves.FEW if moves.few else 0),
    ):
        return compare(problem, simulate(problem, moves), moves.rounds)
