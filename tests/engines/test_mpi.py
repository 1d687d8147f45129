"""MPI: the same bits on any number of ranks, and no end of a rank that leaves others behind."""

from __future__ import annotations

import importlib
import mmap
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
MPIEXEC = Path(sys.executable).parent / "mpiexec"
ENGINE = ["-m", "unbounded.engines.mpi"]
DRAWS = 400
RESULTS = ["draws.csv", "labels.npy"]

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside this Python")


def start(n_ranks, *words):
    command = [MPIEXEC, "-n", n_ranks, sys.executable, *words]
    return subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE
    )


def end(job, seconds=300):
    try:
        out, err = job.communicate(timeout=seconds)
    finally:
        job.kill()
    return job.returncode, out, err


def ok(*words):
    code, out, err = end(start(*words))
    assert code == 0, out + err
    return out


@pytest.mark.parametrize("n_ranks", [1, 4])
def test_ranks_change_no_bit(serial, nothing_compiled, n_ranks, tmp_path):
    """One fit after another in a script; no rank compiles what was compiled."""
    with nothing_compiled():
        ok(n_ranks, *ENGINE, HERE / "mpi_fits.py", tmp_path / "fitted")
    fitted = pickle.loads((tmp_path / "fitted").read_bytes())
    assert fitted.keys() == serial.keys()
    for name, said in serial.items():
        assert fitted[name] == said, name


def test_conformance():
    """A rank more than there are shards has none."""
    assert ok(6, *ENGINE, HERE / "mpi_toys.py", "ranks_and_blocks", 6) == "done\n"


@pytest.mark.parametrize(
    ("scene", "expected", "words"),
    [
        ("fails", 1, "ZeroDivisionError: of the script"),
        ("leaves", 7, ""),
        pytest.param("dies", None, "", marks=pytest.mark.long),  # which end the launcher reports is a race
        ("interrupted", 1, "KeyboardInterrupt"),
    ],
)
def test_every_end_of_a_rank_ends_the_job(scene, expected, words):
    """Also in the middle of a step of others that would take minutes; but no exception of a step, which says where it
    was raised: the script that fails has seen some."""
    code, out, err = end(start(2, *ENGINE, HERE / "mpi_toys.py", scene), 120)
    assert code == expected if expected is not None else code != 0, out + err
    assert words in err
    assert "done" not in out


def test_a_script_that_every_rank_runs_is_told_so():
    code, _, err = end(start(2, HERE / "mpi_toys.py", "fails"), 120)
    assert code == 1
    assert "mpiexec -n 2 python -m unbounded.engines.mpi script.py" in err


def test_without_mpi4py_there_is_one_sentence(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('not here')")
    job = subprocess.run(
        [sys.executable, "-m", "unbounded.cli", "fit", "dp", "x.npy", "--out", tmp_path / "run", "--engine", "mpi"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert job.returncode == 2
    (line,) = job.stderr.splitlines()
    assert "pip install 'unbounded[mpi]'" in line


# ---- the command line


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.npy"
    rng = np.random.default_rng(0)
    np.save(path, np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 7.0]])[rng.integers(0, 3, 4000)] + rng.normal(size=(4000, 2)))
    return path


def fit(data, out):
    options = ["--shards", 5, "--chains", 1, "--warmup", 2, "--draws", DRAWS, "--engine", "mpi", "--quiet"]
    return [HERE / "mpi_cli.py", "fit", "dp", data, "--out", out, *options]


def rank(job, number):
    """The process of a rank, among those that mpiexec has started."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment = (path / "environ").read_bytes().split(b"\0")
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            grandparent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if f"PMI_RANK={number}".encode() in environment and grandparent == job.pid:
            return int(path.name)
    raise AssertionError(f"rank {number} is not there")


def draws_in(run):
    path = run / "chain-0" / "trace.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "undisturbed"
    out = ok(2, *fit(data, run))
    assert out.startswith("rows"), "rank 0 alone speaks"
    assert out.count("clusters (estimate)") == 1
    return {name: (run / name).read_bytes() for name in RESULTS}


def killed(job, run, number):
    """Once there are draws of this job, and a checkpoint."""
    before, until = draws_in(run), time.monotonic() + 60
    while not (run / "chain-0" / "checkpoint.ub").exists() or draws_in(run) < before + 20:
        assert job.poll() is None, end(job)
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(rank(job, number), signal.SIGKILL)
    code, _, err = end(job, 30)
    assert code != 0
    assert f"unbounded resume {run}" in err
    assert before + 20 <= draws_in(run) < DRAWS


def test_a_killed_rank_ends_the_job_and_fewer_ranks_go_on(undisturbed, data, tmp_path):
    """The last of three is killed, then the first of two that have gone on."""
    run = tmp_path / "run"
    resume = [HERE / "mpi_cli.py", "resume", run, "--quiet"]
    killed(start(3, *fit(data, run)), run, 2)
    killed(start(2, *resume), run, 0)
    ok(1, *resume)
    assert {name: (run / name).read_bytes() for name in RESULTS} == undisturbed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells ranks that their launcher has died")
def test_ranks_end_with_their_launcher(data, tmp_path):
    """Also one that could not notice by itself, since it is stopped."""
    job = start(2, *fit(data, tmp_path / "run"))
    while not draws_in(tmp_path / "run"):
        assert job.poll() is None, end(job)
        time.sleep(0.01)
    ranks = [rank(job, number) for number in range(2)]
    os.kill(ranks[1], signal.SIGSTOP)
    os.kill(int(Path(f"/proc/{ranks[0]}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    code, _, _ = end(job, 30)
    assert code != 0
    until = time.monotonic() + 30
    try:
        while any(Path(f"/proc/{pid}/fd/0").exists() for pid in ranks):
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:  # those that stay would fit for ever
        for pid in ranks:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_refused_commands(undisturbed, data, tmp_path):
    code, out, err = end(start(2, *fit(data, tmp_path / "run"), "--workers", 3), 60)
    assert code == 2
    assert out == ""
    assert err.splitlines() == ["error: n_workers is 3, but the number of MPI ranks is 2."]
    assert not (tmp_path / "run").exists()


def test_what_killed_jobs_have_left_is_removed(tmp_path, monkeypatch):
    """But neither what a process has mapped, nor what is new, nor other files."""
    mpi = importlib.import_module("unbounded.engines.mpi")
    monkeypatch.setattr(mpi, "SHARED", tmp_path)
    for name in ("mpich_shm_1_0", "mpich_shm_2_0", "mpich_shm_3_0", "else"):
        (tmp_path / name).write_bytes(bytes(4096))
        if name != "mpich_shm_3_0":
            os.utime(tmp_path / name, (0, 0))
    with open(tmp_path / "mpich_shm_2_0", "r+b") as file, mmap.mmap(file.fileno(), 4096):
        mpi.remove_leftovers()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["else", "mpich_shm_2_0", "mpich_shm_3_0"]
    mpi.remove_leftovers()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["else", "mpich_shm_3_0"]
