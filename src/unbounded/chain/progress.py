"""A progress bar that says what people wait for: rounds, atoms, held-out score, rows per second, time left.

Before the first round it says "starting", and "compiling" whenever that is what takes the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from unbounded.compiled.watch import watch_compilation

Report = Callable[[int, Mapping[str, float]], None]  # (rounds done, scalars of the last draw)


@contextmanager
def show_progress(wanted: bool, n_rounds: int, n_rows: int, atoms: str) -> Iterator[Report | None]:
    """atoms: what they are called; their number is the scalar n_<atoms>."""
    if not wanted:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[Any] = [
        TextColumn("round"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
    ]  # fmt: skip
    with Progress(*columns) as bar:
        task = bar.add_task("starting", total=n_rounds)
        began, first, said = time.monotonic(), [-1], ["starting"]

        def report(round_: int, scalars: Mapping[str, float]) -> None:
            if first[0] < 0:
                first[0] = round_ - 1
            speed = (round_ - first[0]) * n_rows / max(time.monotonic() - began, 1e-9)
            said[0] = describe(scalars, atoms, speed)
            bar.update(task, completed=round_, description=said[0])

        def compiling(busy: bool) -> None:
            bar.update(task, description="compiling" if busy else said[0])

        with watch_compilation(compiling):
            yield report


def describe(scalars: Mapping[str, float], atoms: str, rows_per_second: float) -> str:
    large = f" ({scalars['above_1%']:.0f} above 1%)" if "above_1%" in scalars else ""
    words = [f"{scalars[f'n_{atoms}']:.0f} {atoms}{large}"]
    if "holdout" in scalars:
        words.append(f"held-out {scalars['holdout']:.3f}")
    return ", ".join([*words, f"{rows_per_second:,.0f} rows/s"])
