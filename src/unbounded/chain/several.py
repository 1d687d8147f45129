"""Several chains of one fit: one after another or side by side, to a given length or until they agree."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import nullcontext
from functools import partial
from threading import Event, Lock
from time import monotonic

from unbounded.chain import export
from unbounded.chain.convergence import check
from unbounded.chain.progress import Tracker
from unbounded.chain.run import Chain, Length, Observer, no_pause, stop_flag
from unbounded.engines.local import one_blas_thread

FIRST = 250  # draws of each chain before the first check
AUTO, MAX_DRAWS = "auto", 8000
TURN = 0.02  # seconds

RunOne = Callable[[int, Length, Observer], Chain]  # runs the chain with this index to a length


def stages(n_draws: int | str, max_draws: int) -> list[int]:
    """Draws of each chain after which convergence is checked: the number asked for, or (auto) doubling ones."""
    if n_draws != AUTO:
        return [int(n_draws)]
    first = min(FIRST, max_draws)
    return [first << k for k in range((max_draws // first).bit_length())]


def least_limit(count: int) -> int:
    """The least max_draws with which n_draws="auto" may make so many draws."""
    limit = min(count, FIRST)
    while limit < count:
        limit *= 2
    return limit


def agree(chains: Sequence[Chain], n_draws: int) -> bool:
    """Whether the first draws of all chains pass the check; interruptions of the run make no difference to it."""
    return check(export.to_dataset(chains).isel(draw=slice(n_draws))).passed  # mutant: first draws


def complete(chains: Sequence[Chain], n_draws: int | str, max_draws: int) -> bool:
    """Whether a run has all the draws that it was asked for."""
    least = min(len(chain.draws) for chain in chains)
    if n_draws != AUTO:
        return least >= int(n_draws)
    checked = stages(n_draws, max_draws)
    return least >= checked[-1] or any(agree(chains, count) for count in checked if least >= count)


class Turns:
    """Lets one of several threads run at a time: whoever is inside hands on to the one that has waited longest.

    Where rows are few, most of a round is Python, of which only one thread can run anyway: threads that all try spend
    as long again on taking the interpreter from each other.
    """

    def __init__(self) -> None:
        self._guard, self._waiting = Lock(), deque[Lock]()
        self._busy, self._since = False, 0.0

    def __enter__(self) -> None:
        self._take()

    def __exit__(self, *error: object) -> None:
        self._hand_on()

    def offer(self) -> None:
        """Let another one run if this one has for long enough."""
        if self._waiting and monotonic() - self._since > TURN:
            self._hand_on()
            self._take()

    def _take(self) -> None:
        with self._guard:
            mine = Lock() if self._busy else None
            self._busy = True
            if mine is not None:
                mine.acquire()
                self._waiting.append(mine)
        if mine is not None:
            mine.acquire()  # until whoever is inside lets it go
        self._since = monotonic()

    def _hand_on(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._busy = False


def run_all(
    run_one: RunOne, length: Length, n_chains: int, at_once: int, tracker: Tracker | None, turns: Turns | None = None
) -> list[Chain]:
    """Run all chains to a length; there are fewer, or shorter ones, if the user stops them.

    turns: of chains that run side by side, if they are to take turns.
    """
    if at_once == 1:
        return _in_turn(run_one, length, n_chains, tracker)
    limits = one_blas_thread()  # for all chains: the first engine to close would otherwise lift the limit
    try:
        return _side_by_side(run_one, length, n_chains, at_once, tracker, turns)
    finally:
        limits.restore_original_limits()


def _observer(
    tracker: Tracker | None, index: int, stopped: Event | None = None, turns: Turns | None = None
) -> Observer:
    between = turns.offer if turns else no_pause
    if tracker is None:
        return Observer(stopped=stopped, between=between)
    return Observer(partial(tracker.at_round, index), partial(tracker.starting, index), stopped, between)


def _in_turn(run_one: RunOne, length: Length, n_chains: int, tracker: Tracker | None) -> list[Chain]:
    chains: list[Chain] = []
    for index in range(n_chains):
        try:
            chains.append(run_one(index, length, _observer(tracker, index)))
        except KeyboardInterrupt:  # while a chain starts; earlier ones are what there is
            if not chains:
                raise
            break
        if chains[-1].interrupted:
            break
    return chains


def _side_by_side(
    run_one: RunOne, length: Length, n_chains: int, at_once: int, tracker: Tracker | None, turns: Turns | None
) -> list[Chain]:
    with stop_flag() as stopped, ThreadPoolExecutor(at_once, thread_name_prefix="unbounded-chain") as pool:

        def one(index: int) -> Chain:
            with turns or nullcontext():
                return run_one(index, length, _observer(tracker, index, stopped, turns))

        futures = [pool.submit(one, index) for index in range(n_chains)]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:  # where one has failed, or Ctrl-C was pressed twice, the others end after their round
            stopped.set()
        return [future.result() for future in futures]
