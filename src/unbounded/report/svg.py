"""Small charts as SVG text. Colours, fonts and line widths are left to the style sheet, for day, night and paper.

A chart is 360 units wide, so that its text stays legible when a phone shows it at that many pixels.
"""

from __future__ import annotations

import base64
import itertools
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unbounded.arrays import Array
from unbounded.report.phrases import escaped

N_COLOURS, N_MARKS = 10, 5  # 50 looks before one repeats
WIDTH = 360
_LETTER = 6.2  # width of a letter of a tick label
_BOLD, _TALL = 7.5, 12.0  # width and height of a letter of a label in the chart
_MOST_POINTS = 300  # of a line; more are drawn as the envelope of bins


def look(rank: int) -> tuple[int, int]:
    """Colour and mark of the first series, the second, ...; the mark changes when the colours begin again."""
    turn, colour = divmod(rank, N_COLOURS)
    return colour, turn % N_MARKS


@dataclass(frozen=True)
class Range:
    """An axis: its ends, its name and where it has ticks."""

    low: float
    high: float
    name: str
    ticks: tuple[float, ...]

    @classmethod
    def around(cls, values: Array, name: str, whole: bool = False, zero: bool = False) -> Range:
        finite = np.asarray(values, float)
        finite = finite[np.isfinite(finite)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        low = min(low, 0.0) if zero else low
        room = 0.5 * max(1.0, 1e-3 * abs(high)) if is_constant(np.array([low, high])) else 0.04 * (high - low)
        low, high = (low if zero and low == 0.0 else low - room), high + room
        return cls(low, high, name, ticks(low, high, 5, whole))

    def labels(self) -> list[str]:
        return _labels(self.ticks)


def is_constant(values: Array) -> bool:
    """Whether all values are equal, up to rounding."""
    if not len(values):
        return False
    low, high = float(values.min()), float(values.max())
    return high - low <= max(1e-9 * max(abs(low), abs(high)), 1e-300)


def ticks(low: float, high: float, most: int = 5, whole: bool = False) -> tuple[float, ...]:
    """Round numbers between two ends."""
    rough = (high - low) / most
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(m for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    step = max(1.0, np.round(step)) if whole else step
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return tuple(float(k * step) for k in range(first, last + 1))


def steps(counts: Array) -> Array:
    """Bin edges for whole numbers: one each, or as few to a bin as keep 60 bins."""
    low, high = int(counts.min()), int(counts.max())
    width = -(-(high - low + 1) // 60)
    return np.arange(low, high + width + 1, width) - 0.5


def _labels(at: Sequence[float]) -> list[str]:
    step = at[1] - at[0] if len(at) > 1 else 1.0
    digits = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    far = max((abs(v) for v in at), default=0.0)
    if digits > 4 or far >= 1e7:
        told = ([f"{v:.{figures}g}" for v in at] for figures in range(4, 17))
        return next((labels for labels in told if len(set(labels)) == len(at)), [f"{v!r}" for v in at])
    return [f"{v + 0.0:,.{digits}f}" for v in at]


@dataclass(frozen=True)
class Frame:
    """The area of a chart inside its axes."""

    x: Range
    y: Range
    height: int = 190

    @property
    def left(self) -> float:
        return 28 + _LETTER * max((len(label) for label in self.y.labels()), default=0)

    @property
    def bottom(self) -> float:
        return self.height - 38.0

    def across(self, values: Array) -> Array:
        return self.left + (np.asarray(values, float) - self.x.low) / (self.x.high - self.x.low) * (
            WIDTH - 10 - self.left
        )

    def up(self, values: Array) -> Array:
        return self.bottom - (np.asarray(values, float) - self.y.low) / (self.y.high - self.y.low) * (self.bottom - 8)

    def chart(self, marks: Sequence[str], alt: str) -> str:
        """The whole picture; `alt` says in words what it shows."""
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escaped(alt)}">'
            f"<title>{escaped(alt)}</title>{self._axes()}{''.join(marks)}</svg>"
        )

    def _axes(self) -> str:
        right = WIDTH - 10
        rows = [
            f'<path class="grid" d="M{self.left:.1f} {y:.1f}H{right}"/>'
            f'<text class="tick" text-anchor="end" x="{self.left - 5:.1f}" y="{y + 4:.1f}">{label}</text>'
            for y, label in zip(self.up(np.array(self.y.ticks)), self.y.labels(), strict=True)
        ]
        columns = [
            f'<path class="axis" d="M{x:.1f} {self.bottom:.1f}v4"/>'
            f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{self.bottom + 16:.1f}">{label}</text>'
            for x, label in zip(self.across(np.array(self.x.ticks)), self.x.labels(), strict=True)
        ]
        middle, centre = (self.left + right) / 2, (self.bottom + 8) / 2
        return "".join(rows + columns) + (
            f'<path class="axis" d="M{self.left:.1f} 8V{self.bottom:.1f}H{right}"/>'
            f'<text class="name" text-anchor="middle" x="{middle:.1f}" y="{self.height - 6}">'
            f"{escaped(self.x.name)}</text>"
            f'<text class="name" text-anchor="middle" transform="translate(13 {centre:.1f}) rotate(-90)">'
            f"{escaped(self.y.name)}</text>"
        )


def line(frame: Frame, x: Array, y: Array, rank: int = 0) -> str:
    """A line that breaks where a value is missing."""
    x, y = _envelope(np.asarray(x, float), np.asarray(y, float))
    pieces, pen = [], "M"
    for a, b in zip(frame.across(x), frame.up(y), strict=True):
        pieces.append(f"{pen}{a:.1f} {b:.1f}" if np.isfinite(b) else "")
        pen = "L" if np.isfinite(b) else "M"
    colour, turn = look(rank)
    single = ' stroke-linecap="round" stroke-width="4"' if np.isfinite(y).sum() == 1 else ""
    return f'<path class="line s{colour} d{turn}"{single} d="{"".join(pieces)}{"h0" if single else ""}"/>'


def _envelope(x: Array, y: Array) -> tuple[Array, Array]:
    """The least and the greatest value of every bin of a long series, in order; short ones stay as they are."""
    if len(y) <= _MOST_POINTS:
        return x, y
    keep = set()
    for part in np.array_split(np.arange(len(y)), _MOST_POINTS // 2):
        finite = part[np.isfinite(y[part])]
        keep |= {int(finite[y[finite].argmin()]), int(finite[y[finite].argmax()])} if len(finite) else {int(part[0])}
    chosen = np.array(sorted(keep))
    return x[chosen], y[chosen]


def bars(frame: Frame, edges: Array, heights: Array, zero: bool = False) -> str:
    """Bars between consecutive edges, from the axis, or from zero."""
    left, right = frame.across(edges[:-1]), frame.across(edges[1:])
    top, gap = frame.up(heights), np.minimum(1.0, 0.1 * (right - left))
    base = float(frame.up(np.zeros(1))[0]) if zero else frame.bottom
    return "".join(
        f'<path class="f0" d="M{a + g:.1f} {base:.1f}V{t:.1f}H{b - g:.1f}V{base:.1f}z"/>'
        for a, b, t, g in zip(left, right, top, gap, strict=True)
    )


def named_bars(items: Sequence[tuple[str, float]], alt: str) -> str:
    """Horizontal bars, one under the other, with their names and values."""
    width, high, most = 240, 17, max((value for _, value in items), default=1.0) or 1.0
    left = min(24 + _LETTER * max((len(_cut(name)) for name, _ in items), default=0), 0.5 * width)
    rows = []
    for i, (name, value) in enumerate(items):
        top, long = i * high + 2, (width - left - 40) * value / most
        rows.append(
            f'<text class="name" text-anchor="end" x="{left - 6:.1f}" y="{top + 11}">{escaped(_cut(name))}</text>'
            f'<path class="f0" d="M{left:.1f} {top}h{max(long, 1):.1f}v{high - 4}h-{max(long, 1):.1f}z"/>'
            f'<text class="tick" x="{left + long + 4:.1f}" y="{top + 11}">{value:.2g}</text>'
        )
    return (
        f'<svg viewBox="0 0 {width} {len(items) * high + 4}" role="img" aria-label="{escaped(alt)}">'
        f"<title>{escaped(alt)}</title>{''.join(rows)}</svg>"
    )


def _cut(name: str, most: int = 15) -> str:
    return name if len(name) <= most else name[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


# Marks around (x, y), drawn as strokes: a disc, a square, a triangle, a cross, a plus.
_MARKS = ("h0", "h0", "m0 -2.4l2.3 4h-4.6z", "m-2 -2l4 4m0 -4l-4 4", "m-2.4 0h4.8m-2.4 -2.4v4.8")


def points(frame: Frame, x: Array, y: Array, rank: int) -> str:
    colour, mark = look(rank)
    where = "".join(
        f"M{a:.1f} {b:.1f}{_MARKS[mark]}" for a, b in zip(frame.across(x), frame.up(y), strict=True)
    )  # fmt: skip
    return f'<path class="points s{colour} m{mark}" d="{where}"/>'


def labels(frame: Frame, x: Array, y: Array, words: Sequence[str]) -> str:
    """Words on the chart, with a margin that keeps them legible over points. One that would cover an earlier one gives
    way."""
    placed: list[tuple[float, float, float]] = []
    for across, up, said in zip(frame.across(x), frame.up(y), words, strict=True):
        half = 0.5 * _BOLD * len(said)
        free = (at for at in _around(across, up) if not any(_covers(at, half, other) for other in placed))
        placed.append((*next(free), half))
    return "".join(
        f'<text class="label" text-anchor="middle" x="{a:.1f}" y="{b + 4:.1f}">{escaped(said)}</text>'
        for (a, b, _), said in zip(placed, words, strict=True)
    )


def _covers(at: tuple[float, float], half: float, other: tuple[float, float, float]) -> bool:
    return abs(at[0] - other[0]) < half + other[2] + 1.0 and abs(at[1] - other[1]) < _TALL


def _around(x: float, y: float) -> Iterator[tuple[float, float]]:
    """The place itself, then rings around it, without end."""
    yield x, y
    for ring in itertools.count(1):
        for angle in np.arange(8) * np.pi / 4:
            yield x + 5.0 * ring * float(np.cos(angle)), y + 5.0 * ring * float(np.sin(angle))


def whiskers(frame: Frame, x: Array, low: Array, high: Array) -> str:
    """Vertical lines from low to high."""
    at = zip(frame.across(x), frame.up(low), frame.up(high), strict=True)
    return f'<path class="whisker" d="{"".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in at)}"/>'


def swatch(rank: int, kind: str) -> str:
    """A sample of a look, for a legend."""
    colour, turn = look(rank)
    drawn = {
        "line": f'<path class="line s{colour} d{turn}" stroke-width="2.5" d="M1 6H21"/>',
        "points": f'<path class="points s{colour} m{turn}" d="M11 6{_MARKS[turn]}"/>',
    }
    return f'<svg class="swatch" viewBox="0 0 22 12" aria-hidden="true">{drawn[kind]}</svg>'


def raster(frame: Frame, pixels: Array) -> str:
    """An image [rows, columns, 3] that fills the frame."""
    x, width = frame.left, WIDTH - 10 - frame.left
    return (
        f'<image class="pixels" preserveAspectRatio="none" x="{x:.1f}" y="8" width="{width:.1f}" '
        f'height="{frame.bottom - 8:.1f}" href="{png(pixels)}"/>'
    )


def png(pixels: Array) -> str:
    """An RGB image [rows, columns, 3] of bytes as a data URL."""
    rows, columns, _ = pixels.shape
    lines = b"".join(b"\0" + np.ascontiguousarray(line, np.uint8).tobytes() for line in pixels)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    whole = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
    return "data:image/png;base64," + base64.b64encode(whole).decode()


def coloured(values: Array, low: float, high: float, colours: str) -> Array:
    """Numbers as RGB bytes, by a named colour map."""
    import matplotlib

    scaled = np.clip((np.asarray(values, float) - low) / ((high - low) or 1.0), 0.0, 1.0)
    bytes_: Array = matplotlib.colormaps[colours](scaled, bytes=True)[..., :3]
    return bytes_
