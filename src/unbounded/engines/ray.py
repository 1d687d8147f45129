"""Workers as Ray actors, on this machine or on a cluster.

A message is put into the object store once: every node fetches the part for everybody once, and of the workers' own
parts only those of its actors. What actors add up goes from actor to actor: the driver passes references on, and Ray
the objects, straight from one machine to another (below 100 kB it sends them with the answer). The driver owns all of
it and keeps what a new actor would have to repeat, so that no node but the driver's is needed. Ray tells of dead actors
and nodes, but not of an actor that hangs: while the driver waits, it asks actors for a sign of life, and one that gives
none for a while counts as dead.

A Ray that is started here is private: its servers listen to this machine alone, and ask for its token
where this version of Ray has one.
"""

from __future__ import annotations

import os
import pickle
import sys
import textwrap
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, NamedTuple

from unbounded.contracts import Recipe
from unbounded.engines.local import available_cores
from unbounded.engines.recovery import EngineError, Lost, Remote
from unbounded.engines.worker import Add, Answer, Failure, Order, Worker, adopt_environment, failure

try:
    import ray
    from ray._private import ray_constants
    from ray.exceptions import RayError
except ImportError as error:
    raise ImportError("engine='ray' needs Ray: pip install 'unbounded[ray]'.") from error

LOOK = 1.0  # seconds between two checks of actors that have not answered
PATIENCE = 30.0  # seconds until a warning that an actor has not started
CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # where it is off, Ray takes this machine's loopback address
INHERITED = ("NUMBA_CACHE_DIR",)  # by actors from the driver, wherever Ray was started


class Ray(Remote):
    """Blocks of shards on actors of one CPU each.

    address: of a cluster, "auto" on one of its machines; None: RAY_ADDRESS, or else Ray starts on this machine. Where
    ray.init has been called already, that Ray is used. timeout: seconds in which an actor must find a free CPU and
    start. silence: seconds without a sign of life after which an actor counts as dead.
    """

    options: ClassVar[tuple[str, ...]] = ("address", "timeout", "silence")

    def __init__(
        self,
        recipe: Recipe,
        n_workers: int | None = None,
        address: str | None = None,
        timeout: float = 600.0,
        silence: float = 60.0,
    ):
        for name, seconds in {"timeout": timeout, "silence": silence}.items():
            if not seconds > 0.0:
                raise ValueError(f"{name} must be positive, got {seconds}.")
        started_here = _connect(address or os.environ.get("RAY_ADDRESS", "local"), n_workers)
        crew = _Crew(timeout, silence, started_here)
        n_workers = min(recipe.n_shards, n_workers or max(1, int(ray.cluster_resources().get("CPU", 1))))
        super().__init__(crew, recipe, n_workers)


class _Packet(NamedTuple):
    """References to objects in the store, which keep them there."""

    order: Any
    own: list[Any]
    leaving: Sequence[int]
    size: int


class _Member:
    """An actor, and the order that it has not answered yet."""

    def __init__(self, kind: Any):
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self.actor, self.began, self.warned = kind.remote(inherited), time.monotonic(), False
        self.ready = self.actor.__ray_ready__.remote()
        self.answer: Any = None
        self.leaving: list[Any] = []  # nodes that come with it
        self.beat: Any = None  # the last sign of life that was asked for
        self.asked = 0.0  # when that was

    def ask(self, method: str, leaving: int, *references: Any) -> None:
        """Ray has to know how many objects an answer consists of."""
        call = getattr(self.actor, method).options(num_returns=1 + leaving)
        answer = call.remote(leaving, *references)
        self.answer, *self.leaving = answer if leaving else [answer]

    def silent(self) -> float:
        """Seconds since a sign of life was requested, if it has not arrived."""
        if self.beat is None or ray.wait([self.beat], timeout=0)[0]:
            self.beat, self.asked = self.actor.beat.remote(), time.monotonic()
        return time.monotonic() - self.asked


