"""Notices when Numba compiles, so that whoever waits can be told what for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from numba.core import event

Compiling = Callable[[bool, int], None]  # (whether something is being compiled, functions compiled so far)


class _Listener(event.Listener):
    """Compilations nest (a kernel and what it calls) and run in several threads: "busy" lasts from the first to the
    last of them, and every finished function is reported."""

    def __init__(self, notify: Compiling) -> None:
        self._notify, self._depth, self._done, self._lock = notify, 0, 0, Lock()

    def on_start(self, event: event.Event) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._notify(True, self._done)

    def on_end(self, event: event.Event) -> None:
        with self._lock:
            self._depth, self._done = self._depth - 1, self._done + 1
            self._notify(self._depth > 0, self._done)


@contextmanager
def watch_compilation(notify: Compiling) -> Iterator[None]:
    """Call notify(True, n) when this process compiles what no cache has, notify(False, n) when that is done."""
    with event.install_listener("numba:compile", _Listener(notify)):
        yield
