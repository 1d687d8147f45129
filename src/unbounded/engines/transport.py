"""What travels between MPI ranks: pickles with their large arrays beside them, which go as they are from where they lie
into memory of the receiver's own, writable as compiled code wants it.

No rank spins: one that waits yields its core, and soon sleeps for a share of the time it has waited already.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

INLINE = 2**16  # bytes; arrays below that stay in the pickle
MOST = 2**30  # bytes of one message
AWAKE, SHARE, LONGEST = 1e-3, 0.1, 2e-3  # seconds without sleep; a sleep as a share of the wait so far; its most

Parts = list[Any]  # buffers: a pickle and its large arrays


def pack(thing: Any, own: Sequence[Any]) -> list[Parts]:
    """Packs the thing for all ranks, then the own part of each but rank 0."""
    return [_dump(part) for part in (thing, *own[1:])]


def broadcast(comm: Any, label: Any, packed: list[Parts]) -> None:
    """From rank 0 to all others. The label is read even where the rest cannot be."""
    shared, *own = packed
    heads = [pickle.dumps((label, _sizes(shared), _sizes(parts))) for parts in own]
    sending = [comm.Isend(head, rank) for rank, head in enumerate(heads, 1)]
    sending += [comm.Isend(chunk, rank) for rank, parts in enumerate(own, 1) for chunk in _chunks(parts)]
    sending += [comm.Ibcast(chunk) for chunk in _chunks(shared)] if own else []
    finish(sending)


def receive_broadcast(comm: Any) -> tuple[Any, Callable[[], tuple[Any, Any]]]:
    """On another rank: (the label, a function that unpacks the thing for all and the rank's own part)."""
    _, (label, of_all, of_own) = _head(comm, 0)
    shared, parts = _buffers(of_all), _buffers(of_own)
    coming = [comm.Irecv(chunk, 0) for chunk in _chunks(parts)] + [comm.Ibcast(chunk) for chunk in _chunks(shared)]
    finish(coming)
    return label, lambda: (_load(shared), _load(parts))


def send(comm: Any, thing: Any, rank: int) -> list[Any]:
    """Start sending; the requests are for `finish`, which waits for them."""
    parts = _dump(thing)
    head = pickle.dumps(_sizes(parts))
    return [comm.Isend(head, rank), *(comm.Isend(chunk, rank) for chunk in _chunks(parts))]


def receive(comm: Any) -> tuple[int, Any]:
    """(a rank that has sent us something, what it sent)."""
    rank, sizes = _head(comm)
    parts = _buffers(sizes)
    finish([comm.Irecv(chunk, rank) for chunk in _chunks(parts)])
    return rank, _load(parts)


def _dump(thing: Any) -> Parts:
    large: Parts = []

    def inline(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= INLINE:
            large.append(raw)
        return raw.nbytes < INLINE

    return [memoryview(pickle.dumps(thing, 5, buffer_callback=inline)), *large]


def _load(parts: Parts) -> Any:
    return pickle.loads(parts[0], buffers=parts[1:])


def _sizes(parts: Parts) -> list[int]:
    return [part.nbytes for part in parts]


def _buffers(sizes: list[int]) -> Parts:
    return [np.empty(size, np.uint8) for size in sizes]


def _chunks(parts: Parts) -> Iterator[Any]:
    return (part[at : at + MOST] for part in parts for at in range(0, part.nbytes, MOST))


def _head(comm: Any, rank: int = -1) -> tuple[int, Any]:
    """(rank, content) of the first message from a rank, or from any: the sizes of those that follow."""
    from mpi4py import MPI

    status = MPI.Status()
    found: list[Any] = []

    def look() -> bool:
        found[:] = [comm.Improbe(MPI.ANY_SOURCE if rank < 0 else rank, MPI.ANY_TAG, status)]
        return found[0] is not None

    _wait(look)
    head = bytearray(status.Get_count(MPI.BYTE))
    found[0].Recv(head)
    return status.Get_source(), pickle.loads(head)


def finish(requests: list[Any]) -> None:
    if requests:
        _wait(lambda: requests[0].Testall(requests))


def _wait(ready: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not ready():
        waited = time.monotonic() - began
        if waited < AWAKE:
            getattr(os, "sched_yield", lambda: time.sleep(0.0))()  # macOS has none
        else:
            time.sleep(min(SHARE * waited, LONGEST))
