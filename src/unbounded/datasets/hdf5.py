"""HDF5 files whose structure is damaged: the HDF5 library may follow it forever, or crash.

So a process of its own walks through a file first. This module is that process, too, and imports nothing of ours: it
starts in a quarter of a second.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

PATIENCE, SPEED = 30.0, 2e7  # seconds, and bytes per second beyond them
UNPACKED, TIMES = 2**26, 1000  # bytes, and times the size of the file: more of both is refused
_WALK = ["-P", __file__]


def check(path: Path) -> None:
    """A ValueError where the file's structure cannot be followed to its end."""
    patience = PATIENCE + path.stat().st_size / SPEED
    try:
        walked = subprocess.run(
            [sys.executable, *_WALK, str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=patience,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ValueError(f"its structure could not be followed within {patience:.0f} seconds") from None
    if walked.returncode < 0:
        raise ValueError("the HDF5 library crashes on it")
    if walked.returncode:
        raise ValueError(walked.stdout.strip() or "its structure could not be followed")


def walk(path: str) -> None:
    """Look at all that could mislead the library: groups, attributes, indices of chunks, and values of any length.
    Plain numbers are not read: there is nothing to follow in them."""
    import h5py

    promised = 0

    def look(name: str, node: Any) -> None:
        nonlocal promised
        for attribute in list(node.attrs):
            node.attrs[attribute]
        if not isinstance(node, h5py.Dataset) or node.shape is None:
            return
        promised += node.size * node.dtype.itemsize
        if promised > max(UNPACKED, TIMES * Path(path).stat().st_size):
            raise ValueError(f"{Path(path).stat().st_size:,} bytes would unpack to {promised:,}")
        if node.chunks is not None:
            node.id.get_num_chunks()
        if node.dtype.kind not in "fiub":
            with suppress(OSError):  # of a filter that only the reader has
                node[()]

    with h5py.File(path) as file:
        look("/", file)
        file.visititems(look)


if __name__ == "__main__":
    try:
        walk(sys.argv[1])
    except Exception as error:
        print(str(error) or type(error).__name__)
        sys.exit(1)
