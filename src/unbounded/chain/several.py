"""Several chains of one fit: one after another or side by side, to a given length or until they agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from unbounded.chain import export
from unbounded.chain.convergence import check
from unbounded.chain.progress import Report
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


def run_all(one: One, length: Length, n_chains: int, at_once: int, report: Report | None) -> list[Chain]:
    """All chains to a length; fewer, or shorter ones, if the user stops them."""
    tally = Tally(report, length.n_rounds)
    if at_once == 1:
        return _in_turn(one, length, n_chains, tally)
    limits = one_blas_thread()  # for all of them: the first engine to close would otherwise lift it
    try:
        return _side_by_side(one, length, n_chains, at_once, tally)
    finally:
        limits.restore_original_limits()


class Tally:
    """Rounds of all chains together, for the progress bar."""

    def __init__(self, report: Report | None, n_rounds: int):
        self._report, self._n_rounds = report, n_rounds
        self._done: dict[int, int] = {}

    def of(self, index: int) -> Report | None:
        if self._report is None:
            return None

        def report(done: int, scalars: Mapping[str, float]) -> None:
            self._done[index] = done
            assert self._report is not None
            self._report(sum(self._done.values()), scalars)

        return report

    def finished(self, index: int) -> None:
        self._done[index] = self._n_rounds


def _in_turn(one: One, length: Length, n_chains: int, tally: Tally) -> list[Chain]:
    chains: list[Chain] = []
    for index in range(n_chains):
        try:
            chains.append(one(index, length, Watch(tally.of(index))))
        except KeyboardInterrupt:  # while a chain starts; earlier ones are what there is
            if not chains:
                raise
            break
        if chains[-1].interrupted:
            break
        tally.finished(index)
    return chains


def _side_by_side(one: One, length: Length, n_chains: int, at_once: int, tally: Tally) -> list[Chain]:
    with stop_flag() as stopped, ThreadPoolExecutor(at_once, thread_name_prefix="unbounded-chain") as pool:
        asked = [pool.submit(one, index, length, Watch(tally.of(index), stopped)) for index in range(n_chains)]
        try:
            wait(asked, return_when=FIRST_EXCEPTION)
        finally:  # all are done, one of them failed, or Ctrl-C was pressed twice: then the others end after their round
            stopped.set()
        return [each.result() for each in asked]
