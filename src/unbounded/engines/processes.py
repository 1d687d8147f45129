"""Workers as processes of one machine: isolated from each other and from the driver.

Every message is a parcel (parcels.py) whose descriptor travels through a socket: the data once, the finite part of a
round once for all workers. Nodes of the tree lie in the parcel of an answer; the driver passes its descriptor on, and
the next worker opens it. Nothing has a name, and no process waits for a dead one: a worker that loses its driver ends,
and the driver learns at once of a worker that ends, and soon of one that gives no sign of life.

Workers are forks of a server, a process that has imported what all of them need (server.py), and has done nothing else:
a worker starts in the time of a fork, in the place of a dead one, too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any, ClassVar

from unbounded.contracts import Recipe
from unbounded.engines import parcels
from unbounded.engines.local import available_cores
from unbounded.engines.recovery import EngineError, Lost, Remote
from unbounded.engines.worker import Add, Answer, Failure, Order, Worker, adopt_environment, failure

BEAT = 1.0  # seconds between signs of life
STARTING = 60.0  # more seconds until the first one: a new process imports the package, and the script
CLOSING = 2.0
DYING = (0.01, 0.1, 0.5, 2.0)  # seconds to wait for the end of a server that no longer forks workers
_HEAD = struct.Struct("<I")  # of what the driver sends: the number of the thing in the parcel; 0: an order
_SERVED = os.getpid()  # the process that has a server; one that was forked from it has none


class Processes(Remote):
    """Blocks of shards on processes. timeout: seconds without a sign of life after which a worker counts as dead."""

    options: ClassVar[tuple[str, ...]] = ("timeout",)

    def __init__(self, recipe: Recipe, n_workers: int | None = None, timeout: float = 60.0):
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise EngineError(
                "engine='processes' starts new Python processes, which run this script once more as they start: "
                "put its work under `if __name__ == '__main__':`."
            )
        if not hasattr(socket, "send_fds"):
            raise EngineError("engine='processes' passes open files between processes, which this system cannot do.")
        if not timeout > BEAT:
            raise ValueError(f"timeout must be more than {BEAT:g} seconds, got {timeout}.")
        n_workers = min(recipe.n_shards, n_workers or available_cores())
        super().__init__(_Crew(n_workers, timeout), recipe, n_workers)


class _Member:
    """A process, and the driver's end of its socket."""

    def __init__(self, w: int):
        own_end, its_end = socket.socketpair()
        context: Any = multiprocessing.get_context("forkserver" if os.getpid() == _SERVED else "spawn")
        context.set_forkserver_preload(["unbounded.engines.server"])
        self.socket, self.silent, self.started = own_end, 0.0, False
        self.process = context.Process(
            target=_serve, args=(w, its_end, dict(os.environ)), daemon=True, name=f"unbounded-{w}"
        )
        with its_end, _no_interrupts():
            for pause in DYING:
                try:
                    self.process.start()
                    return
                except (EOFError, OSError):  # the server is about to die: there will be a new one when it is dead
                    time.sleep(pause)
            self.process.start()

    def end(self, patience: float = 0.0) -> None:
        self.socket.close()
        self.process.join(patience)
        self.process.kill()
        self.process.join()


class _Crew:
    def __init__(self, n_workers: int, timeout: float):
        self._timeout = timeout
        self._members: dict[int, _Member] = {}
        self._inbox: deque[tuple[int, Any]] = deque()
        self.close = weakref.finalize(self, _end_all, self._members)

    def start(self, w: int) -> None:
        if w in self._members:
            self._members[w].end()
        self._members[w] = _Member(w)

    def pack(self, order: Order, own: Sequence[Any], leaving: Sequence[int]) -> parcels.Parcel:
        return parcels.pack(order, *own)

    def send(self, w: int, packet: Any) -> None:
        self._send(w, packet, 0)

    def forward(self, w: int, node: Any, leaving: int) -> None:
        self._send(w, *node)

    def _send(self, w: int, parcel: parcels.Parcel, thing: int) -> None:
        with suppress(OSError):  # the worker has died, which `receive` notices
            socket.send_fds(self._members[w].socket, [_HEAD.pack(thing)], [parcel.fd])

    def receive(self) -> tuple[int, Any]:
        while not self._inbox:
            began = time.monotonic()
            sockets = {member.socket: w for w, member in self._members.items()}
            ready = wait(list(sockets), BEAT)
            waited = min(time.monotonic() - began, BEAT)  # no more, in case the driver was suspended
            for end, w in sockets.items():
                self._listen(w, end in ready, waited)
        return self._inbox.popleft()

    def _listen(self, w: int, ready: bool, waited: float) -> None:
        member = self._members[w]
        if not ready:
            member.silent += waited
            if member.silent > self._timeout + (0.0 if member.started else STARTING):
                self._inbox.append((w, Lost(f"no sign of life for {member.silent:.0f} seconds")))
            return
        member.silent = 0.0
        try:
            data, fds, _, _ = socket.recv_fds(member.socket, 4096, 1)
        except OSError:
            data, fds = b"", []
        if data:
            member.started = True
            self._inbox.extend((w, _opened(parcels.Parcel(fd))) for fd in fds)
            return
        member.process.join(CLOSING)
        code = member.process.exitcode
        if code == 1 and not member.started:
            raise EngineError(
                f"worker {w} could not start, for the reason above. A script must do its work under "
                "`if __name__ == '__main__':`, since a new process runs it once more."
            )
        self._inbox.append((w, Lost(f"exit code {code}")))


def _end_all(members: dict[int, _Member]) -> None:
    for member in members.values():
        member.socket.close()
    for member in members.values():
        member.end(CLOSING)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """A process that starts now ignores Ctrl-C: the driver decides what to do."""
    resource_tracker.ensure_running()  # started later, it would lift the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(w: int, driver: socket.socket, environment: dict[str, str]) -> None:
    """What a worker does until its driver closes the socket."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # in case something else has started the server
    threading.Thread(target=_beat, args=(driver,), daemon=True).start()
    adopt_environment(environment)
    worker = Worker()
    with suppress(ConnectionError):  # the driver has closed its end
        while True:
            data, fds, _, _ = socket.recv_fds(driver, _HEAD.size, 1)
            if not data:
                return
            answer = _answer(worker, parcels.Parcel(fds[0]), w, *_HEAD.unpack(data))
            socket.send_fds(driver, [b"!"], [answer.fd])


def _answer(worker: Worker, parcel: parcels.Parcel, w: int, thing: int) -> parcels.Parcel:
    """thing: the number of a node of the tree in the parcel; 0: the parcel has an order to all workers."""
    try:
        order, own = parcels.unpack(parcel, thing)[0] if thing else parcels.unpack(parcel, 0, 1 + w)
        value, nodes = worker.handle(order, own)
        return parcels.pack((value, list(nodes)), *((Add(node), nodes[node]) for node in nodes))
    except Exception as error:
        return parcels.pack(failure(error))


def _opened(parcel: parcels.Parcel) -> Answer | Failure:
    """An answer, with nodes left in the parcel."""
    (content,) = parcels.unpack(parcel, 0)
    if isinstance(content, Failure):
        return content
    value, nodes = content
    return Answer(value, {node: (parcel, i) for i, node in enumerate(nodes, 1)})


def _beat(driver: socket.socket) -> None:
    """A sign of life now and then, as long as the driver is there."""
    parent = multiprocessing.parent_process()
    with suppress(OSError):
        while parent is None or parent.is_alive():
            driver.sendall(b".")
            time.sleep(BEAT)
    os._exit(1)
