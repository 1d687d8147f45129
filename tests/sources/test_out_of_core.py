"""Memory stays small however large the data are; measured in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import sparse

N, D = 3_200_000, 16  # 400 MB in double precision

MEASURED = """
import sys
import time
import numpy as np
from unbounded import open_source  # and all that comes with it
from unbounded.columns import describe
from unbounded.rows import fingerprint
from unbounded.sources import shard

def peak():  # of this program alone; getrusage starts from the peak of the process that started it
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) / 1024

before = peak()
for path, pieces in (sys.argv[1:], (sys.argv[2], None)):
    source = open_source(path)
    columns, _ = describe(source), fingerprint(source)
    few = source[np.sort(np.random.default_rng(0).choice(source.n_rows, 25_000, replace=False))]
    if pieces:
        shard(source, pieces, 4, float32=True)
    print(source.n_rows, columns.mean[0], few.mean(), peak() - before)
"""


def make(path):
    X = np.lib.format.open_memmap(path, "w+", np.float64, (N, D))
    for start in range(0, N, 100_000):
        X[start : start + 100_000] = np.arange(start, start + 100_000)[:, None] % 1000
    X.flush()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured through /proc")
def test_a_file_of_400_mb_is_described_in_a_fraction_of_it(tmp_path):
    make(tmp_path / "x.npy")
    command = [sys.executable, "-c", MEASURED, tmp_path / "x.npy", tmp_path / "pieces"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 2, "the file, then its pieces"
    for line in done.stdout.splitlines():
        n, mean, few, grown = map(float, line.split())
        assert (n, mean) == (N, 499.5)
        assert abs(few - 499.5) < 10
        assert grown < 150, f"{grown:.0f} MB"


# ---- a fit

FIT = """
import sys
import time
import numpy as np
import unbounded as ub

def fit(path):
    return ub.DirichletProcessMixture(
        "diagonal_gaussian", dtype="float32", n_shards=8, n_warmup=1, n_draws=2, n_snapshots=1, n_chains=1,
        random_state=0, engine="processes", n_workers=2, checkpoint=sys.argv[2],
    ).fit(ub.open_source(path))

if __name__ == "__main__":
    model = fit(sys.argv[1])
    print(len(model.labels_), (np.bincount(model.labels_) > 0.1 * len(model.labels_)).sum())
"""
PARTS, WIDE = 5, 64


def make_clusters(path, n_rows):
    """Five Gaussian clusters of equal size in single precision, block by block."""
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, WIDE))
    rng = np.random.default_rng(1)
    means = 4.0 * rng.standard_normal((PARTS, WIDE), dtype=np.float32)
    for start in range(0, n_rows, 50_000):
        block = X[start : start + 50_000]
        rng.standard_normal(out=(noise := np.empty(block.shape, np.float32)), dtype=np.float32)
        block[:] = noise + means[rng.integers(PARTS, size=len(block))]
    X.flush()


def held(pid):
    """Megabytes that a process holds: anonymous memory and shared memory that it has mapped. Pages of the data file
    are not among it: they are the system's cache, which drops them when anybody needs the room."""
    try:
        with open(f"/proc/{pid}/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem")) / 1024
    except (OSError, KeyError):  # it has ended
        return 0.0


def family(pid):
    """A process and all that it started."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [pid, *(one for child in file.read().split() for one in family(int(child)))]
    except OSError:
        return [pid]


def fitted(folder, n_rows):
    """Fit n rows of a file; (peak of the driver, peak of all processes together) in MB, measured all the time."""
    make_clusters(folder / "x.npy", n_rows)
    (folder / "fit.py").write_text(FIT)
    driver = subprocess.Popen(
        [sys.executable, folder / "fit.py", folder / "x.npy", folder / "run"], stdout=subprocess.PIPE, text=True
    )
    own = together = 0.0
    while driver.poll() is None:
        sizes = [held(pid) for pid in family(driver.pid)]
        own, together = max(own, sizes[0]), max(together, sum(sizes))
        time.sleep(0.05)
    assert driver.returncode == 0
    assert driver.stdout.read().split() == [str(n_rows), str(PARTS)]
    print(f"{n_rows * WIDE * 4 / 2**20:.0f} MB: driver {own:.0f} MB, all processes {together:.0f} MB")
    labels = [np.load(folder / "run" / "labels" / f"shard-{p:05d}.npy", mmap_mode="r") for p in range(8)]
    assert sum(map(len, labels)) == n_rows
    return own, together


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured through /proc")
def test_a_fit_holds_no_rows(tmp_path):
    own, together = fitted(tmp_path, 800_000)  # 200 MB
    assert own < 400
    assert together < 900


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured through /proc")
def test_four_gigabytes_are_fitted_in_one(tmp_path):
    """Driver below 500 MB; all processes below 1 GB and the labels, of which there are four copies at most: those of
    the shards, the recovery point or checkpoint of them, a draw on its way, and the estimate."""
    n_rows = 2**24
    own, together = fitted(tmp_path, n_rows)
    assert own < 500
    assert together < 1024 + 4 * 4 * n_rows / 2**20


# ---- what grows with the data

GROWTH = """
import shutil
import sys
import threading
import numpy as np
import unbounded as ub

