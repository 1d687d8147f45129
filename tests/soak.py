"""Kill drivers and workers of small fits for hours, go on with what they left, and compare bits.

    python tests/soak.py --hours 1 [--seed 0] [-j 2]

Every trial is a fit of one model on one engine into a run directory, in a process of its own that is killed: at a
random moment, or at a write (before, within, or right after it). What is left is resumed, and perhaps killed again,
until it is done. The result must be, bit for bit, that of a fit that nobody disturbed. A trial that takes too long
hangs; one that ends with a message other than that of a stop has lost something. MPI ranks and Ray actors start slowly,
and so they come in one trial of twenty each.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SESSIONS, PATIENCE = 6, 180.0  # of a trial: how often it is killed at most; seconds in which one of them must end
VERDICTS = ("same", "different", "lost", "hung")
FAULTS = ("driver", "term", "write", "worker", "both")
QUICK, SLOW, HAVE_WORKERS = ("serial", "threads", "processes", "processes"), ("ray", "mpi"), ("processes", "ray", "mpi")
LENGTH = {"n_warmup": 6, "n_draws": 24, "checkpoint_seconds": 0.0}


# ---- in the process that is killed


def child(model: str, engine: str, run: Path, writes: int) -> None:
    """The fit; killed by itself within its so-many-th write, if that is not 0."""
    sys.path.insert(0, str(HERE / "engines"))
    from fits import FITS, everything

    if writes:
        _die_at_a_write(writes)
    if engine == "ray":
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    workers = {} if engine in ("serial", "mpi") else {"n_workers": 2}
    fitted = FITS[model](engine=engine, checkpoint=run, **workers, **LENGTH)
    if not fitted.interrupted_:
        (run / "digest").write_text(digest_of(*everything(fitted)))


def digest_of(scalars: dict[str, bytes], snapshots: list[dict[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for part in (scalars, *snapshots):
        for name in sorted(part):
            digest.update(name.encode() + b"\0" + part[name])
    return digest.hexdigest()


def _die_at_a_write(number: int) -> None:
    """Before the file is opened, after half of it was written, or after it has its name: by turns."""
    from unbounded.chain import store

    write, done = store.write_whole, 0

    def counted(path: Path, content: Any) -> None:
        nonlocal done
        done += 1
        if done < number:
            return write(path, content)
        if number % 3 == 0:
            _die()
        if number % 3 == 1:
            write(path, lambda file: (content(file), file.truncate(max(1, file.tell() // 2)), file.flush(), _die()))
        write(path, content)
        _die()

    store.write_whole = counted


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# ---- in the process that watches


@dataclass
class Trial:
    """What happened."""

    model: str
    engine: str
    fault: str
    kills: int = 0
    verdict: str = "same"
    words: str = ""


def command(model: str, engine: str, run: Path, writes: int) -> list[str]:
    own = [str(HERE / "soak.py"), "--child", model, engine, str(run), str(writes)]
    if engine == "mpi":
        launcher = Path(sys.executable).with_name("mpiexec")
        return [str(launcher), "-n", "2", sys.executable, "-m", "unbounded.engines.mpi", *own]
    return [sys.executable, *own]


def workers_of(pid: int) -> list[int]:
    """Descendants that do the work: forks of the server, actors, ranks."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = dict(tuple(map(int, line.split())) for line in listed.splitlines())
    below, found = {pid}, True
    while found:
        found = {child for child, parent in parents.items() if parent in below} - below
        below |= found
    return sorted(below - {pid})


