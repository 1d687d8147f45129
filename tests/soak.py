"""Kill drivers and workers of small fits for hours, go on with what they left, and compare bits.

    python tests/soak.py --hours 1 [--seed 0] [-j 2]
    python tests/soak.py --hours 1 --engines ray mpi
    python tests/soak.py --every-write [-j 2]

Every trial is a fit of one model on one engine into a run directory, in a process of its own that is killed: at a
random moment, or at a write (before, within, or right after it). What is left is resumed, and perhaps killed again,
until it is done. Every third trial begins with fewer draws, and its run is extended to all of them. The result must be,
bit for bit, that of a fit of all draws that nobody disturbed. One model reads its rows from pieces on disk, and one is
the command line, whose files of results count. A trial that takes too long hangs; one that ends with a message other
than that of a stop has lost something. MPI ranks and Ray actors start slowly, and so they come in one trial of twenty
each; other drivers are forks of a process that has imported everything.

With --every-write, serial fits of every model are killed before, within and after each of their writes, one by one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from nursery import Nursery, Session, serve

HERE = Path(__file__).resolve().parent
SESSIONS, PATIENCE = 6, 180.0  # of a trial: how often it is killed at most; seconds in which one of them must end
VERDICTS = ("same", "different", "lost", "hung")
FAULTS = ("driver", "term", "hup", "write", "worker", "workers", "both")
OF_WORKERS = ("worker", "workers", "both")
SIGNALS = {"term": signal.SIGTERM, "hup": signal.SIGHUP}  # of a driver; else it is killed
DEATHS = 3  # of workers in one session, at most; five in a row are an error
COMMAND, SOURCE = "command", "source"  # beside the models of engines/fits.py
QUICK, SLOW, HAVE_WORKERS = ("serial", "threads", "processes", "processes"), ("ray", "mpi"), ("processes", "ray", "mpi")
DRAWS, FEWER = 24, 10
LENGTH = {"n_warmup": 6, "checkpoint_seconds": 0.0}
BEFORE, WITHIN, AFTER = range(3)  # a write


class Order(NamedTuple):
    """A session: a fit, or what is left of one."""

    model: str
    engine: str
    run: str
    draws: int = DRAWS
    write: int = 0  # the one at which the driver kills itself; 0: none
    moment: int = BEFORE


# ---- in the process that is killed


def child(order: Order) -> None:
    writes = _Writes(order)
    workers = {} if order.engine in ("serial", "mpi") else {"n_workers": 2}
    done = (_by_command if order.model == COMMAND else _by_fit)(order, workers)
    if done is not None:
        Path(f"{order.run}.writes").write_text(str(writes.done))
        _digest_file(order).write_text(digest_of(*done))


def _digest_file(order: Order) -> Path:
    """Beside the run directory, where it is once this many draws are done."""
    return Path(f"{order.run}.digest-{order.draws}")


def _by_fit(order: Order, workers: dict[str, int]) -> Any:
    """All that the fit says, or None where it was interrupted."""
    sys.path.insert(0, str(HERE / "engines"))
    from fits import everything

    fit = fits_of(Path(order.run).parent)[order.model]
    fitted = fit(engine=order.engine, checkpoint=order.run, n_draws=order.draws, **workers, **LENGTH)
    return None if fitted.interrupted_ else everything(fitted)


def _by_command(order: Order, workers: dict[str, int]) -> Any:
    """The files of results, or None where the command was interrupted or refused."""
    from unbounded.cli.commands import app

    run = Path(order.run)
    way = ["--engine", order.engine, "--draws", order.draws, "--quiet"]
    way += ["--workers", workers["n_workers"]] if workers else []
    if (run / "run.json").exists():
        words = ["resume", run, *way]
    else:
        words = ["fit", "dp", run.parent / "pieces", "--out", run, "--shards", 5, "--chains", 1, *way]
        words += ["--warmup", LENGTH["n_warmup"], "--checkpoint-seconds", LENGTH["checkpoint_seconds"]]
    if app([str(word) for word in words], standalone_mode=False):
        return None
    names = ("labels.npy", "draws.csv", "summary.txt", "traces.png", "labels/shards.json", "labels/shard-00000.npy")
    return {name: (run / name).read_bytes() for name in names}, []


def fits_of(folder: Path) -> dict[str, Callable[..., Any]]:
    """A fit of every model; one reads rows from pieces in the folder."""
    sys.path.insert(0, str(HERE / "engines"))
    from fits import ALL_FITS

    return ALL_FITS | {SOURCE: partial(fit_source, folder)}


def fit_source(folder: Path, **way: Any) -> Any:
    from fits import SETTINGS

    import unbounded

    model = unbounded.DirichletProcessMixture(init="one", **SETTINGS | way)
    return model.fit(unbounded.open_source(folder / "pieces"))


def write_pieces(folder: Path) -> None:
    """Rows for what reads files, in pieces that are not the shards."""
    sys.path.insert(0, str(HERE / "engines"))
    import numpy as np
    from fits import clusters

    (folder / "pieces").mkdir()
    for p, part in enumerate(np.array_split(clusters(), 3)):
        np.save(folder / "pieces" / f"x{p}.npy", part)


def digest_of(scalars: dict[str, bytes], snapshots: list[dict[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for part in (scalars, *snapshots):
        for name in sorted(part):
            digest.update(name.encode() + b"\0" + part[name])
    return digest.hexdigest()


class _Writes:
    """Counts what a run directory is written, and dies at one of them."""

    def __init__(self, order: Order):
        from unbounded.chain import store
        from unbounded.cli import runs

        self.done, self.order = 0, order
        self._whole, self._append = store.write_whole, store.ChainStore._append
        store.write_whole = runs.write_whole = self.whole
        store.ChainStore._append = lambda chain, name, content: self.append(chain, name, content)

    def whole(self, path: Path, content: Callable[[Any], Any]) -> None:
        def half(file: Any) -> None:
            content(file)
            file.truncate(max(1, file.tell() // 2))
            file.flush()
            _die()

        self._at(lambda: self._whole(path, content), lambda: self._whole(path, half))

    def append(self, chain: Any, name: str, content: bytes) -> None:
        half = content[: len(content) // 2]
        self._at(lambda: self._append(chain, name, content), lambda: self._append(chain, name, half))

    def _at(self, write: Callable[[], None], write_half: Callable[[], None]) -> None:
        self.done += 1
        if self.done != self.order.write:
            write()
        elif self.order.moment != BEFORE:
            (write_half if self.order.moment == WITHIN else write)()
        if self.done == self.order.write:
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def nursery() -> None:
    """Imports and compiles all that fits need; every order is a fork."""
    from unbounded.engines import processes

    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        write_pieces(Path(folder))
        for fit in fits_of(Path(folder)).values():
            fit(engine="serial", n_draws=DRAWS, **LENGTH)
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # standard output is for whoever gives orders
            _by_command(Order(COMMAND, "serial", f"{folder}/run"), {})

    def do(*order: Any) -> None:
        processes._SERVED = os.getpid()  # nobody has started a server of workers yet
        child(Order(*order))

    serve(do)


# ---- in the process that watches


def begun(nursery: Nursery, order: Order) -> Session:
    return nursery.start([*order], f"{order.run}.log")


def fresh(order: Order) -> Session:
    """A process of its own; of MPI, several."""
    own = [sys.executable, str(HERE / "soak.py"), "--child", json.dumps(order)]
    if order.engine == "mpi":
        launcher = Path(sys.executable).with_name("mpiexec")
        own = [str(launcher), "-n", "2", sys.executable, "-m", "unbounded.engines.mpi", *own[1:]]
    process = subprocess.Popen(
        own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip

    def end(seconds: float) -> tuple[int, str]:
        words = process.communicate(timeout=seconds)[0]
        return process.returncode, words

    return Session(process.pid, end)


def workers_of(pid: int) -> list[int]:
    """Descendants that do the work: forks of the server, actors, ranks."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = dict(tuple(map(int, line.split())) for line in listed.splitlines())
    below, found = {pid}, True
    while found:
        found = {child for child, parent in parents.items() if parent in below} - below
        below |= found
    return sorted(below - {pid})


