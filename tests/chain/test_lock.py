"""One writer at a time: whoever comes second gets one clear sentence, and a dead writer is in nobody's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from runs import everything, model, rows

from unbounded import RunError
from unbounded.chain import lock
from unbounded.chain.lock import only_writer

X = rows()
HOLDER = """
import sys, time
from pathlib import Path
from unbounded.chain.lock import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that writes to the run directory."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path / "run"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_the_second_writer_is_refused_every_time(tmp_path, holder):
    for _ in range(20):
        with pytest.raises(RunError, match=f"is being written by process {holder.pid} on ") as error:
            model(tmp_path / "run").fit(X)
        assert str(error.value).count("since 20") == 1
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_killed_writer_leaves_no_lock(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / "run" / lock.NAME).exists()
    assert everything(model(tmp_path / "run").fit(X)) == everything(model().fit(X))
    assert not (tmp_path / "run" / lock.NAME).exists()


def test_of_many_threads_one_writes(tmp_path):
    begin, held, refused = threading.Barrier(8), [], []

    def write() -> None:
        begin.wait()
        try:
            with only_writer(tmp_path), only_writer(tmp_path):  # a writer may ask again
                held.append(1)
                while len(refused) < 7:
                    time.sleep(0.001)
        except RunError:
            refused.append(1)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(held), len(refused)) == (1, 7)


@pytest.mark.parametrize("has_locks", [True, False])
def test_a_writer_on_another_machine(tmp_path, monkeypatch, has_locks):
    """Its lock may be invisible from here; what is seen is whether it gives signs of life."""
    if not has_locks:
        monkeypatch.setattr(lock, "fcntl", None)
    path = tmp_path / lock.NAME
    path.write_text(json.dumps({"host": "elsewhere", "process": 7, "since": "2026", "machine": "another"}))
    with pytest.raises(RunError, match="process 7 on elsewhere since 2026"), only_writer(tmp_path):
        pass
    long_ago = time.time() - 2 * lock.SILENT
    os.utime(path, (long_ago, long_ago))
    with only_writer(tmp_path):
        assert json.loads(path.read_text())["process"] == os.getpid()
    assert not path.exists()


def test_a_writer_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    with only_writer(tmp_path):
        path = tmp_path / lock.NAME
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 30
        while path.stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime > 0


def test_what_a_killed_writer_left_is_removed(tmp_path):
    (tmp_path / "chain-0" / "snapshots").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "chain-0", tmp_path / "chain-0" / "snapshots"):
        (folder / ".checkpoint.ub.12-34.tmp").write_bytes(b"half")
    with only_writer(tmp_path):
        assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize(
    "name", [".mine.tmp", "sub/.mine.tmp", "sub/.mine.12-34.tmp", "chain-0/.mine.tmp", ".m.1-2.tmp/x"]
)
def test_what_others_have_there_stays(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("precious")
    with only_writer(tmp_path):
        pass
    assert (tmp_path / name).read_text() == "precious"


def test_an_owner_that_has_not_signed_yet(tmp_path):
    """Of two that start at the same moment the second waits for the name of the first."""
    fcntl = pytest.importorskip("fcntl")
    with open(tmp_path / lock.NAME, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        owner = {"host": "here", "process": 7, "since": "2026", "machine": lock._machine()}
        threading.Timer(0.1, lambda: (tmp_path / lock.NAME).write_text(json.dumps(owner))).start()
        with pytest.raises(RunError, match="is being written by process 7 on here since 2026"), only_writer(tmp_path):
            pass
    (tmp_path / lock.NAME).write_text("")
    with open(tmp_path / lock.NAME, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="is being written by another process; wait"), only_writer(tmp_path):
            pass


def test_nothing_stays_of_a_directory_that_nothing_was_written_to(tmp_path):
    with only_writer(tmp_path / "new"):
        pass
    assert not (tmp_path / "new").exists()