def session(trial: Trial, run: Path, rng: random.Random, usual: float, disturbed: bool) -> subprocess.Popen[str]:
    """One process, to its end: its own, or the one that it is given."""
    writes = rng.randint(1, 120) if disturbed and trial.fault == "write" else 0
    process = subprocess.Popen(
        command(trial.model, trial.engine, run, writes), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    if disturbed and not writes:
        threading.Timer(usual * rng.random(), _disturb, (process, trial, rng)).start()
    try:
        trial.words = process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        trial.verdict = "hung"
        os.killpg(process.pid, signal.SIGKILL)
        trial.words = process.communicate()[0]
    trial.kills += bool(writes) and process.returncode == -signal.SIGKILL
    return process


def _disturb(process: subprocess.Popen[str], trial: Trial, rng: random.Random) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        if trial.fault in ("worker", "both") and (workers := workers_of(process.pid)):
            os.kill(rng.choice(workers), signal.SIGKILL)
            trial.kills += 1
        if trial.fault != "worker":
            os.kill(process.pid, signal.SIGTERM if trial.fault == "term" else signal.SIGKILL)
            trial.kills += 1


def attempt(trial: Trial, rng: random.Random, truth: str, usual: float) -> Trial:
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as folder:
        run = Path(folder) / "run"
        for number in range(SESSIONS + 1):
            disturbed = number == 0 or (number < SESSIONS and rng.random() < 0.6)
            process = session(trial, run, rng, usual, disturbed)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # workers whose driver is gone
            if trial.verdict == "hung":
                return trial
            if (run / "digest").exists():
                trial.verdict = "same" if (run / "digest").read_text() == truth else "different"
                return trial
            if "Traceback" in trial.words and not _expected(trial):
                break
        trial.verdict = "lost"
        return trial


def _expected(trial: Trial) -> bool:
    """A job whose rank or driver was killed says so at length; a stop before the first draw is a KeyboardInterrupt."""
    usual = ("interrupted before the first draw", "node timed out during startup")  # the latter: Ray, on a busy machine
    return trial.engine == "mpi" or any(words in trial.words for words in usual) or trial.fault == "both"


def undisturbed(model: str) -> tuple[str, float]:
    """The digest, and how long the fit takes."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        run, began = Path(folder) / "run", time.monotonic()
        subprocess.run(command(model, "serial", run, 0), check=True, capture_output=True)
        return (run / "digest").read_text(), time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--kills", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-j", type=int, default=2, help="trials at once")
    options = parser.parse_args()
    if options.child:
        model, engine, run, writes = options.child
        child(model, engine, Path(run), int(writes))
        return 0
    sys.path.insert(0, str(HERE / "engines"))
    from fits import FITS

    for model in FITS:
        undisturbed(model)  # compiles
    truths = {model: undisturbed(model) for model in FITS}
    trials: list[Trial] = []
    ends, numbers = time.monotonic() + 3600 * options.hours, count()

    def go_on() -> None:
        while time.monotonic() < ends and sum(trial.kills for trial in trials) < options.kills:
            rng = random.Random(f"{options.seed} {next(numbers)}")
            trial = Trial(rng.choice(list(FITS)), rng.choice(SLOW if rng.random() < 0.1 else QUICK), "")
            trial.fault = rng.choice(FAULTS if trial.engine in HAVE_WORKERS else FAULTS[:3])
            truth, usual = truths[trial.model]
            trials.append(attempt(trial, rng, truth, usual * (4 if trial.engine in SLOW else 1)))
            if trial.verdict != "same":
                print(trial, flush=True)

    with ThreadPoolExecutor(options.j) as pool:
        for each in [pool.submit(go_on) for _ in range(options.j)]:
            each.result()
    return table(trials)


def table(trials: list[Trial]) -> int:
    print(f"{'engine':10s} {'fault':8s} " + " ".join(f"{name:>9s}" for name in ("tries", "kills", *VERDICTS)))
    for engine, fault in sorted({(trial.engine, trial.fault) for trial in trials}):
        here = [trial for trial in trials if (trial.engine, trial.fault) == (engine, fault)]
        seen = Counter(trial.verdict for trial in here)
        kills = sum(trial.kills for trial in here)
        numbers = (len(here), kills, *(seen[verdict] for verdict in VERDICTS))
        print(f"{engine:10s} {fault:8s} " + " ".join(f"{number:9d}" for number in numbers))
    bad = sum(trial.verdict != "same" for trial in trials)
    print(f"{len(trials)} trials, {sum(trial.kills for trial in trials)} kills, {bad} not as they should be")
    return min(bad, 255)


if __name__ == "__main__":
    sys.exit(main())