@dataclass
class Trial:
    """What happened."""

    model: str
    engine: str
    fault: str
    rng: random.Random = field(repr=False)
    draws: tuple[int, ...] = (DRAWS,)  # those of a fit, and then of what extends it
    write: int = 0  # the first session is killed at this one, and no other session is
    moment: int = BEFORE
    kills: int = 0
    verdict: str = "same"
    words: str = ""
    messages: list[str] = field(default_factory=list, repr=False)  # what sessions said that were killed
    family: list[int] = field(default_factory=list, repr=False)  # descendants of the session when it was disturbed


class Usual:
    """How a fit goes that nobody disturbs: its digest, its number of writes, and the time that it takes."""

    def __init__(self, nursery: Nursery, model: str):
        self.seconds: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            write_pieces(Path(folder))
            order, began = Order(model, "serial", str(Path(folder) / "run")), time.monotonic()
            status, words = begun(nursery, order).end(PATIENCE)
            if status:
                raise SystemExit(f"a fit that nobody disturbs fails: {words}")
            self.seconds["serial"] = time.monotonic() - began
            self.digest = _digest_file(order).read_text()
            self.writes = int(Path(f"{order.run}.writes").read_text())


def attempt(trial: Trial, usual: Usual, nursery: Nursery) -> None:
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as folder:
        write_pieces(Path(folder))
        goals = list(trial.draws)
        for number in range(SESSIONS + len(goals)):
            more = not trial.write and number < SESSIONS and trial.rng.random() < 0.6
            began, kills = time.monotonic(), trial.kills
            order = Order(trial.model, trial.engine, f"{folder}/run", goals[0])
            _session(trial, order, usual, nursery, disturbed=number == 0 or more)
            if trial.verdict == "hung":
                return
            if _digest_file(order).exists():
                if number == 0 and trial.kills == kills:
                    usual.seconds[trial.engine] = time.monotonic() - began
                if len(goals) == 1:
                    trial.verdict = "same" if _digest_file(order).read_text() == usual.digest else "different"
                    return
                del goals[0]
            elif "Traceback" in trial.words and not _expected(trial):
                break
        trial.verdict = "lost"


