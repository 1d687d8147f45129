"""Ways to damage a file, for hypothesis to choose from, and the property that whatever reads it must have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

_ANY = st.integers(0, 2**32)


class Damage(NamedTuple):
    """What is done to one of several files; numbers wrap around where a file is shorter."""

    number: int
    way: str
    at: int
    size: int
    noise: bytes

    def path(self, files: Sequence[Path]) -> Path:
        return files[self.number % len(files)]

    def of(self, content: bytes) -> bytes:
        content = content or b"\n"
        at = self.at % len(content)
        if self.way == "flip":
            return content[:at] + bytes([content[at] ^ 1 << self.size % 8]) + content[at + 1 :]
        if self.way == "cut":
            return content[:at]
        if self.way == "insert":
            return content[:at] + self.noise + content[at:]
        if self.way == "erase":  # zeros, as a crash leaves them on some file systems
            zeros = bytes(self.size % (len(content) - at + 1))
            return content[:at] + zeros + content[at + len(zeros) :]
        at %= 200  # "scramble": near the beginning, where headers are
        return content[:at] + self.noise[: len(content) - at] + content[at + len(self.noise) :]

    def done(self, files: Sequence[Path]) -> bytes:
        """Damage the file; what it was before."""
        path = self.path(files)
        before = path.read_bytes()
        path.write_bytes(self.of(before))
        return before


WAYS = ("flip", "cut", "insert", "erase", "scramble")
DAMAGES = st.builds(Damage, _ANY, st.sampled_from(WAYS), _ANY, _ANY, st.binary(min_size=1, max_size=20))


def examples(n: int) -> Any:
    """So many; few of them are the same each time."""
    return settings(
        max_examples=n, deadline=None, derandomize=n < 1000, database=None, suppress_health_check=list(HealthCheck)
    )


def check_sentence(error: BaseException, how: Any, name: str = "") -> None:
    message = str(error)
    assert name in message, (how, message)
    assert message.endswith("."), (how, message)
    assert not message.endswith(".."), (how, message)
    assert message.isprintable(), (how, message)
