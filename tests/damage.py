"""Ways to damage a file, and the property that whatever reads it must have."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def flip(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content))]


def insert(content: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content) + 1))
    return content[:at] + rng.bytes(int(rng.integers(1, 20))) + content[at:]


def erase(content: bytes, rng: np.random.Generator) -> bytes:
    """Zeros, as a crash leaves them on some file systems."""
    start, stop = np.sort(rng.integers(0, len(content) + 1, 2)).tolist()
    return content[:start] + bytes(stop - start) + content[stop:]


def scramble(content: bytes, rng: np.random.Generator) -> bytes:
    """Bytes near the beginning, where headers are."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        changed[int(rng.integers(min(len(changed), 200)))] = int(rng.integers(256))
    return bytes(changed)


def damage(path: Path, rng: np.random.Generator) -> str:
    """Damage the file in some way, and say how."""
    way = (flip, cut, insert, erase, scramble)[rng.integers(5)]
    path.write_bytes(way(path.read_bytes() or b"\n", rng))
    return f"{way.__name__} {path.name}"


def check_sentence(error: BaseException, how: str) -> None:
    message = str(error)
    assert message.endswith("."), (how, message)
    assert "\n" not in message, (how, message)
