"""Parcels: pickles in memory that processes share and that has no name, so that no kill leaves anything behind.

Arrays lie in a parcel as they are. A process that opens it sees them there, through a mapping of its own: nothing is
copied unless it is written to, and no other process sees what was written. They are writable and aligned, since for
other arrays every kernel would be compiled a second time.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import tempfile
import weakref
from typing import Any

_ALIGN = 64
_END = struct.Struct("<Q")


class Parcel:
    """An open file without a name: a new one, or one whose descriptor another process has sent."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = _nameless() if fd is None else fd
        self.size = os.fstat(self.fd).st_size
        weakref.finalize(self, os.close, self.fd)


def pack(*things: Any) -> Parcel:
    """A parcel of several things, each of which can be unpacked alone."""
    parcel = Parcel()
    directory, at = [], 0
    with open(parcel.fd, "wb", closefd=False) as file:
        for thing in things:
            buffers: list[pickle.PickleBuffer] = []
            body = pickle.dumps(thing, 5, buffer_callback=buffers.append)
            places = []
            for chunk in (memoryview(body), *(buffer.raw() for buffer in buffers)):
                gap = -at % _ALIGN
                file.write(bytes(gap))
                file.write(chunk)
                places.append((at + gap, at + gap + chunk.nbytes))
                at += gap + chunk.nbytes
            directory.append(places)
        index = pickle.dumps(directory)
        file.write(index + _END.pack(len(index)))
    parcel.size = at + len(index) + _END.size
    return parcel


def unpack(parcel: Parcel, *which: int) -> list[Any]:
    """The things of a parcel with these numbers. They outlive it."""
    whole = memoryview(mmap.mmap(parcel.fd, parcel.size, access=mmap.ACCESS_COPY))
    (length,) = _END.unpack(whole[-_END.size :])
    directory = pickle.loads(whole[-_END.size - length : -_END.size])
    return [_thing(whole, directory[i]) for i in which]


def _thing(whole: memoryview, places: list[tuple[int, int]]) -> Any:
    body, *buffers = (whole[start:stop] for start, stop in places)
    return pickle.loads(body, buffers=buffers)


def _nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("unbounded")
    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())
