"""Workers as MPI ranks: rank 0 drives and holds the first block of shards, the others serve it until it ends.

    mpiexec -n 4 unbounded fit dp data.npy --out run --engine mpi
    mpiexec -n 4 python -m unbounded.engines.mpi script.py arguments

An order travels once, by broadcast; own parts and answers go to and from rank 0, nodes of the tree from rank to rank.
Ranks that wait sleep, so that there may be more of them than cores. When a rank dies, MPI ends the job, and so does
Linux when the launcher on this machine dies: there is nothing to recover here, the run directory is enough.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from unbounded.arrays import Arrays
from unbounded.contracts import BatchStep, Gathered, Message, Recipe, Step
from unbounded.engines import transport
from unbounded.engines.local import Helpers, Node, one_blas_thread, restore, state_of
from unbounded.engines.recovery import EngineError
from unbounded.engines.worker import (
    Add,
    Answer,
    Build,
    Failure,
    Map,
    Order,
    Reduced,
    Run,
    Worker,
    assign_blocks,
    checked,
    failure,
    name_of,
    parts_of,
)

# Memory that ranks of one machine share under MPICH: that of a killed job stays.
SHARED, LEFTOVERS = Path("/dev/shm"), "mpich_sh*"
PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>
FRESH = 60.0  # seconds within which a job maps the memory that it has made

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")  # the number of ranks, from launchers


class _World:
    """All ranks, as this one sees them."""

    def __init__(self) -> None:
        launched = max(int(os.environ.get(name, 1)) for name in _SIZES)
        if launched > 1:
            die_with_the_parent()  # mutant: ranks launcher
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # the latter where there is no MPI library
            raise EngineError(
                f"engine='mpi' needs mpi4py and an MPI library: pip install 'unbounded[mpi]' ({error})."
            ) from None
        self.comm = MPI.COMM_WORLD.Dup()  # apart from messages of the user's script
        self.tree = self.comm.Dup()  # for nodes of the tree
        self.rank, self.size = self.comm.rank, self.comm.size
        self.serving = self.size == 1  # whether all other ranks serve this one
        self.broken = False  # whether an exchange was left halfway
        self.engines = count()
        remove_leftovers()
        if self.size == 1 < launched:
            raise EngineError(
                f"the launcher started {launched} processes that know nothing of each other: it belongs to another MPI "
                "than mpi4py's."
            )

    def ask(self, engine: int, order: Order, own: Sequence[Any], here: Callable[[], Any]) -> list[Any]:
        """The answers of all ranks; here: that of rank 0."""
        packed = transport.pack((engine, order), own)
        with self._whole():
            transport.broadcast(self.comm, engine if isinstance(order, Run) else None, packed)
            answers = {0: here()}
            while len(answers) < self.size:
                rank, answer = transport.receive(self.comm)
                answers[rank] = answer
        return [answers[rank] for rank in range(self.size)]

    def notify(self, thing: Any) -> None:
        """Send something to all ranks, without waiting for answers."""
        with self._whole():
            transport.broadcast(self.comm, None, transport.pack(thing, [None] * self.size))

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """After an exchange that fails halfway there is no other: ranks would no longer agree on what comes next."""
        if self.broken:
            raise EngineError("a step was interrupted, and ranks may still be working on it: this job cannot go on.")
        self.broken = True
        yield
        self.broken = False

    def release(self) -> None:
        """End all other ranks with rank 0; where they may be in the middle of a step, by force."""
        sys.stdout.flush()
        sys.stderr.flush()
        if self.broken:
            self.comm.Abort(1)
        self.notify(None)

    def serve(self) -> None:
        """What every rank but the first does until the end. Ctrl-C is left to rank 0."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        workers: defaultdict[int, Worker] = defaultdict(Worker)
        while True:
            adding, opened = transport.receive_broadcast(self.comm)  # adding: which engine, if the order is a step
            try:
                request, own = opened()
                if request is None:
                    return
                engine, order = request
                if order is None:  # the engine is closed
                    workers.pop(engine, None)
                    continue
                answer: Answer | Failure = workers[engine].handle(order, own)
            except Exception as error:
                answer = failure(error)
            if adding is not None:
                answer = self.add_up(workers[adding], answer)
            transport.finish(transport.send(self.comm, answer, 0))

    def add_up(self, worker: Worker, answer: Answer | Failure) -> Answer | Failure:
        """A rank's answer to a step after it has received and sent its nodes of the tree.

        Where a step has failed, empty nodes are passed on, so that no rank waits forever.
        """
        left, sending = dict(worker.route.leaving), list[Any]()
        latest: Answer | Failure | None = answer
        for coming in range(worker.route.expected, -1, -1):
            nodes = latest.nodes if isinstance(latest, Answer) else dict.fromkeys(left)
            for node, value in nodes.items():
                sending += transport.send(self.tree, (node, value), left.pop(node))
            if coming:
                latest = _add_node(worker, latest, *transport.receive(self.tree)[1])
        transport.finish(sending)
        if isinstance(answer, Answer) and isinstance(latest, Answer):
            return Answer(Reduced(answer.value.private, latest.value.total), {})
        return answer if latest is None else latest


