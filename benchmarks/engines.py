"""What a round costs beyond the work: a message for everybody and a summary as large from each shard, no kernel.

    python benchmarks/engines.py [engine ...]
    mpiexec -n 2 python -m unbounded.engines.mpi benchmarks/engines.py mpi

Beside each engine: the time until its workers stand ready, and what a worker's death costs (of MPI: the job).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass

import numpy as np

from unbounded import engines
from unbounded.contracts import Message, Summary

ROUNDS = 30


class Shard:
    def __init__(self, index: int):
        self.index = index

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, arrays: object) -> None: ...


@dataclass(frozen=True)
class Shards:
    n_shards: int

    def __call__(self, p: int) -> Shard:
        return Shard(p)


def echo(shard: Shard, shared: np.ndarray, own: np.ndarray) -> Summary:
    return Summary({"statistics": shared * 2.0}, {"own": own})


def pid(shard: Shard) -> int:
    return os.getpid()


def median_round(engine: object, message: Message) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        engine.run(echo, message)
        times.append(time.perf_counter() - began)
    return float(np.median(times[3:]))


def main() -> None:
    names = sys.argv[1:] or ["serial", "threads", "processes", "ray"]
    print(f"{'engine':>10} {'P':>4} {'message':>8} {'ms a round':>11} {'start, s':>9} {'a death, s':>10}")
    for n_shards in (8, 64):
        for megabytes in (0.01, 1, 16):
            message = Message(np.zeros(int(megabytes * 2**17)), [np.zeros(100)] * n_shards)
            for name in names:
                began = time.perf_counter()
                engine = engines.build(name, Shards(n_shards), None if name == "mpi" else 2)
                start = time.perf_counter() - began
                median = median_round(engine, message)
                other = [worker for worker in set(engine.map(pid)) if worker != os.getpid()]
                lost = float("nan")
                if other and name != "mpi":
                    os.kill(other[0], signal.SIGKILL)
                    began = time.perf_counter()
                    engine.run(echo, message)
                    lost = time.perf_counter() - began - median
                engine.close()
                print(f"{name:>10} {n_shards:>4} {megabytes:>5} MB {1e3 * median:>11.2f} {start:>9.2f} {lost:>10.2f}")


if __name__ == "__main__":
    main()