def _session(trial: Trial, order: Order, usual: Usual, nursery: Nursery, disturbed: bool) -> None:
    """One process, to its end: its own, or the one that it is given."""
    write, moment = trial.write if not trial.kills else 0, trial.moment
    if disturbed and trial.fault == "write" and not trial.write:
        write, moment = trial.rng.randint(1, usual.writes), trial.rng.randrange(3)
    order = order._replace(write=write, moment=moment)
    session = fresh(order) if trial.engine in SLOW else begun(nursery, order)
    length = usual.seconds.get(trial.engine, 8.0 if trial.engine in SLOW else 2.0)
    ended = threading.Event()
    disturber = threading.Thread(target=_disturb, args=(session, trial, length, ended))
    kills = trial.kills
    if disturbed and not write:
        disturber.start()
    try:
        status, trial.words = session.end(PATIENCE)
    except (subprocess.TimeoutExpired, queue.Empty):
        trial.verdict = "hung"
        os.killpg(session.pid, signal.SIGKILL)
        status, trial.words = session.end(PATIENCE)
    ended.set()
    if disturber.ident is not None:
        disturber.join()
    died = status != 0 if trial.engine == "mpi" else status == -signal.SIGKILL  # a launcher has a status of its own
    trial.kills += bool(write) and died
    if trial.kills > kills:
        trial.messages.append(_last(trial.words))
    _bury(session, trial)


def _bury(session: Session, trial: Trial) -> None:
    """Workers whose driver is gone. Ranks are in groups of their own, and may write on when their launcher is dead."""
    with suppress(ProcessLookupError):
        os.killpg(session.pid, signal.SIGKILL)
    for pid in trial.family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(Path(f"/proc/{pid}/fd/0").exists() for pid in trial.family):
        time.sleep(0.05)
    trial.family = []


def _disturb(session: Session, trial: Trial, length: float, ended: threading.Event) -> None:
    """At a random moment of what a session usually takes, unless it ends before; of workers, perhaps at several."""
    times = trial.rng.randint(2, DEATHS) if trial.fault == "workers" else 1
    for _ in range(times):
        if ended.wait(length * trial.rng.random() / times):
            return
        with suppress(ProcessLookupError):
            workers = workers_of(session.pid)
            trial.family = sorted({*trial.family, *workers})
            if trial.fault in OF_WORKERS and workers:
                os.kill(trial.rng.choice(workers), signal.SIGKILL)
                trial.kills += 1
            if trial.fault not in ("worker", "workers"):
                os.kill(session.pid, SIGNALS.get(trial.fault, signal.SIGKILL))
                trial.kills += 1


def _last(words: str) -> str:
    """The last line, without what is another one each time."""
    lines = [line.strip() for line in words.splitlines() if line.strip()] or ["nothing"]
    return re.sub(r"/\S+|\d+", "...", lines[-1])[:100]


def _expected(trial: Trial) -> bool:
    """A job whose rank or driver was killed says so at length; a stop before the first draw is a KeyboardInterrupt."""
    usual = ("stopped before the first draw", "node timed out during startup")  # the latter: Ray, on a busy machine
    return trial.engine == "mpi" or any(words in trial.words for words in usual) or trial.fault == "both"


# ---- all of them


def at_random(models: list[str], seed: int, engines: list[str] | None = None) -> Iterator[Trial]:
    for number in count():
        rng = random.Random(f"{seed} {number}")
        usual = SLOW if rng.random() < 0.1 else QUICK
        trial = Trial(rng.choice(models), rng.choice(engines or usual), "", rng)
        if trial.model == COMMAND and trial.engine in SLOW:
            trial.model = SOURCE  # its ranks and actors are those of any fit
        own = [fault for fault in FAULTS if trial.engine in HAVE_WORKERS or fault not in OF_WORKERS]
        trial.fault, trial.draws = rng.choice(own), (FEWER, DRAWS) if rng.random() < 1 / 3 else (DRAWS,)
        yield trial


