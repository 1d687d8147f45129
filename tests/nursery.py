"""Processes that start in the time of a fork: a server imports what all of them need, and forks for every order."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Session:
    """A process that was started, in a group of its own."""

    pid: int
    end: Callable[[float | None], tuple[int, str]]  # waits so many seconds; exit status and output, or queue.Empty


class Nursery:
    """Our end of a server, which has one process at a time."""

    def __init__(self, *arguments: str) -> None:
        own = [sys.executable, *arguments]
        self._process = subprocess.Popen(own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=lambda: [self._said.put(line) for line in self._process.stdout], daemon=True).start()
        self._said.get()  # it is ready

    def start(self, order: list[Any], log: str) -> Session:
        print(json.dumps([order, log]), file=self._process.stdin)
        return Session(int(self._said.get()), lambda seconds: (int(self._said.get(True, seconds)), _read(log)))

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def _read(log: str) -> str:
    return Path(log).read_text(errors="replace")


@contextmanager
def nurseries(count: int, *arguments: str) -> Iterator[list[Nursery]]:
    opened = [Nursery(*arguments) for _ in range(count)]
    try:
        yield opened
    finally:
        for nursery in opened:
            nursery.close()


def serve(do: Callable[..., None]) -> None:
    """The server: does one order of standard input after the other, each in a fork."""
    print("ready", flush=True)
    for line in sys.stdin:
        order, log = json.loads(line)
        pid = os.fork()
        if not pid:
            os.setpgrp()
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for standard in (1, 2):
                os.dup2(file, standard)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _in_fork(do, order)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _in_fork(do: Callable[..., None], order: list[Any]) -> None:
    status = 1
    try:
        do(*order)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
