"""Running a chain of any model on any engine: warm-up, draws, thinning, snapshots, checkpoints, interruption."""

from __future__ import annotations

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import FrameType

import numpy as np

from unbounded.arrays import Array
from unbounded.chain.progress import AtRound
from unbounded.chain.store import ChainStore, RunError, warn_of_other_versions
from unbounded.contracts import Engine, Model, State, StateT
from unbounded.disk import spill_to_disk
from unbounded.family import Notify, ignore_progress
from unbounded.round import Clock, rounds


@dataclass(frozen=True)
class Length:
    """How long a chain runs, in rounds, and what is kept; draw d is the state after round n_warmup + (d + 1) thin."""

    n_warmup: int
    n_draws: int
    thin: int = 1
    n_snapshots: int = 32
    keep_assignments: bool = False  # of every draw

    @property
    def n_rounds(self) -> int:
        return self.n_warmup + self.n_draws * self.thin

    def draw_at(self, round_: int) -> int | None:
        """Which draw a finished round is, if any."""
        after, rest = divmod(round_ - self.n_warmup, self.thin)
        return after - 1 if rest == 0 and after >= 1 else None  # mutant: draw at

    def is_snapshot(self, draw: int, count: int) -> bool:
        """Whether a draw is kept whole when there are `count` draws.

        They are evenly spaced, at a distance that doubles whenever there would be too many of them. So it does not
        matter how often a run was interrupted or extended, and one that is stopped early has as many as any other.
        """
        distance = 1
        while count // distance > self.n_snapshots:
            distance *= 2
        return (draw + 1) % distance == 0  # mutant: snapshots


@dataclass
class Chain:
    """What a chain has produced so far."""

    exact: bool
    draws: list[dict[str, float]] = field(default_factory=list)
    snapshots: dict[int, dict[str, Array]] = field(default_factory=dict)
    assignments: list[Array] | None = None
    interrupted: bool = False  # the user asked to stop


def has_estimate(n_whole: int, is_complete: bool) -> bool:
    """Whether so many whole draws are enough for point estimates: one is where no more were asked for."""
    return n_whole > 1 or (n_whole == 1 and is_complete)


def no_pause() -> None:
    """What happens between two rounds of a chain that nobody waits for."""


@dataclass(frozen=True)
class Observer:
    """What a chain calls, and looks at, while it runs."""

    at_round: AtRound | None = None
    starting: Notify = ignore_progress  # called with the progress of the first state
    stopped: threading.Event | None = None  # set by whoever wants the chain to stop; None: by Ctrl-C
    between: Callable[[], None] = no_pause  # called between rounds


NULL_OBSERVER = Observer()


def run(
    model: Model[StateT],
    engine: Engine,
    start: Callable[[], StateT],
    length: Length,
    *,
    store: ChainStore | None = None,
    extra: Callable[[StateT], dict[str, float]] | None = None,
    observer: Observer = NULL_OBSERVER,
    checkpoint_seconds: float = 20.0,
) -> Chain:
    """Run (or resume, where the store has a checkpoint) until all draws are made or the user interrupts.

    start: makes the first state; not called when resuming. extra: further scalars of a draw, such as a held-out score.
    """
    chain = Chain(model.exact, assignments=[] if length.keep_assignments else None)
    state = _resume(chain, model, engine, store) if store else None
    clock = Clock() if store is None or state is None else store.clock()
    if state is None:
        with clock.phase("start"):
            state = start()
        _save(store, state, engine, chain, clock)
    saved = shown = time.monotonic()
    with stop_flag() if observer.stopped is None else nullcontext(observer.stopped) as stopped:
        if observer.at_round and observer.at_round(state.round, chain.draws[-1] if chain.draws else {}):
            stopped.set()
        states = rounds(model, engine, state, clock)
        while state.round < length.n_rounds:
            state = next(states)
            draw = length.draw_at(state.round)
            if draw is not None:
                with clock.phase("score"):
                    score = extra(state) if extra else {}
                with clock.phase("record"):
                    _record(chain, model, engine, state, draw, length, store, score)
            if observer.at_round and (state.round == length.n_rounds or time.monotonic() - shown > 0.1):
                if observer.at_round(state.round, chain.draws[-1] if chain.draws else model.scalars(state)):
                    stopped.set()
                shown = time.monotonic()
            chain.interrupted = stopped.is_set()
            due = time.monotonic() - saved > checkpoint_seconds or state.round == length.n_rounds
            if due or chain.interrupted:
                _save(store, state, engine, chain, clock)
                saved = time.monotonic()
            if chain.interrupted:
                break
            observer.between()
    return chain


