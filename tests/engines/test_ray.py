"""Ray: two nodes on this machine, of which one dies; actors killed at random moments; what Ray leaves behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
import toys
from contract import P, X, conforms, lives_through_sums, messages, said
from fits import FITS, everything
from test_engines import every_chain, kill_and_compare, mixture_chain, tell
from test_processes import advanced, alive, script, wait_for

from unbounded import EngineError, engines
from unbounded.contracts import Message
from unbounded.engines import recovery
from unbounded.round import rounds

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

from unbounded.engines import ray as actors  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    """Two CPUs here and one on another node, so that three actors are on both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))  # so that nodes find the toys
        less = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}  # that nobody asks for
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2} | less)
        cluster.other = cluster.add_node(num_cpus=1)
        ray.init(cluster.address, log_to_driver=False, logging_level="error")
        yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="class")
def lasting(cluster, _cache):
    """Three actors serve one engine after another: each new one would import the package. They have all CPUs, and the
    compiled code that others do not write to."""
    members = {}

    class Lasting(actors._Crew):
        def __init__(self, *args):
            super().__init__(*args)
            self.close.detach()
            self.close, self._members, self._met = (lambda: None), members, set()

        def start(self, w):
            if w not in members or w in self._met:  # or else it serves, until we hear of its death
                super().start(w)
            self._met.add(w)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actors, "_Crew", Lasting)
        patch.setenv("NUMBA_CACHE_DIR", str(_cache))
        engines.build("ray", toys.Rows(X, P), 3)
        yield
    actors._end_all(members, False)
    assert wait_for(lambda: not actor_pids())


@pytest.fixture
def engine(lasting):
    return engines.build("ray", toys.Rows(X, P), 3)


def actor_pids():
    """Of this test: children of children of ours."""
    return [pid for pid in processes() if title(pid).startswith("ray::_Actor") and parent(parent(pid)) == os.getpid()]


