"""What a first fit on a fresh machine compiles (make bench-compile).

For each likelihood of mixtures, for a mixed table, for words and for features, a small fit runs in a process of its own
with an empty cache, and again with what the first one left there. Compiling is the difference, in CPU seconds (user and
system). Jumps of small data compile nothing; --rows makes the data larger.

    python benchmarks/compile.py [name ...] [--rows 20000]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

import numpy as np
from scipy import sparse

LIMITS = {"words": 10.0, "linear_gaussian": 12.0, "poisson_factors": 12.0}  # CPU seconds; mixtures: 10
SLOWEST = 5


def data(name: str, n: int) -> Any:
    rng = np.random.default_rng(1)
    label = rng.integers(0, 3, n)
    if name in ("gaussian", "diagonal_gaussian"):
        return rng.normal(size=(3, 3))[label] * 5.0 + rng.normal(size=(n, 3))
    if name == "bernoulli":
        return (rng.random((n, 4)) < rng.random((3, 4))[label]).astype(float)
    if name == "categorical":
        return ((label[:, None] + rng.integers(0, 2, (n, 2))) % 3).astype(float)
    if name == "product":
        return np.column_stack([rng.normal(size=(3, 2))[label] * 5.0 + rng.normal(size=(n, 2)), label])
    if name in ("poisson", "poisson_factors"):
        return rng.poisson(rng.gamma(1.0, 5.0, (3, 4))[label]).astype(float)
    if name == "linear_gaussian":
        return (rng.random((n, 3)) < 0.4) @ rng.normal(size=(3, 5)) * 2.0 + 0.3 * rng.normal(size=(n, 5))
    shares = rng.dirichlet(np.full(20, 0.2), 3)
    counts = rng.multinomial(15, shares[label])
    return sparse.csr_matrix(counts) if name == "words" else counts.astype(float)


def fit(name: str, n: int) -> None:
    """A fit, in this process; prints what it took and what was compiled."""
    from numba.core import event

    import unbounded as ub

    class Listener(event.Listener):
        """Each compiled function with its own time, without that of the functions it calls."""

        def __init__(self) -> None:
            self.running: list[list[Any]] = []
            self.done: list[tuple[str, float]] = []

        def on_start(self, e: Any) -> None:
            self.running.append([e.data["dispatcher"].py_func.__qualname__, time.process_time(), 0.0])

        def on_end(self, e: Any) -> None:
            function, began, inner = self.running.pop()
            took = time.process_time() - began
            self.done.append((function, took - inner))
            if self.running:
                self.running[-1][2] += took

    listener = Listener()
    event.register("numba:compile", listener)
    settings: dict[str, Any] = {
        "n_chains": 1,
        "n_warmup": 3,
        "n_draws": 3,
        "n_shards": 2,
        "engine": "serial",
        "random_state": 0,
    }
    warnings.simplefilter("ignore")
    if name == "words":
        ub.HierarchicalDirichletProcess(**settings).fit(data(name, n))
    elif name in ("linear_gaussian", "poisson_factors"):
        ub.BetaBernoulliFeatures(name, **settings).fit(data(name, n))
    else:
        likelihood = ub.Product(("gaussian", [0, 1]), ("categorical", [2])) if name == "product" else name
        ub.DirichletProcessMixture(likelihood, **settings).fit(data(name, n))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": used.ru_utime + used.ru_stime, "compiled": listener.done}))


def run(name: str, n: int, cache: str) -> dict[str, Any]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--fit", name, "--rows", str(n)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(name: str, n: int) -> None:
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = run(name, n, cache), run(name, n, cache)
    functions: dict[str, float] = {}
    for function, seconds in cold["compiled"]:
        functions[function] = functions.get(function, 0.0) + seconds
    slowest = sorted(functions, key=lambda function: -functions[function])[:SLOWEST]
    print(
        f"{name:18s} cold {cold['seconds']:5.1f}  warm {warm['seconds']:5.1f}  compiling "
        f"{cold['seconds'] - warm['seconds']:5.1f} (at most {LIMITS.get(name, 10.0):.0f})  "
        f"{len(functions)} functions, {len(cold['compiled'])} signatures, {len(warm['compiled'])} when warm; slowest: "
        + ", ".join(f"{function} {functions[function]:.1f}" for function in slowest),
        flush=True,
    )


def main() -> None:
    from unbounded.likelihoods import MEMBERS

    every = [*(member.name for member in MEMBERS), "product", "words", "linear_gaussian", "poisson_factors"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(every)}")
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.fit:
        fit(chosen.fit, chosen.rows)
        return
    for name in chosen.names or every:
        show(name, chosen.rows)


if __name__ == "__main__":
    main()
