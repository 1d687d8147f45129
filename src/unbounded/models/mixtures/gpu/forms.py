"""Scores of rows under many atoms, linear or quadratic, computed in tiles that never leave the chip.

Linear: score = matrix . cells + bias. Quadratic: score = bias - |cells . matrix - offset|^2 / 2, with several atoms in
one product. Tensor cores use only the leading ten bits of a number: numbers in single precision are split in two, and
every product is the sum of three (Markidis et al. 2018).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from unbounded.arrays import Array

LEAST = 16  # the narrowest matrix that tensor cores take
MOST_COLUMNS = 128  # of a quadratic form


class Shape(NamedTuple):
    """The shape of tiles, which is known at compile time."""

    columns: int  # of a row
    group: int  # atoms in one product, 0: linear
    tile: int  # atoms in a tile
    double: bool


class Scored(NamedTuple):
    """The forms of atoms on the device, padded to whole tiles."""

    matrix: Any
    rest: Any  # the matrix less its leading bits; in double precision, the matrix itself
    offset: Any
    bias: Any
    usable: int


class AtomForms(NamedTuple):
    """The forms of atoms on the host."""

    matrix: Array  # [K, F] or [K, D, D]
    offset: Array | None  # [K, D], None: linear
    bias: Array  # [K]


def shape_of(atoms: AtomForms, usable: int) -> Shape:
    """The shape of tiles for this many usable atoms."""
    double = atoms.matrix.dtype == "float64"
    columns = max(LEAST, triton.next_power_of_2(atoms.matrix.shape[1]))
    tile = min(64, max(LEAST, triton.next_power_of_2(max(usable, 1))))
    if atoms.offset is None:
        return Shape(min(columns, 64), 0, tile, double)
    return Shape(columns, max(1, 64 // columns), tile, double)


def scored(atoms: AtomForms, usable: int, shape: Shape, device: Any) -> Scored:
    """Copy atoms to the device, padded to whole tiles with atoms that have no weight."""
    n_atoms = max(1, -(-usable // shape.tile)) * shape.tile
    matrix, bias = torch.from_numpy(atoms.matrix[:usable]).to(device), torch.from_numpy(atoms.bias[:usable]).to(device)
    kind = {"dtype": matrix.dtype, "device": device}
    full = torch.full((n_atoms,), float("-inf"), **kind)
    full[:usable] = bias
    if atoms.offset is None:
        rows = -(-matrix.shape[1] // shape.columns) * shape.columns
        padded = torch.zeros((rows, n_atoms), **kind)
        padded[: matrix.shape[1], :usable] = matrix.T
        return Scored(*_halves(padded), padded, full, usable)
    d, group = matrix.shape[1], shape.group
    offset = torch.zeros((n_atoms, shape.columns), **kind)
    offset[:usable, :d] = torch.from_numpy(atoms.offset[:usable]).to(device)
    whole = torch.zeros((n_atoms, shape.columns, shape.columns), **kind)
    whole[:usable, :d, :d] = matrix
    padded = whole.view(-1, group, shape.columns, shape.columns).transpose(1, 2).contiguous()
    return Scored(*_halves(padded), offset, full, usable)


def _halves(matrix: Any) -> tuple[Any, Any]:
    """(leading bits, the rest) in single precision."""
    if matrix.dtype == torch.float64:
        return matrix, matrix
    leading = (matrix.view(torch.int32) & -8192).view(torch.float32)
    return leading, matrix - leading


@triton.jit
def leading(x, DOUBLE: tl.constexpr):
    """The leading bits of numbers, which are all that tensor cores use."""
    if DOUBLE:
        return x
    else:
        return (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def product(high, low, matrix, rest, at, DOUBLE: tl.constexpr):
    """Rows, given as leading bits and the rest, times the elements of a matrix at the offsets `at`."""
    w = tl.load(matrix + at)
    if DOUBLE:
        return tl.dot(high, w, out_dtype=tl.float64)
    else:
        total = tl.dot(low, w, input_precision="tf32")
        total = tl.dot(high, tl.load(rest + at), total, input_precision="tf32")
        return tl.dot(high, w, total, input_precision="tf32")


@triton.jit
def load_rows(cells, rows, ok, first, width, COLUMNS: tl.constexpr, DOUBLE: tl.constexpr):
    """[rows, COLUMNS]: cells of rows from column `first` on; zeros beyond the last."""
    js = first + tl.arange(0, COLUMNS)
    at = cells + rows[:, None].to(tl.int64) * width + js[None, :]
    x = tl.load(at, mask=ok[:, None] & (js < width)[None, :], other=0.0)
    return x.to(tl.float64 if DOUBLE else tl.float32)


@triton.jit
def linear_tile(cells, rows, ok, width, atoms, t, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    """[rows, atoms]: scores of a tile of atoms."""
    COLUMNS: tl.constexpr = SHAPE[0]
    TILE: tl.constexpr = SHAPE[2]
    ks = t * TILE + tl.arange(0, TILE)
    n_atoms = tl.cdiv(atoms.usable, TILE) * TILE
    scores = tl.zeros((BLOCK, TILE), tl.float64 if SHAPE[3] else tl.float32)
    for first in range(0, width, COLUMNS):
        x = load_rows(cells, rows, ok, first, width, COLUMNS, SHAPE[3])
        high = leading(x, SHAPE[3])
        js = first + tl.arange(0, COLUMNS)
        at = js[:, None] * n_atoms + ks[None, :]
        scores += product(high, x - high, atoms.matrix, atoms.rest, at, SHAPE[3])
    return scores + tl.load(atoms.bias + ks)[None, :]


@triton.jit
def quadratic_tile(high, low, atoms, t, room, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    """The same, with several atoms in each product; `room` [atoms, rows] collects the scores of a tile."""
    COLUMNS: tl.constexpr = SHAPE[0]
    GROUP: tl.constexpr = SHAPE[1]
    TILE: tl.constexpr = SHAPE[2]
    WIDTH: tl.constexpr = GROUP * COLUMNS
    js, cs, gs, rs = tl.arange(0, COLUMNS), tl.arange(0, WIDTH), tl.arange(0, GROUP), tl.arange(0, BLOCK)
    for g in range(0, tl.minimum(TILE // GROUP, tl.cdiv(atoms.usable - t * TILE, GROUP))):
        first = (t * (TILE // GROUP) + g) * WIDTH
        at = first * COLUMNS + js[:, None] * WIDTH + cs[None, :]
        white = product(high, low, atoms.matrix, atoms.rest, at, SHAPE[3]) - tl.load(atoms.offset + first + cs)[None, :]
        if GROUP == 1:
            squares = tl.sum(white * white, 1)[:, None]
        else:
            squares = tl.sum(tl.reshape(white * white, (BLOCK, GROUP, COLUMNS)), 2)
        tl.store(room + (g * GROUP + gs)[None, :] * BLOCK + rs[:, None], squares)
    tl.debug_barrier()
    ks = tl.arange(0, TILE)
    there = t * TILE + ks < atoms.usable
    squares = tl.load(room + ks[None, :] * BLOCK + rs[:, None], mask=there[None, :], other=0.0)
    tl.debug_barrier()
    return tl.load(atoms.bias + t * TILE + ks)[None, :] - 0.5 * squares