def processes():
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def title(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def parent(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.usefixtures("lasting")
class TestActors:
    """The last test kills them."""

    def test_conformance(self):
        conforms(lambda recipe: engines.build("ray", recipe, 2))

    @pytest.mark.parametrize(("name", "workers"), [("mixture", 1), ("mixture", 2), *((name, 3) for name in FITS)])
    def test_actors_change_no_bit(self, name, workers, serial, nothing_compiled):
        """Nor do they compile anything that the driver has compiled. How a sum is shared among workers has nothing to
        do with what is added (`test_tree.py` has every way): one model is enough for their number."""
        with nothing_compiled():
            assert everything(FITS[name](engine="ray", n_workers=workers)) == serial[name]
        assert ray.is_initialized(), "only who has started Ray may end it"

    def test_resumed_from_a_checkpoint_of_threads(self, serial, interrupted, tmp_path):
        with interrupted(draw=3):
            assert FITS["mixture"](engine="threads", checkpoint=tmp_path).interrupted_
        assert everything(FITS["mixture"](engine="ray", n_workers=2, checkpoint=tmp_path)) == serial["mixture"]

    def test_no_place(self, monkeypatch):
        monkeypatch.setattr(actors, "_Crew", actors._Crew.__base__)
        with pytest.raises(EngineError, match=r"worker \d has not started .* ask for fewer workers"):
            engines.build("ray", toys.Rows(X, P), 5, timeout=1.5)
        with pytest.raises(ValueError, match="timeout"):
            engines.build("ray", toys.Rows(X, P), 5, timeout=0.0)

    def test_blocks_arrays_and_errors(self, engine):
        """Both nodes have actors; arrays arrive as compiled code wants them; an exception is no death."""
        pids = engine.map(toys.pid)
        assert len(set(pids)) == 3
        assert pids == sorted(pids, key=pids.index), "blocks are contiguous"
        assert len({parent(pid) for pid in pids}) == 2
        seen = engine.run(toys.writable, Message(X.copy(), [X[:2]] * P))
        assert all(part["ok"] for part in seen.private)
        assert seen.shared["sum"].flags.writeable, "answers, too"
        for kind, error in (("plain", KeyError), ("strange", RuntimeError)):
            with pytest.raises(error, match=r"three|Strange: 1 and 2") as raised:
                engine.run(toys.fail, Message(kind, [None] * P))
            notes = "\n".join(raised.value.__notes__)
            assert "in shard 3" in notes
            assert "worker 2" in notes
            assert "toys.py" in notes
        assert engine.map(toys.pid) == pids

    def test_deaths_while_sums_are_added(self, engine, tmp_path):
        lives_through_sums(engine, tmp_path, [4, 5])

    def test_an_actor_that_hangs_is_replaced(self):
        """One that was stopped in its tracks: alive as far as Ray knows, but it gives no sign of life."""
        engine = engines.build("ray", toys.Rows(X, P), 3, silence=3.0)
        done, stopped = [], 0
        for i, message in enumerate(messages(4)):
            if i == 2:
                stopped = engine.map(toys.pid)[2]
                os.kill(stopped, signal.SIGSTOP)
            done.append(said(engine.run(toys.advance, message)))
        assert done == advanced(4)
        assert wait_for(lambda: not alive(stopped))
        assert stopped not in engine.map(toys.pid)
        with pytest.raises(ValueError, match="silence must be positive"):
            engines.build("ray", toys.Rows(X, P), 3, silence=0.0)

    def test_killed_with_and_without_a_past(self, engine, monkeypatch):
        monkeypatch.setattr(recovery, "MOST_ORDERS", 4)
        faults = {0: [0], 3: [2], 5: [0, 4]}
        done = []
        for i, message in enumerate(messages(8)):
            pids = engine.map(toys.pid) if i in faults else []
            for p in faults.get(i, []):
                os.kill(pids[p], signal.SIGKILL)
            done.append(said(engine.run(toys.advance, message)))
        assert done == advanced(8)
        monkeypatch.setattr(recovery, "DEATHS", 2)
        with pytest.raises(
            EngineError, match=r"worker 2 with shards 3 to 4 died 2 times in a row during die \(The actor"
        ):
            engine.run(toys.die, Message(None, [None] * P))


def test_killed_at_random_moments(cluster):
    kill_and_compare(mixture_chain, kills=3, seed=0, name="ray", pids=actor_pids)


@pytest.mark.long
@every_chain
def test_killed_at_twenty_random_moments(cluster, chain):
    kill_and_compare(chain, kills=20, seed=1, name="ray", pids=actor_pids)


def test_a_node_dies_in_the_middle_and_another_comes_late(cluster, monkeypatch):
    monkeypatch.setattr(actors, "PATIENCE", 2.0)
    model, recipe, start = mixture_chain()
    middle = threading.Event()

    def history(name):
        engine, told = engines.build(name, recipe, 3), []
        try:
            for state in islice(rounds(model, engine, model.begin(engine, start)), 12):
                told.append(tell(model, engine, state))
                if state.round >= 4:
                    middle.set()
        finally:
            engine.close()
        return told

    def disturbed():
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(history, "ray")
            assert middle.wait(120.0)
            cluster.remove_node(cluster.other, allow_graceful=False)
            time.sleep(5.0)
            cluster.other = cluster.add_node(num_cpus=1)  # which Ray does in the main thread only
            return told.result(120.0)

    with pytest.warns(UserWarning, match=r"has not started for .* CPUs of Ray are free"):
        told = disturbed()
    assert told == history("serial")


OWN = """
    import os, subprocess, sys, numpy as np, ray, toys
    from unbounded import engines
    def local(shard):  # which no worker can import
        return shard.index
    if __name__ == "__main__":
        engine = engines.build("ray", toys.Rows(np.zeros(10), 4), 3)
        print(*set(engine.map(toys.pid)), flush=True)
        address = ray.get_runtime_context().gcs_address
        assert address.startswith("127.0.0.1:")
        if "RAY_AUTH_MODE" in os.environ:  # which Ray sets where it has tokens: who has none is not heard
            ask = f"import ray._raylet as r; print(r.GcsClient(address={{address!r}}).internal_kv_keys(b'', None))"
            for mode, word in (("disabled", "RAY_AUTH_TOKEN"), ("token", "CLUSTER_METADATA")):
                own = os.environ | {{"RAY_AUTH_MODE": mode}}
                said = subprocess.run([sys.executable, "-c", ask], env=own, capture_output=True, text=True)
                assert word in said.stdout + said.stderr
                assert (said.returncode == 0) == (mode == "token")
        assert engine.map(local) == [0, 1, 2, 3]
        assert "RAY_USAGE_STATS_ENABLED" not in os.environ
        input()
        {then}
"""
THEN = {
    "close": "engine.close(); assert not ray.is_initialized(); toys.sleep(None)",
    "kill": "print(flush=True); engine.map(toys.sleep)",
}


def told(folder, then):
    """A driver, and the processes of its actors; Ray that does not start on a busy machine gets a second chance."""
    for attempt in ("first", "second"):
        (folder / attempt).mkdir()
        driver = script(folder / attempt, OWN.format(then=then))
        pids = [int(word) for word in driver.stdout.readline().split()]
        if pids:
            return driver, pids
        driver.kill()
    raise AssertionError(driver.stderr.read())


@pytest.mark.parametrize("how", THEN)
def test_nothing_stays(tmp_path, how):
    """Ray that we have started, with a place for every worker, ends when the engine does or the driver is killed."""
    driver, pids = told(tmp_path, THEN[how])
    family = descendants(driver.pid)
    assert len(pids) == 3
    assert set(pids) < family
    assert set().union(*map(listened_to, family)) <= LOOPBACK
    driver.stdin.write("\n")
    driver.stdin.flush()
    if how == "kill":
        driver.stdout.readline()
        time.sleep(1.0)  # until all actors sleep, too
        family = {pid for pid in family if "Agent" not in title(pid)}  # which Ray gives another minute
        driver.kill()
    assert wait_for(lambda: not any(alive(pid) for pid in family), 30.0)
    driver.kill()
    assert driver.stderr.read() == ""


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def listened_to(pid):
    """Addresses of this machine at which a process waits for others, as the kernel writes them."""
    files = [path for path in Path(f"/proc/{pid}/fd").glob("*") if path.is_symlink()] if alive(pid) else []
    own = {os.readlink(path) for path in files}
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in own}


def descendants(pid):
    children = {child for child in processes() if parent(child) == pid}
    return children.union(*map(descendants, children))