class _Crew:
    def __init__(self, timeout: float, silence: float, started_here: bool):
        self._kind = ray.remote(num_cpus=1, max_restarts=0, concurrency_groups={"beats": 1})(_Actor)
        self._timeout, self._silence = timeout, silence
        self._members: dict[int, _Member] = {}
        self.close = weakref.finalize(self, _end_all, self._members, started_here)

    def start(self, w: int) -> None:
        if w in self._members:
            ray.kill(self._members[w].actor)
        self._members[w] = _Member(self._kind)

    def pack(self, order: Order, own: Sequence[Any], leaving: Sequence[int]) -> _Packet:
        sealed = [_seal(thing) for thing in (order, *own)]
        first, *rest = map(ray.put, sealed)
        return _Packet(first, rest, leaving, sum(memoryview(chunk).nbytes for chunks in sealed for chunk in chunks))

    def send(self, w: int, packet: Any) -> None:
        self._members[w].ask("handle", packet.leaving[w], packet.order, packet.own[w])

    def forward(self, w: int, node: Any, leaving: int) -> None:
        self._members[w].ask("add", leaving, node)

    def receive(self) -> tuple[int, Any]:
        while True:
            asked = {member.answer: w for w, member in self._members.items() if member.answer is not None}
            done, _ = ray.wait(list(asked), timeout=LOOK)
            if done:
                w = asked[done[0]]
                self._members[w].answer = None
                return w, _answer(done[0], self._members[w].leaving)
            for w in asked.values():
                member = self._members[w]
                if not ray.wait([member.ready], timeout=0)[0]:
                    self._check_start(w)
                elif (silent := member.silent()) > self._silence:
                    member.answer = None
                    return w, Lost(f"no sign of life for {silent:.0f} seconds")

    def _check_start(self, w: int) -> None:
        """Ray waits for a free CPU without a word, and forever: a dead node may come back, but users should know."""
        member, waited = self._members[w], time.monotonic() - self._members[w].began
        limit = self._timeout if member.warned else min(PATIENCE, self._timeout)
        if waited < limit:
            return
        free, every = (resources().get("CPU", 0.0) for resources in (ray.available_resources, ray.cluster_resources))
        words = f"worker {w} has not started for {waited:.0f} seconds: {free:g} of {every:g} CPUs of Ray are free"
        if waited >= self._timeout:
            raise EngineError(words + ". It needs one: add nodes, ask for fewer workers, or raise `timeout`.")
        warnings.warn(words + ". It goes on waiting for one.", stacklevel=2)
        member.warned = True


class _Actor:
    """A worker that Ray can reach."""

    def __init__(self, environment: dict[str, str]) -> None:
        adopt_environment(environment)
        self._worker = Worker()

    def handle(self, leaving: int, order: list[Any], own: list[Any]) -> Any:
        return self._answer(leaving, lambda: (_open(order), _open(own)))

    def add(self, leaving: int, node: list[Any]) -> Any:
        return self._answer(leaving, lambda: _open(node))

    def _answer(self, leaving: int, ask: Callable[[], tuple[Order, Any]]) -> Any:
        try:
            value, nodes = self._worker.handle(*ask())
            answer = [_seal((value, list(nodes))), *(_seal((Add(node), nodes[node])) for node in nodes)]
        except Exception as error:
            answer = [_seal(failure(error))] + [[]] * leaving
        return answer if leaving else answer[0]

    @ray.method(concurrency_group="beats")
    def beat(self) -> None:
        """A sign of life, also in the middle of an order."""


def _seal(thing: Any) -> list[Any]:
    """A pickle and the buffers of its arrays, which Ray writes into the store as they are."""
    buffers: list[pickle.PickleBuffer] = []
    body = ray.cloudpickle.dumps(thing, 5, buffer_callback=buffers.append)
    return [body, *(pickle.PickleBuffer(buffer.raw()) for buffer in buffers)]


def _open(sealed: list[Any]) -> Any:
    """With copies of the buffers: the store is read-only, and for such arrays every kernel would be compiled anew."""
    body, *buffers = sealed
    return pickle.loads(body, buffers=[bytearray(buffer) for buffer in buffers])


def _answer(reference: Any, leaving: list[Any]) -> Any:
    """An answer, or Lost where it went down with its machine. Nodes of the tree stay references."""
    try:
        content = _open(ray.get(reference))
    except RayError as error:
        return Lost(textwrap.shorten(str(error), 300))
    if isinstance(content, Failure):
        return content
    value, nodes = content
    return Answer(value, dict(zip(nodes, leaving, strict=True)))


def _connect(address: str, n_workers: int | None) -> bool:
    """Connect to Ray, or start it. Returns whether it is to be shut down in the end."""
    if ray.is_initialized():
        return False
    local = {"num_cpus": max(available_cores(), n_workers or 1), "include_dashboard": False}
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with _on_loopback() if address == "local" else nullcontext(), _environment(**settings):
        try:
            ray.init(address, log_to_driver=False, logging_level="error", **local if address == "local" else {})
        except ConnectionError as error:
            raise EngineError(f"there is no Ray cluster at {address!r}: {error}") from error
    return True


def _end_all(members: dict[int, _Member], started_here: bool) -> None:
    if ray.is_initialized():  # else the actors have ended with it
        for member in members.values():
            ray.kill(member.actor)
        if started_here:
            ray.shutdown()


@contextmanager
def _on_loopback() -> Iterator[None]:
    """A Ray that starts now takes the loopback address, and its servers listen to no other."""
    before = ray_constants.ENABLE_RAY_CLUSTER  # what the variable said when Ray was imported
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        with _environment(**{CLUSTERS: "0"}):
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Environment variables for a while: those that a Ray which starts now passes on to its actors."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
            os.environ.update({name: before[name]} if name in before else {})
