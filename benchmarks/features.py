"""Speed of the feature kernel as shares of what the machine can do, measured in the same run (make bench-features).

The limit of a sweep with statistics is what its matrix products (Z A', Z'X, Z'Z and the Gram updates) take at the speed
of a large product, plus one pass over the data at the speed of a plain sum. Times are CPU seconds of one thread, the
least of several repetitions; limits and kernels take turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from speed import Row, cpu_seconds, gemm
from unbounded.columns import describe
from unbounded.compiled.jit import jit
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measure import FeatureHyper
from unbounded.models.features.measures import BetaBernoulli
from unbounded.models.features.operations import Mobile
from unbounded.models.features.state import FeaturePart, FeatureRound, FeatureShard, FeatureShare
from unbounded.setup import Setup


@jit
def _read(x):
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return total


def rows(n: int, d: int, k: int, dtype: Any, seed: int = 0) -> tuple[Any, Any, Any]:
    """n rows of k binary features in d columns, in blocks, so that nothing as large as the data is made on the way."""
    rng = np.random.default_rng(seed)
    A = (rng.random((k, d)) < 0.3).astype(float)
    X, Z = np.empty((n, d), dtype), np.empty((k, n), np.uint8)
    for start in range(0, n, 50_000):
        size = min(50_000, n - start)
        z = rng.random((size, k)) < 0.4
        Z[:, start : start + size] = z.T
        X[start : start + size] = z @ A + 0.5 * rng.normal(size=(size, d))
    return X, Z, A


class Bench:
    """One shard with k mobile features, and private ones if asked."""

    def __init__(self, n: int, d: int, k: int, dtype: Any, private: int = 0, sweeps: int = 1, births: bool = False):
        self.X, Z, A = rows(n, d, k, dtype)
        rng = np.random.default_rng(1)
        for _ in range(private):  # each explains five rows: atoms with more rows hold a ghost and are not private
            own = np.zeros((1, n), np.uint8)
            own[0, rng.choice(n, 5, replace=False)] = 1
            self.X[own[0] > 0] += rng.normal(size=d)
            Z = np.concatenate([Z, own])
        likelihood = LinearGaussian(noise=0.5, loading=1.0, intercept=False).bind(describe(self.X))
        measure = BetaBernoulli(1.0, 1.0)
        self.model = HybridFeatures(Setup(measure, likelihood, n, 1, 0, sweeps=sweeps, dtype=np.dtype(dtype).name))
        self.shard = FeatureShard(0, 0, self.X, np.uint8, likelihood.centre, likelihood.columns.mean)
        self.shard.Z = Z
        scales, hyper = likelihood.start(), FeatureHyper(1.0, 1.0)
        laws = [measure.law(hyper, 2.0 * n, open_) for open_ in (False, True)]
        finite = self.model.finite(Mobile(rng.permutation(k), np.full(k, np.log(0.4 / 0.6))), scales, A[:k])
        self.round = FeatureRound(0, [finite], laws, scales, A[:k], hyper, self.model.keys(0))
        self.own = FeatureShare(np.arange(k + private), False, births, np.empty((private, d)))
        self.k, self.n, self.d, self.turn = k, n, d, 0

    def sweep(self) -> None:
        """With the state of private atoms built anew, but without copies of Z."""
        self.turn += 1
        part = FeaturePart(self.round._replace(keys=self.model.keys(self.turn)), self.own)
        kernel = self.model.kernel
        kernel.sweep(self.shard, part, kernel.begin(self.shard, part))


def share(n: int, d: int, k: int, dtype: Any, target: float) -> Row:
    bench = Bench(n, d, k, dtype)
    flat = bench.X.reshape(-1)
    product, read, sweep = cpu_seconds(gemm(dtype), lambda: _read(flat), bench.sweep)
    flops = (4.0 * n * d * k + 4.0 * n * k * k) * product / (2 * 1024**3)
    reached = (flops + read) / sweep
    name = f"beta-Bernoulli sweep, {n:,} x {d}, K={k} {np.dtype(dtype).name}"
    return Row(
        name, f"{reached:.0%} of flops + memory ({1e3 * flops:.0f} + {1e3 * read:.0f} of {1e3 * sweep:.0f} ms)",
        f">= {target:.0%}", reached >= target,
    )  # fmt: skip


def private_cost() -> Row:
    few, none = Bench(10_000, 36, 10, np.float64, private=5), Bench(10_000, 36, 10, np.float64)
    a, b = cpu_seconds(few.sweep, none.sweep)
    held = f"{int(few.shard.Z[10:].sum())} rows"
    return Row(
        f"10,000 x 36, K=10: 5 private features ({held})", f"{a / b:.1f}x a sweep without", "<= 20x", a / b <= 20
    )


def growth() -> None:
    """Seconds per sweep with statistics: linear in the number of rows."""
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    benches = [Bench(n, 36, 4, np.float64) for n in sizes]
    for n, seconds in zip(sizes, cpu_seconds(*(bench.sweep for bench in benches)), strict=True):
        print(f"     {n:>9,} x 36, K=4: {seconds:.6f} s per sweep, {1e9 * seconds / n:.0f} ns per row", flush=True)


def main() -> None:
    f32, f64 = np.float32, np.float64
    with threadpool_limits(1, user_api="blas"):
        table = []
        for dtype in (f64, f32):
            table += [
                share(1_000_000, 36, 4, dtype, 0.45),
                share(1_000_000, 36, 10, dtype, 0.40),
                share(1_000_000, 36, 50, dtype, 0.20),
                share(100_000, 361, 100, dtype, 0.40),
            ]
            for row in table[-4:]:
                print(f"{'ok  ' if row.ok else 'MISS'} {row.what:58} {row.reached:58} target {row.target}", flush=True)
        growth()
        row = private_cost()
        print(f"{'ok  ' if row.ok else 'MISS'} {row.what:58} {row.reached:58} target {row.target}", flush=True)


if __name__ == "__main__":
    main()
