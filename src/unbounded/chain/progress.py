"""A progress bar that says what people wait for: rounds, atoms, held-out score, rows per second, time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[[int, dict[str, float]], None]


@contextmanager
def show_progress(wanted: bool, n_rounds: int, n_rows: int) -> Iterator[Report | None]:
    if not wanted:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[Any] = [
        TextColumn("round"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
    ]  # fmt: skip
    with Progress(*columns) as bar:
        task = bar.add_task("starting", total=n_rounds)
        began, first = time.monotonic(), [-1]

        def report(round_: int, scalars: dict[str, float]) -> None:
            if first[0] < 0:
                first[0] = round_ - 1
            speed = (round_ - first[0]) * n_rows / max(time.monotonic() - began, 1e-9)
            bar.update(task, completed=round_, description=describe(scalars, speed))

        yield report


def describe(scalars: dict[str, float], rows_per_second: float) -> str:
    words = [f"{scalars[f'n_{atoms}']:.0f} {atoms}" for atoms in ("clusters", "features") if f"n_{atoms}" in scalars]
    if "holdout" in scalars:
        words.append(f"held-out {scalars['holdout']:.3f}")
    return ", ".join([*words, f"{rows_per_second:,.0f} rows/s"])
