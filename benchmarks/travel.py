"""How far chains travel (make bench-travel): wrong starts, rounds until they are healed, and what jumps cost.

    python benchmarks/travel.py heal [--quick]     rounds and CPU seconds until a chain has the score of the true labels
    python benchmarks/travel.py cost               a round's jumps as a share of its sweep

Healed: the log joint is within 0.02 nats a row of that of the true labels, with as many clusters above 0.1% of the
rows as there are. Data: Gaussian clusters with covariances of their own; the seed is that of data, start and chain.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from typing import Any

import numpy as np

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.likelihoods import Gaussian
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.round import Clock, rounds
from unbounded.setup import Setup

SHARDS = 4
SIZES = ((90_000, 16, 20), (45_000, 64, 30))
COSTS = (
    *((100_000, d, k) for d in (2, 16) for k in (20, 200)),
    *((40_000, 64, k) for k in (20, 200)),
)
STARTS = ("pairs", "one", "kmeans", "prior")
ROUNDS = 100
NEAR = 0.02  # nats a row


def clusters(n: int, d: int, k: int, seed: int) -> tuple[Any, Any]:
    """Rows and their true labels."""
    rng = np.random.default_rng(seed)
    means, spreads = 3.0 * rng.normal(size=(k, d)), rng.normal(size=(k, d, d)) / np.sqrt(d) + 0.5 * np.eye(d)
    labels = rng.integers(k, size=n)
    noise = rng.normal(size=(n, d))
    return means[labels] + np.einsum("nij,nj->ni", spreads[labels], noise), labels


def start(name: str, X: Any, truth: Any, model: HybridMixture, seed: int) -> Any:
    if name == "one":
        return np.zeros_like(truth)
    if name == "pairs":
        return np.where(truth < 4, truth // 2, truth)
    if name == "prior":
        return model.measure.simulate(model.measure.start(), len(X), np.random.default_rng(seed))
    from sklearn.cluster import KMeans

    return KMeans(50, n_init=1, random_state=seed).fit_predict(X)


def heal(n: int, d: int, k: int, name: str, seed: int, jumps: Jumps | None) -> str:
    X, truth = clusters(n, d, k, seed)
    model = HybridMixture(Setup(DirichletProcess(), Gaussian().bind(describe(X)), n, SHARDS, seed), jumps=jumps)
    engine = build("serial", model.recipe(X))
    aim = model.scalars(model.begin(engine, truth))["log_joint"] - NEAR * n
    chain = rounds(model, engine, model.begin(engine, start(name, X, truth, model, seed)))
    healed, began = 0, time.process_time()
    for done, state in enumerate(islice(chain, ROUNDS), 1):
        large = int((state.table.counts > 0.001 * n).sum())
        if model.scalars(state)["log_joint"] > aim and large == k:
            healed = done
            break
    seconds = time.process_time() - began
    found = f"{healed:3d} rounds, {seconds:5.1f} CPU s" if healed else f"not in {ROUNDS} rounds: {large} clusters"
    engine.close()
    return found


def cost(n: int, d: int, k: int) -> str:
    X, truth = clusters(n, d, k, 1)
    model = HybridMixture(Setup(DirichletProcess(), Gaussian().bind(describe(X)), n, SHARDS, 1))
    engine = build("serial", model.recipe(X))
    clock = Clock()
    chain = rounds(model, engine, model.begin(engine, truth), clock)
    next(islice(chain, 4, None))
    before = dict(clock.seconds)
    next(islice(chain, 39, None))
    spent = {name: (clock.seconds[name] - before[name]) / 40 for name in ("jump", "local")}
    engine.close()
    jump, sweep = spent["jump"], spent["local"]
    return f"jump {1e3 * jump:6.1f} ms, sweep {1e3 * sweep:6.1f} ms: {jump / sweep:.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("heal", "cost"))
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one seed")
    parser.add_argument("--without", action="store_true", help="without jumps, to compare")
    chosen = parser.parse_args()
    if chosen.what == "cost":
        for n, d, k in COSTS:
            print(f"{n:,} x {d}, {k} clusters: {cost(n, d, k)}", flush=True)
        return
    for n, d, k in SIZES:
        for name in STARTS:
            for seed in range(1 if chosen.quick else 10 if name == "pairs" else 5):
                rows = n // 10 if chosen.quick else n
                found = heal(rows, d, k, name, seed, None if chosen.without else Jumps())
                print(f"{rows:,} x {d}, {k} clusters, from {name:6s} seed {seed}: {found}", flush=True)


if __name__ == "__main__":
    main()