peak, over = 0.0, False

def held():  # anonymous memory and shared memory; pages of files are the system's cache
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024

def watch():
    global peak
    while not over:
        peak = max(peak, held())
        threading.Event().wait(0.002)

def fresh(path):  # a run directory that is there would be resumed
    shutil.rmtree(path, ignore_errors=True)
    return path

def words(path):
    ub.HierarchicalDirichletProcess(
        init="few", n_shards=8, n_warmup=1, n_draws=2, n_chains=1, n_snapshots=2, jumps=False, random_state=0,
        likelihood=ub.Tokens(0.1, base="uniform"), engine="processes", n_workers=1, progress=False,
        checkpoint=fresh(path + "-run"),
    ).fit(ub.open_source(path))

def mixture(path):
    ub.DirichletProcessMixture(
        "diagonal_gaussian", init="one", n_warmup=0, n_draws=100, keep_assignments=True, n_chains=1, jumps=False,
        random_state=0, progress=False,
    ).fit(np.load(path))

def features(path):
    ub.BetaBernoulliFeatures(
        init="grown", n_warmup=0, n_draws=60, n_snapshots=60, n_chains=1, jumps=False, random_state=0, progress=False
    ).fit(np.load(path))

if __name__ == "__main__":
    thread = threading.Thread(target=watch)
    thread.start()
    globals()[sys.argv[1]](sys.argv[2])  # so that everything is compiled
    for path in sys.argv[2:]:
        peak = 0.0
        globals()[sys.argv[1]](path)
        print(peak, flush=True)
    over = True
    thread.join()
"""


def grows_by_less(most, folder, model, sizes, paths):
    """Whether each further row costs the driver so few bytes: what all sizes cost is not among them. The median of
    three processes counts (the third one is needed where two disagree): the watch may miss a peak where other programs
    have the cores, and some of what is freed is held for a while. (Most is given back; otherwise glibc keeps ever
    larger blocks, and how many depends on which thread came first.)"""
    (folder / "growth.py").write_text(GROWTH)
    command = [sys.executable, "-W", "ignore", folder / "growth.py", model, *paths]
    env = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    verdicts = []
    while max(verdicts.count(True), verdicts.count(False)) < 2:
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        small, large = map(float, done.stdout.split())
        grown = (large - small) / (sizes[1] - sizes[0])
        print(f"{grown:.2f} bytes a row, {most:.2f} are allowed")
        verdicts.append(grown < most)
    return verdicts.count(True) == 2


def make_documents(folder, n_documents, length=128, n_words=100):
    """Documents of one of two topics each, in pieces."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for piece, start in enumerate(range(0, n_documents, 4096)):
        size = min(4096, n_documents - start)
        word = rng.integers(n_words // 2, size=(size, length)) + (n_words // 2) * rng.integers(2, size=(size, 1))
        rows = np.repeat(np.arange(size), length)
        counts = sparse.csr_matrix((np.ones(rows.size), (rows, word.ravel())), (size, n_words))
        sparse.save_npz(folder / f"{piece:04d}.npz", counts, compressed=False)
    return folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured through /proc")
def test_the_driver_of_a_corpus_needs_few_bytes_a_token(tmp_path):
    """From the start to the estimate. It took 66 when labels of all tokens went through it; two are allowed."""
    sizes = 8192, 40960
    paths = [make_documents(tmp_path / str(size), size) for size in sizes]
    assert grows_by_less(2.0, tmp_path, "words", [128 * size for size in sizes], paths)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured through /proc")
@pytest.mark.parametrize(("model", "width"), [("mixture", 2), pytest.param("features", 6, marks=pytest.mark.long)])
def test_draws_that_are_kept_are_not_in_memory(tmp_path, model, width):
    """A fit holds less than one and a half times its rows: labels of 100 draws would be three times as much, and so
    would be 60 matrices Z of bytes."""
    sizes, rng = (60_000, 300_000), np.random.default_rng(0)
    for size in sizes:
        rows = 2.0 * rng.integers(0, 2, (size, width)) @ rng.normal(size=(width, 16))
        np.save(tmp_path / f"{size}.npy", rows + 0.3 * rng.normal(size=rows.shape))
    assert grows_by_less(1.5 * 128, tmp_path, model, sizes, [tmp_path / f"{size}.npy" for size in sizes])
