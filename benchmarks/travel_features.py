"""How far chains of features travel (make bench-travel-features): wrong starts, and when they have the true features.

    python benchmarks/travel_features.py heal [--seeds 3] [-j 1] [--rows 50000] [--only one,BetaBernoulli]
    python benchmarks/travel_features.py cost [--rows 50000]     jumps as a share of the sweeps

Superposed 6 x 6 images, four features, noise 0.5. A chain is there when four features are used by more than 1% of the
rows, each of them one of the true ones, and stay so in every round up to the last; with an intercept, a feature is the
same when it is flipped, with the opposite loadings, and used in the other rows. The log joint is compared with
that of a chain from the true Z. The seed is that of data, start and chain.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from unbounded.columns import describe
from unbounded.datasets import cambridge, cambridge_features
from unbounded.engines import build
from unbounded.models.features import measures, start
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.jump import Jumps
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.round import Clock, rounds
from unbounded.setup import Setup

MEASURES = ("BetaBernoulli", "GammaPoisson", "BetaNegativeBinomial")
STARTS = ("one", "prior", "grown")
SHARDS = (1, 8, 64)
ROUNDS = 150


class Case(NamedTuple):
    measure: str
    start: str
    n_shards: int
    seed: int
    rows: int
    rounds: int
    jumps: bool = True


def model_of(case: Case, X: Any) -> HybridFeatures:
    measure = getattr(measures, case.measure)()
    setup = Setup(measure, LinearGaussian().bind(describe(X)), len(X), case.n_shards, case.seed)
    return HybridFeatures(setup, jumps=Jumps() if case.jumps else None)


def large_features(model: HybridFeatures, state: Any) -> tuple[int, bool]:
    """(features of more than 1% of the rows, whether they are the true ones)."""
    everything = model.everything(state)
    loadings = model.likelihood.expected(state.scales, everything)
    large = loadings[: len(state.occupied)][everything.members[: len(state.occupied)] > 0.01 * model.n_rows]
    truth = cambridge_features()
    near = np.minimum(*(np.abs(sign * large[:, None] - truth[None]).max(axis=2) for sign in (-1, 1))) < 0.25
    return len(large), len(large) == len(truth) and bool((near.sum(axis=0) == 1).all())


def heal(case: Case) -> str:
    data = cambridge(case.rows, noise=0.5, seed=case.seed)
    model = model_of(case, data.X)
    engine = build("serial", model.recipe(data.X))
    for state in islice(rounds(model, engine, model.begin(engine, data.Z.astype(np.int64))), 20):  # also compiles
        aim = model.scalars(state)["log_joint"]
    began, since, size = time.process_time(), None, 0
    for done, state in enumerate(
        islice(rounds(model, engine, start.begin(model, engine, data.X, case.start)), case.rounds), 1
    ):
        size, there = large_features(model, state)
        since = (since or (done, time.process_time() - began)) if there else None
    spent, short = time.process_time() - began, (aim - model.scalars(state)["log_joint"]) / case.rows
    engine.close()
    found = (
        f"there after {since[0]:3d} rounds, {since[1]:5.1f} CPU s" if since else f"not in {case.rounds} rounds: {size}"
    )
    name = f"{case.measure:20s} P {case.n_shards:2d} from {case.start:5s} seed {case.seed}"
    return f"{name}: {found}; log joint {short:+.4f} nats a row below the truth's, {spent:.1f} CPU s in all"


def cost(measure: str, name: str, rows: int) -> str:
    """Of the first 100 rounds from a start, and of the 128 after them."""
    data = cambridge(rows, noise=0.5, seed=1)
    model = model_of(Case(measure, name, 8, 1, rows, 0), data.X)
    engine, clock = build("serial", model.recipe(data.X)), Clock()
    next(islice(rounds(model, engine, model.begin(engine, data.Z.astype(np.int64))), 2, None))  # compiles
    chain = rounds(model, engine, start.begin(model, engine, data.X, name), clock)
    found, before = [], {"jump": 0.0, "local": 0.0}
    for n_rounds in (100, 128):
        next(islice(chain, n_rounds - 1, None))
        jump, sweep = ((clock.seconds[what] - before[what]) / n_rounds for what in ("jump", "local"))
        found.append(f"jump {1e3 * jump:6.2f} ms, sweep {1e3 * sweep:6.2f} ms: {jump / sweep:.0%}")
        before = dict(clock.seconds)
    engine.close()
    return "; then ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("heal", "cost"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="measures, starts or P=..., with commas between them")
    parser.add_argument("--without", action="store_true", help="without jumps, to compare")
    parser.add_argument("-j", type=int, default=1, help="processes")
    chosen = parser.parse_args()
    if chosen.what == "cost":
        for measure in MEASURES:
            for name in STARTS:
                print(f"{measure} from {name}, {chosen.rows:,} rows: {cost(measure, name, chosen.rows)}", flush=True)
        return
    words = [word for word in chosen.only.split(",") if word]
    cases = [
        Case(measure, name, n_shards, seed, chosen.rows, chosen.rounds, not chosen.without)
        for measure in MEASURES for name in STARTS for n_shards in SHARDS for seed in range(chosen.seeds)
        if all(word in (measure, name, f"P={n_shards}") for word in words)
    ]  # fmt: skip
    with ProcessPoolExecutor(chosen.j) as workers:
        for line in workers.map(heal, cases) if chosen.j > 1 else map(heal, cases):
            print(line, flush=True)


if __name__ == "__main__":
    main()
