"""Processes: orders, faults and ends, with toys for shards. What they give is compared with the serial engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import toys
from contract import P, X, lives_through_sums, messages, said

from unbounded import EngineError, engines
from unbounded.contracts import Message
from unbounded.engines import recovery


def advanced(n):
    """What n orders come to on the serial engine."""
    engine = engines.build("serial", toys.Rows(X, P))
    try:
        return [said(engine.run(toys.advance, message)) for message in messages(n)]
    finally:
        engine.close()


@pytest.fixture(scope="module")
def engine():
    engine = engines.build("processes", toys.Rows(X, P), 2, timeout=3.0)
    yield engine
    engine.close()


@pytest.fixture
def processes(engine):
    engine.load([{"values": part * 0.0} for part in np.array_split(X, P)])
    return engine


def kill(engine, w, how=signal.SIGKILL):
    os.kill(engine.map(toys.pid)[0 if w == 0 else -1], how)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] not in "ZX"
    except FileNotFoundError:
        return False


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_blocks_arrays_and_errors(processes):
    """W workers hold P shards; arrays arrive as compiled code wants them; an exception is the user's, not a death."""
    pids = processes.map(toys.pid)
    assert len(set(pids)) == 2
    assert os.getpid() not in pids
    assert pids == sorted(pids, key=pids.index), "blocks are contiguous"
    seen = processes.run(toys.writable, Message(np.zeros(3), [np.ones(2)] * P))
    assert all(part["ok"] for part in seen.private)
    for kind, error in (("plain", KeyError), ("strange", RuntimeError)):
        with pytest.raises(error, match=r"three|Strange: 1 and 2") as raised:
            processes.run(toys.fail, Message(kind, [None] * P))
        notes = "\n".join(raised.value.__notes__)
        assert "in shard 3" in notes
        assert "worker 1" in notes
        assert "toys.py" in notes
    assert processes.map(toys.pid) == pids


def test_deaths_while_sums_are_added(processes, tmp_path):
    """The worker of the first two shards adds them, those of the other one, and the last shard."""
    lives_through_sums(processes, tmp_path, [2, 4, 5, 5])


def test_save_and_load(processes):
    run = [said(processes.run(toys.advance, message)) for message in messages(6)[:3]]
    parts = processes.save()
    rest = [said(processes.run(toys.advance, message)) for message in messages(6)[3:]]
    assert run + rest == advanced(6)
    processes.load(parts)
    kill(processes, 1)
    assert [said(processes.run(toys.advance, message)) for message in messages(6)[3:]] == rest


def test_killed_before_and_after_recovery_points(processes, monkeypatch):
    """A worker dies with a long past, a short one, and none; both die at once; one hangs."""
    monkeypatch.setattr(recovery, "MOST_ORDERS", 4)
    faults = {1: [0], 3: [1], 5: [0, 1]}
    run = []
    for i, message in enumerate(messages(8)):
        for w in faults.get(i, []):
            kill(processes, w)
        run.append(said(processes.run(toys.advance, message)))
        assert len(processes._log) < 4
    kill(processes, 1, signal.SIGSTOP)
    began = time.monotonic()
    parts = processes.save()
    assert time.monotonic() - began > 1.5, "a worker that hangs is given some time"
    assert run == advanced(8)
    processes.load(parts)


def test_a_step_that_always_kills_its_worker(processes, monkeypatch):
    monkeypatch.setattr(recovery, "DEATHS", 2)
    with pytest.raises(
        EngineError, match=r"worker 1 with shards 2 to 4 died 2 times in a row during die \(exit code -9"
    ):
        processes.run(toys.die, Message(None, [None] * P))


def script(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n" + textwrap.dedent(text))
    return subprocess.Popen(
        [sys.executable, str(path)], text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


BUSY = """
    import numpy as np, toys
    from unbounded import engines
    if __name__ == "__main__":
        engine = engines.build("processes", toys.Rows(np.zeros(10), 4), 2)
        print(*set(engine.map(toys.pid)), flush=True)
        engine.map(toys.sleep)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_ends_takes_everything_with_it(tmp_path, how):
    """Killed, or interrupted in the middle of a round: no process stays, busy or not, and nothing in /dev/shm."""
    before = set(os.listdir("/dev/shm"))
    driver = script(tmp_path, BUSY)
    pids = [int(word) for word in driver.stdout.readline().split()]
    assert len(pids) == 2
    assert all(alive(pid) for pid in pids)
    time.sleep(0.3)
    os.kill(driver.pid, how) if how == signal.SIGKILL else os.killpg(driver.pid, how)
    assert wait_for(lambda: not any(alive(pid) for pid in pids))
    driver.wait(10)
    assert wait_for(lambda: subprocess.run(["pgrep", "-g", str(driver.pid)], capture_output=True).returncode == 1)
    assert set(os.listdir("/dev/shm")) <= before
    if how == signal.SIGINT:
        assert driver.stderr.read().count("KeyboardInterrupt") == 1, "workers are silent"


def test_a_script_without_a_guard_is_told_so(tmp_path):
    driver = script(tmp_path, BUSY.replace('if __name__ == "__main__":', "if True:"))
    _, words = driver.communicate(timeout=60)
    assert driver.returncode == 1
    assert words.count("if __name__ == '__main__'") >= 2


def test_the_server_of_workers_may_die(processes):
    """Workers live on, and a new one has a new server, even where the old one dies as it is asked for it."""
    server = parent(processes.map(toys.pid)[0])
    assert server != os.getpid()
    run = [said(processes.run(toys.advance, message)) for message in messages(6)[:2]]
    kill(processes, 1)
    os.kill(server, signal.SIGSTOP)
    death = threading.Timer(0.5, os.kill, (server, signal.SIGKILL))
    death.start()
    run += [said(processes.run(toys.advance, message)) for message in messages(6)[2:4]]
    death.join()
    second = parent(processes.map(toys.pid)[-1])
    assert second not in (server, os.getpid())
    os.kill(second, signal.SIGKILL)
    run += [said(processes.run(toys.advance, message)) for message in messages(6)[4:]]
    assert run == advanced(6)
    kill(processes, 1)
    assert parent(processes.map(toys.pid)[-1]) not in (server, second, os.getpid())


FORKED = """
    import os, numpy as np, toys
    from unbounded import engines
    if __name__ == "__main__":
        for _ in range(2):
            engine = engines.build("processes", toys.Rows(np.zeros(10), 4), 1)
            print(len(engine.map(toys.pid)), flush=True)
            engine.close()
            if (child := os.fork()):
                os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_was_forked_starts_workers_of_its_own(tmp_path):
    driver = script(tmp_path, FORKED)
    words, errors = driver.communicate(timeout=60)
    assert (driver.returncode, words, errors) == (0, "4\n4\n", "")


def test_options_are_checked():
    with pytest.raises(ValueError, match="timeout"):
        engines.build("processes", toys.Rows(X, P), 2, timeout=0.5)
