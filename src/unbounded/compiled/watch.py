"""Who waits may know whether it is for the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from numba.core import event


class _Listener(event.Listener):
    """Compilations nest (a kernel and what it calls) and run in several threads: the first and the last are told."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell, self._depth, self._lock = tell, 0, Lock()

    def on_start(self, event: event.Event) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._tell(True)

    def on_end(self, event: event.Event) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._tell(False)


@contextmanager
def watch_compilation(tell: Callable[[bool], None]) -> Iterator[None]:
    """tell(True) when this process begins to compile something that no cache has, tell(False) when that is done."""
    with event.install_listener("numba:compile", _Listener(tell)):
        yield
