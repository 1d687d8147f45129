"""Several chains of one fit: one after another or side by side, to a given length or until they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from threading import Event

from unbounded.chain import export
from unbounded.chain.convergence import check
from unbounded.chain.progress import Teller
from unbounded.chain.run import Chain, Length, Watch, stop_flag
from unbounded.engines.local import one_blas_thread

FIRST = 250  # draws of each chain before the first look
AUTO, MAX_DRAWS = "auto", 8000

One = Callable[[int, Length, Watch], Chain]  # runs a chain, by its index, to a length


def stages(n_draws: int | str, max_draws: int) -> list[int]:
    """Draws of each chain after which the chains are looked at: the number asked for, or twice as many every time."""
    if n_draws != AUTO:
        return [int(n_draws)]
    first = min(FIRST, max_draws)
    return [first << k for k in range((max_draws // first).bit_length())]


def agree(chains: Sequence[Chain], n_draws: int) -> bool:
    """Whether the first draws of all chains pass the check: how a run was cut, or went on, does not matter."""
    return check(export.to_dataset(chains).isel(draw=slice(n_draws))).passed  # mutant: first draws


def complete(chains: Sequence[Chain], n_draws: int | str, max_draws: int) -> bool:
    """Whether a run that was asked for so many draws is at its end."""
    least = min(len(chain.draws) for chain in chains)
    if n_draws != AUTO:
        return least >= int(n_draws)
    looks = stages(n_draws, max_draws)
    return least >= looks[-1] or any(agree(chains, look) for look in looks if least >= look)


def run_all(one: One, length: Length, n_chains: int, at_once: int, teller: Teller | None) -> list[Chain]:
    """All chains to a length; fewer, or shorter ones, if the user stops them."""
    if at_once == 1:
        return _in_turn(one, length, n_chains, teller)
    limits = one_blas_thread()  # for all of them: the first engine to close would otherwise lift it
    try:
        return _side_by_side(one, length, n_chains, at_once, teller)
    finally:
        limits.restore_original_limits()


def _watch(teller: Teller | None, index: int, stopped: Event | None = None) -> Watch:
    if teller is None:
        return Watch(stopped=stopped)
    return Watch(partial(teller.report, index), partial(teller.starting, index), stopped)


def _in_turn(one: One, length: Length, n_chains: int, teller: Teller | None) -> list[Chain]:
    chains: list[Chain] = []
    for index in range(n_chains):
        try:
            chains.append(one(index, length, _watch(teller, index)))
        except KeyboardInterrupt:  # while a chain starts; earlier ones are what there is
            if not chains:
                raise
            break
        if chains[-1].interrupted:
            break
    return chains


def _side_by_side(one: One, length: Length, n_chains: int, at_once: int, teller: Teller | None) -> list[Chain]:
    with stop_flag() as stopped, ThreadPoolExecutor(at_once, thread_name_prefix="unbounded-chain") as pool:
        asked = [pool.submit(one, index, length, _watch(teller, index, stopped)) for index in range(n_chains)]
        try:
            wait(asked, return_when=FIRST_EXCEPTION)
        finally:  # all are done, one of them failed, or Ctrl-C was pressed twice: then the others end after their round
            stopped.set()
        return [each.result() for each in asked]
