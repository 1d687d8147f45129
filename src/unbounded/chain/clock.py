"""Wall time by phase of a run. It never enters a trace or a checkpoint: those are the same on every machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# In the order in which a round meets them; `local` is the sweeps on all shards and the sum of what they report.
PHASES = ("start", "jump", "global", "local", "gather", "score", "record", "checkpoint")


class Clock:
    """Seconds spent in each phase, over all sessions of a chain, and the rounds they were spent on."""

    def __init__(self, seconds: Mapping[str, float] | None = None, rounds: int = 0):
        self.seconds = dict.fromkeys(PHASES, 0.0) | dict(seconds or {})
        self.rounds = rounds

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - began