def _record(
    chain: Chain,
    model: Model[StateT],
    engine: Engine,
    state: StateT,
    draw: int,
    length: Length,
    store: ChainStore | None,
    score: dict[str, float],
) -> None:
    scalars = model.scalars(state) | score
    kept = None if chain.assignments is None else model.assignments(state, engine)
    whole = model.snapshot(state, engine) if length.is_snapshot(draw, draw + 1) else None
    if store:
        if whole is not None:
            store.save_snapshot(draw, whole)
        store.append_draw(draw, scalars, kept)
    chain.draws.append(scalars)
    if chain.assignments is not None and kept is not None:
        chain.assignments.append(spill_to_disk(kept))
    if whole is not None:
        chain.snapshots[draw] = {name: spill_to_disk(value) for name, value in whole.items()}
    for passed in [d for d in chain.snapshots if not length.is_snapshot(d, draw + 1)]:
        del chain.snapshots[passed]
        if store:
            store.drop_snapshot(passed)


def _save(store: ChainStore | None, state: State, engine: Engine, chain: Chain, clock: Clock) -> None:
    if store:
        with clock.phase("checkpoint"):
            store.save_checkpoint(_checkpoint(state, engine, chain))
        store.save_clock(clock)


def _checkpoint(state: State, engine: Engine, chain: Chain) -> dict[str, Array]:
    arrays = {f"state/{name}": value for name, value in state.arrays().items()}
    for p, part in enumerate(engine.save()):
        arrays |= {f"shard{p}/{name}": value for name, value in part.items()}
    return arrays | {"n_draws": np.array(len(chain.draws)), "exact": np.array(chain.exact)}


def _resume(chain: Chain, model: Model[StateT], engine: Engine, store: ChainStore) -> StateT | None:
    """Restore the last complete round, or None where there is none."""
    store.prepare()
    saved = store.checkpoint()
    if saved is None:
        store.rewind(0, model.n_rows)
        return None
    warn_of_other_versions(saved, store.path)
    count = int(saved["n_draws"])
    chain.draws = store.rewind(count, model.n_rows)
    chain.snapshots = store.snapshots()  # mutant: resumed snapshots
    if chain.assignments is not None:
        chain.assignments = store.assignments(model.n_rows, count)
    whole: dict[str, dict[str, Array]] = defaultdict(dict)
    for name, value in saved.items():
        owner, _, what = name.partition("/")
        whole[owner][what] = value
    try:
        engine.load([whole[f"shard{p}"] for p in range(model.n_shards)])
        return model.restore(whole["state"])
    except (KeyError, ValueError) as error:
        raise RunError(f"the checkpoint in {store.path} belongs to another model or data set ({error}).") from error


@contextmanager
def stop_flag() -> Iterator[threading.Event]:
    """Ctrl-C sets a flag that is read between rounds, where the state is whole; a second one interrupts at once.

    So do SIGTERM and SIGHUP, which schedulers send before they kill, unless the program handles them itself.
    """
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()

    signals = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    usual = signal.SIG_DFL, signal.default_int_handler  # the latter: of the command line, for all of them
    free = [each for each in signals if each == signal.SIGINT or signal.getsignal(each) in usual]
    previous = {each: signal.signal(each, stop) for each in free}
    try:
        yield flag
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
