"""Workers as MPI ranks: rank 0 drives and holds the first block of shards, the others serve it until it ends.

    mpiexec -n 4 unbounded fit dp data.npy --out run --engine mpi
    mpiexec -n 4 python -m unbounded.engines.mpi script.py arguments

An order travels once, by broadcast; own parts and answers go to and from rank 0, nodes of the tree from rank to rank.
Ranks that wait sleep, so that there may be more of them than cores. When a rank dies, MPI ends the job: there is
nothing to recover here, the run directory is enough.
"""

from __future__ import annotations

import atexit
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
from unbounded.engines import post
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
FRESH = 60.0  # seconds in which a job may not have mapped yet what it has made

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")  # what launchers say


class _World:
    """All ranks, as this one sees them."""

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # the latter where there is no MPI library
            raise EngineError(
                f"engine='mpi' needs mpi4py and an MPI library: pip install 'unbounded[mpi]' ({error})."
            ) from None
        self.comm = MPI.COMM_WORLD.Dup()  # apart from messages of the user's script
        self.tree = self.comm.Dup()  # its messages are for those who add up
        self.rank, self.size = self.comm.rank, self.comm.size
        self.served = self.size == 1
        self.torn = False
        self.engines = count()
        remove_leftovers()
        launched = max(int(os.environ.get(name, 1)) for name in _SIZES)
        if self.size == 1 < launched:
            raise EngineError(
                f"the launcher started {launched} processes that know nothing of each other: it belongs to another MPI "
                "than mpi4py's."
            )

    def ask(self, engine: int, order: Order, own: Sequence[Any], here: Callable[[], Any]) -> list[Any]:
        """The answers of all ranks; here: that of rank 0."""
        packed = post.pack((engine, order), own)
        with self._whole():
            post.broadcast(self.comm, engine if isinstance(order, Run) else None, packed)
            answers = {0: here()}
            while len(answers) < self.size:
                rank, answer = post.receive(self.comm)
                answers[rank] = answer
        return [answers[rank] for rank in range(self.size)]

    def tell(self, thing: Any) -> None:
        """Said to all ranks, without waiting for an answer."""
        with self._whole():
            post.broadcast(self.comm, None, post.pack(thing, [None] * self.size))

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """An exchange that is left halfway is the last one: ranks would not agree on whose turn it is."""
        if self.torn:
            raise EngineError("a step was interrupted, and ranks may still be at it: this job cannot go on.")
        self.torn = True
        yield
        self.torn = False

    def release(self) -> None:
        """Rank 0 ends, one way or another, and with it all others; those in the middle of a step by force."""
        sys.stdout.flush()
        sys.stderr.flush()
        if self.torn:
            self.comm.Abort(1)
        self.tell(None)

    def serve(self) -> None:
        """What every rank but the first does until the end. Ctrl-C is left to rank 0, which decides what to do."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        workers: defaultdict[int, Worker] = defaultdict(Worker)
        while True:
            added, opened = post.attend(self.comm)  # added: by the workers of which engine, if it is a step
            try:
                said, own = opened()
                if said is None:
                    return
                engine, order = said
                if order is None:  # the engine is closed
                    workers.pop(engine, None)
                    continue
                answer: Answer | Failure = workers[engine].handle(order, own)
            except Exception as error:
                answer = failure(error)
            if added is not None:
                answer = self.add_up(workers[added], answer)
            post.finish(post.send(self.comm, answer, 0))

    def add_up(self, worker: Worker, answer: Answer | Failure) -> Answer | Failure:
        """What a rank says of a step after it has received and sent its nodes of the tree.

        Where a step has failed, empty nodes are passed on, so that no rank waits for ever.
        """
        left, sending = dict(worker.route.leaving), list[Any]()
        latest: Answer | Failure | None = answer
        for coming in range(worker.route.expected, -1, -1):
            nodes = latest.nodes if isinstance(latest, Answer) else dict.fromkeys(left)
            for node, value in nodes.items():
                sending += post.send(self.tree, (node, value), left.pop(node))
            if coming:
                latest = _added(worker, latest, *post.receive(self.tree)[1])
        post.finish(sending)
        if isinstance(answer, Answer) and isinstance(latest, Answer):
            return Answer(Reduced(answer.value.private, latest.value.total), {})
        return answer if latest is None else latest


def _added(worker: Worker, latest: Answer | Failure | None, node: Node, value: Any) -> Answer | Failure | None:
    """What a rank says after one more node; None: it has one that is empty, for which another rank is to blame."""
    if not isinstance(latest, Answer) or value is None:
        return latest if isinstance(latest, Failure) else None
    try:
        return worker.handle(Add(node), value)
    except Exception as error:
        return failure(error)


def remove_leftovers() -> None:
    """Memory that jobs of ours have left behind whose ranks were killed: what no process has mapped any more."""
    old = [path for path in SHARED.glob(LEFTOVERS) if _is_old(path)]
    if old:
        mapped = "".join(map(_maps, Path("/proc").glob("[0-9]*")))
        for path in old:
            if path.name not in mapped:
                path.unlink(missing_ok=True)


def _is_old(path: Path) -> bool:
    with suppress(FileNotFoundError):
        about = path.stat()
        return about.st_uid == os.getuid() and time.time() - about.st_mtime > FRESH
    return False


def _maps(process: Path) -> str:
    """What a process has mapped; those of other users are not ours to look at, and do not map our files."""
    with suppress(OSError):
        return (process / "maps").read_text(errors="replace")
    return ""


_world: _World | None = None


def world() -> _World:
    """Made when it is asked for: MPI starts as mpi4py is imported."""
    global _world
    if _world is None:
        _world = _World()
    return _world


def join() -> bool:
    """All ranks come here first. It is true for rank 0, at once; the others serve, and come back when rank 0 ends."""
    us = world()
    if us.rank == 0:
        if not us.served:
            us.served = True
            atexit.register(us.release)
        return True
    try:
        us.serve()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        us.comm.Abort(1)
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
        if not world().served:
            raise EngineError(
                f"engine='mpi' on {size} ranks: start a script by `mpiexec -n {size} python -m unbounded.engines.mpi "
                "script.py`, with what it does under `if __name__ == '__main__':`."
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
        if not self._world.torn:
            self._world.tell((self._number, None))
        self.parallel.close()
        self._limits.restore_original_limits()

    def _ask(self, order: Order, own: Sequence[Any] | None) -> list[Answer]:
        return self._answers(order, parts_of(own, self._routes))

    def _answers(self, order: Order, own: Sequence[Any]) -> list[Answer]:
        answers = self._world.ask(self._number, order, own, lambda: self._here(order, own[0]))
        return checked(name_of(order), answers, self._routes)

    def _here(self, order: Order, own: Any) -> Answer | Failure:
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
    """On other ranks the script is read when an order has a name of it, and is told that it is not the main one."""

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
