"""One writer at a time for a run directory: a lock that names its owner, and that a crash releases.

Where the file system has locks, the system itself frees that of a dead process. Some shared file systems have none, or
none that other machines see; there, an owner counts as gone when it has given no sign of life for a while.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from unbounded.chain.store import RunError, RunStore
from unbounded.disk import temporary, tidy

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = "lock.json"
BEAT = 5.0  # seconds between signs of life
SILENT = 60.0  # without one for so long, an owner whose lock cannot be seen counts as gone
_SIGNS = 0.5  # seconds for which we wait for an owner who has the lock to sign it

_writing: dict[str, int] = {}  # by directory: the thread that writes there


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the directory; the thread that holds it already may ask again."""
    where, thread = os.path.abspath(folder), threading.get_ident()
    if _writing.get(where) == thread:
        yield
        return
    new_folders = [each for each in (folder, *folder.parents) if not each.exists()]
    descriptor, done = _acquired(folder), threading.Event()
    beats = threading.Thread(target=_beat, args=(folder / NAME, descriptor, done), daemon=True, name="unbounded-lock")
    beats.start()
    _writing[where] = thread
    try:
        for each in RunStore(folder).folders():
            tidy(each)  # mutant: tidy
        yield
    finally:
        del _writing[where]
        done.set()
        beats.join()
        _release(folder, descriptor)
        with suppress(OSError):  # not empty: something was written
            for each in new_folders:
                each.rmdir()


def _release(folder: Path, descriptor: int) -> None:
    """Remove the name first, so that nobody claims a file without one; Windows cannot remove an open file."""
    if fcntl is None:
        os.close(descriptor)
        (folder / NAME).unlink(missing_ok=True)
    else:
        (folder / NAME).unlink(missing_ok=True)
        os.close(descriptor)


def _acquired(folder: Path) -> int:
    """The file of the lock, open and claimed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
    except OSError as error:
        raise RunError(f"cannot write to the run directory {folder}: {error.strerror or error}.") from error
    try:
        _claim(descriptor, folder)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(folder / NAME)):
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return _acquired(folder)  # the owner has just left, and its file with it


def _claim(descriptor: int, folder: Path) -> None:
    free = _lock(descriptor)  # mutant: lock
    owner = _signed(descriptor) if free is False else _owner(descriptor)  # mutant: not signed yet
    mine = _machine()
    is_dead = free is True and owner.get("machine") in (None, mine)  # or the system would still have its lock
    if free is False or (owner and not is_dead and _silence(descriptor, folder) < SILENT):
        known = all(name in owner for name in ("process", "host", "since"))
        who = "process {process} on {host} since {since}".format(**owner) if known else "another process"
        raise RunError(
            f"{folder} is being written by {who}; wait for it, stop it or choose another directory. (If it is gone, "
            f"this is noticed within {SILENT:.0f} seconds.)"
        )
    about = {"host": platform.node(), "process": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, json.dumps(about | {"machine": mine}).encode() + b"\n")


def _lock(descriptor: int) -> bool | None:
    """Whether this process has the file system's lock now; None where the file system has no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None


def _owner(descriptor: int) -> dict[str, Any]:
    """What the file says of its owner; nothing if it is new or damaged."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        content = json.loads(os.read(descriptor, 4096))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _signed(descriptor: int) -> dict[str, Any]:
    """The same of a lock that somebody else has, who may have taken it a moment ago and not signed it yet."""
    until = time.monotonic() + _SIGNS
    while not (owner := _owner(descriptor)) and time.monotonic() < until:
        time.sleep(0.01)
    return owner


def _machine() -> str:
    """A name for all processes that see each other's locks."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def _silence(descriptor: int, folder: Path) -> float:
    """Seconds since the owner's last sign of life, by the clock of the file system."""
    probe = temporary(folder / "clock")
    probe.touch()
    now = probe.stat().st_mtime
    probe.unlink()
    return now - os.fstat(descriptor).st_mtime


def _beat(path: Path, descriptor: int, done: threading.Event) -> None:
    while not done.wait(BEAT):
        os.utime(descriptor if os.utime in os.supports_fd else path)
