"""Memory stays small however large the data are; measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

N, D = 3_200_000, 16  # 400 MB in double precision

MEASURED = """
import sys
import numpy as np
import unbounded as ub
from unbounded.data import describe, fingerprint

def peak():  # of this program alone; getrusage starts from the peak of the process that started it
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) / 1024

before = peak()
source = ub.open_source(sys.argv[1])
columns, _ = describe(source), fingerprint(source)
few = source[np.sort(np.random.default_rng(0).choice(source.n_rows, 25_000, replace=False))]
if len(sys.argv) > 2:
    ub.sources.shard(source, sys.argv[2], 4, float32=True)
print(source.n_rows, columns.mean[0], few.mean(), peak() - before)
"""


def measured(*words):
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, words)], capture_output=True, text=True, check=True
    )
    return [float(word) for word in done.stdout.split()]


def make(path):
    X = np.lib.format.open_memmap(path, "w+", np.float64, (N, D))
    for start in range(0, N, 100_000):
        X[start : start + 100_000] = np.arange(start, start + 100_000)[:, None] % 1000
    X.flush()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured through /proc")
def test_a_file_of_400_mb_is_described_in_a_fraction_of_it(tmp_path):
    make(tmp_path / "x.npy")
    n, mean, few, grown = measured(tmp_path / "x.npy", tmp_path / "pieces")
    assert (n, mean) == (N, 499.5)
    assert abs(few - 499.5) < 10
    assert grown < 150, f"{grown:.0f} MB"
    n, mean, _, grown = measured(tmp_path / "pieces")
    assert (n, mean) == (N, 499.5)
    assert grown < 150, f"{grown:.0f} MB"
