"""The paper's million: 1,000,000 superposed images, P = 256 shards, 860 sweeps, a synchronisation after every 5.

    python benchmarks/million.py [rows] [device]

Dubey et al. (2020) limited theirs to one day on 256 processors. From the default start, whose pilot finds the
features: this is about speed; `unbounded paper cambridge-million` has chains from one feature, too. Reports the time
with the start included, the peak of memory, the features found, and the score of 10,000 fresh rows beside the score of
the truth.
"""

from __future__ import annotations

import resource
import sys
import time
from itertools import islice
from typing import NamedTuple

import numpy as np

from unbounded.columns import describe
from unbounded.datasets import cambridge
from unbounded.datasets.generators import CambridgeData
from unbounded.engines import build
from unbounded.models.features import start as feature_start
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.jump import Jumps
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli
from unbounded.models.features.model import Features
from unbounded.models.features.predictive import draw_of, log_density
from unbounded.models.features.state import FeatureState
from unbounded.randomness import generator
from unbounded.round import Clock, rounds
from unbounded.setup import Setup

N_SHARDS, SWEEPS, SWEEPS_PER_ROUND = 256, 860, 5
DRAWS = 8
JUMPS = Jumps()


def peak() -> float:
    """Largest resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compile_kernels(device: str = "cpu") -> None:
    """A tiny run, so that the time below is not that of the compiler."""
    run(cambridge(2 * N_SHARDS, seed=2).X, n_rounds=2, device=device)


class Found(NamedTuple):
    model: Features
    draws: list[dict[str, np.ndarray]]
    clock: Clock

    @property
    def phases(self) -> str:
        return ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in self.clock.seconds.items() if seconds > 0.0)


def run(
    X: np.ndarray, n_rounds: int, device: str = "cpu", engine_name: str = "threads", jumps: Jumps | None = JUMPS
) -> Found:
    likelihood = LinearGaussian().bind(describe(X))
    dtype = "float64" if device == "cpu" else "float32"
    model = HybridFeatures(
        Setup(
            BetaBernoulli(), likelihood, len(X), N_SHARDS, 0, n_rounds=n_rounds, sweeps=SWEEPS_PER_ROUND, dtype=dtype,
            device=device,
        ),
        jumps=jumps,
    )  # fmt: skip
    engine, clock = build(engine_name, model.recipe(X)), Clock()
    with clock.phase("start"):
        begun = feature_start.begin(model, engine, X, "grown")
    states = [s for s in islice(rounds(model, engine, begun, clock), n_rounds) if s.round > n_rounds - DRAWS]
    engine.close()
    return Found(model, [drawn(model, state) for state in states], clock)


def drawn(model: Features, state: FeatureState) -> dict[str, np.ndarray]:
    """What a snapshot has beside Z."""
    everything = model.everything(state)
    loadings, scales = model.likelihood.draw(state.scales, everything, generator(model.seed, "snapshot", state.round))
    return {
        "members": everything.members, "loadings": loadings, "scales": model.likelihood.pack(scales),
        "hyper": np.array(state.hyper),
    }  # fmt: skip


def judge(data: CambridgeData, found: Found) -> None:
    """The features of the last draw beside the true ones, and the score of fresh rows."""
    model, draws, _ = found
    last = draws[-1]
    order = np.argsort(-last["members"])[:8]
    correlations = np.abs(np.corrcoef(last["loadings"][order], data.features)[len(order) :, : len(order)]).max(1)
    print(f"members of the features: {last['members'][order].tolist()}")
    print(f"correlation of the true features with the nearest found: {np.round(correlations, 5).tolist()}")
    fresh = cambridge(10_000, noise=0.5, seed=1).X
    whole = [draw_of(model.measure, model.likelihood, d, len(data.X), seed) for seed, d in enumerate(draws)]
    logs = [log_density(draw, fresh) for draw in whole]
    score = float(np.mean(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))))
    print(f"held-out score {score:.5f} per row, truth {data.log_density(fresh).mean():.5f}")


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    compile_kernels(device)
    libraries = peak()
    data = cambridge(n, noise=0.5, seed=0)
    size = data.X.nbytes / 2**20
    print(f"{n:,} x {data.X.shape[1]}: {size:.0f} MB of data; Python and its libraries {libraries:.0f} MB", flush=True)
    began, began_cpu = time.perf_counter(), time.process_time()
    found = run(data.X, SWEEPS // SWEEPS_PER_ROUND, device)
    wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    print(f"{SWEEPS} sweeps, {N_SHARDS} shards: {wall:.1f} s ({found.phases}), {cpu:.1f} CPU s")
    print(f"peak memory beside the libraries {peak() - libraries:.0f} MB: {(peak() - libraries) / size:.2f}x the data")
    judge(data, found)


if __name__ == "__main__":
    main()
