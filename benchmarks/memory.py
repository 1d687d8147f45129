"""How much memory this process holds while something runs: anonymous and shared pages, not those of files."""

from __future__ import annotations

import threading
from typing import Self


def held() -> float:
    """Megabytes now. Pages of files are not among it: they are the system's cache, which drops them at need."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem")) / 1024


class Watched:
    """The most of it, looked at every few milliseconds, and what it was before."""

    def __enter__(self) -> Self:
        self.before = self.peak = held()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.005):
            self.peak = max(self.peak, held())

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