def at_every_write(usual: dict[str, Usual], seed: int) -> Iterator[Trial]:
    """In random order: who has not the time for all of them sees some of each model."""
    every = [
        (model, write, moment)
        for model, own in usual.items()
        for write in range(1, own.writes + 1)
        for moment in (BEFORE, WITHIN, AFTER)
    ]
    for model, write, moment in random.Random(seed).sample(every, len(every)):
        yield Trial(model, "serial", "write", random.Random(0), (DRAWS,), write, moment)


def soak(options: argparse.Namespace) -> list[Trial]:
    nurseries = [Nursery(str(HERE / "soak.py"), "--nursery") for _ in range(options.j)]
    usual = {model: Usual(nurseries[0], model) for model in options.models or [*fits_of(HERE), COMMAND]}
    anything = at_random(list(usual), options.seed, options.engines)
    coming = at_every_write(usual, options.seed) if options.every_write else anything
    print(", ".join(f"{model}: {own.writes} writes" for model, own in usual.items()), flush=True)
    done: list[Trial] = []
    ends, one = time.monotonic() + 3600 * options.hours, threading.Lock()

    def go_on(nursery: Nursery) -> None:
        while time.monotonic() < ends and sum(trial.kills for trial in done) < options.kills:
            with one:
                trial = next(coming, None)
            if trial is None:
                break
            attempt(trial, usual[trial.model], nursery)
            done.append(trial)
            if trial.verdict != "same":
                print(trial, flush=True)
            if len(done) % 100 == 0:
                print(f"{len(done)} trials, {sum(each.kills for each in done)} kills", flush=True)
        nursery.close()

    with ThreadPoolExecutor(options.j) as pool:
        for each in [pool.submit(go_on, nursery) for nursery in nurseries]:
            each.result()
    return done


def table(trials: list[Trial]) -> int:
    names = ("tries", "kills", *VERDICTS)
    print(f"{'engine':10s} {'fault':8s} " + " ".join(f"{name:>9s}" for name in names) + "  says, mostly")
    for engine, fault in sorted({(trial.engine, trial.fault) for trial in trials}):
        here = [trial for trial in trials if (trial.engine, trial.fault) == (engine, fault)]
        seen = Counter(trial.verdict for trial in here)
        kills = sum(trial.kills for trial in here)
        numbers = (len(here), kills, *(seen[verdict] for verdict in VERDICTS))
        said = Counter(message for trial in here for message in trial.messages).most_common(1)
        words = said[0][0] if said else ""
        print(f"{engine:10s} {fault:8s} " + " ".join(f"{number:9d}" for number in numbers) + f"  {words}")
    _by_fault(trials)
    bad = sum(trial.verdict != "same" for trial in trials)
    models = Counter(trial.model for trial in trials)
    print(", ".join(f"{model} {tries}" for model, tries in models.items()))
    print(f"{len(trials)} trials, {sum(trial.kills for trial in trials)} kills, {bad} not as they should be")
    return min(bad, 255)


def _by_fault(trials: list[Trial]) -> None:
    """What tests/README.md explains."""
    names = ("fault", "tries", "extended", "kills", "lost", "different bits", "hangs")
    print("\n" + " ".join(f"{name:>9s}" for name in names))
    for fault in [*FAULTS, "all"]:
        here = [trial for trial in trials if fault in (trial.fault, "all")]
        seen = Counter(trial.verdict for trial in here)
        extended, kills = sum(len(trial.draws) > 1 for trial in here), sum(trial.kills for trial in here)
        cells = (fault, len(here), extended, kills, seen["lost"], seen["different"], seen["hung"])
        print(" ".join(f"{cell:>{max(9, len(name))}}" for name, cell in zip(names, cells, strict=True)))
    print()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--nursery", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--every-write", action="store_true", help="serial fits, killed at each of their writes")
    parser.add_argument("--engines", nargs="+", choices=sorted({*QUICK, *SLOW}), help="these alone, all as often")
    parser.add_argument("--models", nargs="+", choices=[*fits_of(HERE), COMMAND], help="these alone")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--kills", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-j", type=int, default=2, help="trials at once")
    options = parser.parse_args()
    if options.child:
        child(Order(*json.loads(options.child)))
        return 0
    if options.nursery:
        nursery()
        return 0
    return table(soak(options))


if __name__ == "__main__":
    sys.exit(main())