def _add_node(worker: Worker, latest: Answer | Failure | None, node: Node, value: Any) -> Answer | Failure | None:
    """A rank's answer after one more node; None: the node is empty, since another rank has failed."""
    if not isinstance(latest, Answer) or value is None:
        return latest if isinstance(latest, Failure) else None
    try:
        return worker.handle(Add(node), value)
    except Exception as error:
        return failure(error)


def die_with_the_parent() -> None:
    """Ranks whose launcher was killed would wait for each other forever. Only Linux offers this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def remove_leftovers() -> None:
    """Delete shared memory of this user's jobs whose ranks were killed: what no process has mapped any more."""
    old = [path for path in SHARED.glob(LEFTOVERS) if _is_old(path)]
    if old:
        mapped = "".join(map(_mapped_by, Path("/proc").glob("[0-9]*")))
        for path in old:
            if path.name not in mapped:
                path.unlink(missing_ok=True)


def _is_old(path: Path) -> bool:
    with suppress(FileNotFoundError):
        about = path.stat()
        return about.st_uid == os.getuid() and time.time() - about.st_mtime > FRESH
    return False


def _mapped_by(process: Path) -> str:
    """The files that a process has mapped; those of other users cannot be read, and do not map this user's files."""
    with suppress(OSError):
        return (process / "maps").read_text(errors="replace")
    return ""


_world: _World | None = None


def world() -> _World:
    """Made when it is first asked for: MPI starts when mpi4py is imported."""
    global _world
    if _world is None:
        _world = _World()
    return _world


def join() -> bool:
    """All ranks call this first. It returns True to rank 0, at once; the others serve, and return when rank 0 ends."""
    ranks = world()
    if ranks.rank == 0:
        if not ranks.serving:
            ranks.serving = True
            atexit.register(ranks.release)
        return True
    try:
        ranks.serve()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        ranks.comm.Abort(1)
    return False


class Mpi:
    """Blocks of shards on ranks; surplus ranks have none."""

    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, recipe: Recipe, n_workers: int | None = None):
        self._limits = one_blas_thread()
        self._world, self._worker = world(), Worker()
        self._routes = assign_blocks(recipe.n_shards, self._world.size)
        self.parallel = Helpers(self._world.size)
        self._number = next(self._world.engines)
        try:
            self._answers(Build(recipe), self._routes)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def check(n_workers: int | None) -> None:
        size = world().size
        if not world().serving:
            raise EngineError(
                f"engine='mpi' on {size} ranks: start a script by `mpiexec -n {size} python -m unbounded.engines.mpi "
                "script.py`, with its work under `if __name__ == '__main__':`."
            )
        if n_workers not in (None, size):
            raise ValueError(f"n_workers is {n_workers}, but the number of MPI ranks is {size}.")

    def run(self, step: Step | BatchStep, message: Message) -> Gathered:
        answers = self._ask(Run(step, message.shared), message.own)
        return Gathered(answers[0].value.total, [part for answer in answers for part in answer.value.private])

    def map(self, function: Callable[..., Any], own: Sequence[Any] | None = None) -> list[Any]:
        return [value for answer in self._ask(Map(function), own) for value in answer.value]

    def save(self) -> list[Arrays]:
        return self.map(state_of)

    def load(self, parts: Sequence[Arrays]) -> None:
        self.map(restore, parts)

    def close(self) -> None:
        if not self._world.broken:
            self._world.notify((self._number, None))
        self.parallel.close()
        self._limits.restore_original_limits()

    def _ask(self, order: Order, own: Sequence[Any] | None) -> list[Answer]:
        return self._answers(order, parts_of(own, self._routes))

    def _answers(self, order: Order, own: Sequence[Any]) -> list[Answer]:
        answers = self._world.ask(self._number, order, own, lambda: self._answer_here(order, own[0]))
        return checked(name_of(order), answers, self._routes)

    def _answer_here(self, order: Order, own: Any) -> Answer | Failure:
        try:
            answer: Answer | Failure = self._worker.handle(order, own)
        except Exception as error:
            answer = failure(error)
        return self._world.add_up(self._worker, answer) if isinstance(order, Run) else answer


def main() -> None:
    """Rank 0 runs a script."""
    if len(sys.argv) < 2:
        sys.exit("usage: mpiexec -n 4 python -m unbounded.engines.mpi script.py [arguments]")
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    script = _Script(sys.argv[0])
    sys.modules["__main__"] = sys.modules["__mp_main__"] = script
    if join():
        script.read("__main__")


class _Script(ModuleType):
    """On other ranks the script is read when an order refers to one of its names, and not as the main module."""

    def __init__(self, path: str):
        super().__init__("__main__")
        self.__file__ = path

    def read(self, name: str) -> None:
        self.__class__ = ModuleType  # type: ignore[assignment]  # so that it is read once
        self.__name__ = name
        exec(compile(Path(str(self.__file__)).read_bytes(), str(self.__file__), "exec"), vars(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.read("__mp_main__")
        return getattr(self, name)


if __name__ == "__main__":
    from unbounded.engines import mpi

    mpi.main()
