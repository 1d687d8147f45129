"""Scores of rows under many atoms, in one of two forms, computed in tiles that never leave the chip.

Linear: score = matrix . values + bias. Quadratic: score = bias - |values . matrix - offset|^2 / 2, several atoms in one
product. Single precision takes three passes of tensor cores where one would lose digits.
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
    """How tiles are cut, known while compiling: columns of a row, atoms of a product (0: linear), atoms of a tile."""

    columns: int
    group: int
    tile: int
    double: bool


class Scored(NamedTuple):
    """What rows are scored by, on the device."""

    matrix: Any
    offset: Any
    bias: Any
    usable: int


class Atoms(NamedTuple):
    """The same as it travels: matrix [K, F] or [K, D, D], offset [K, D] or none, bias [K]."""

    matrix: Array
    offset: Array | None
    bias: Array


def shape_of(atoms: Atoms, usable: int) -> Shape:
    """Tiles for so many atoms."""
    double = atoms.matrix.dtype == "float64"
    columns = max(LEAST, triton.next_power_of_2(atoms.matrix.shape[1]))
    most = 64 if double else 128
    tile = min(most, max(LEAST, triton.next_power_of_2(max(usable, 1))))
    if atoms.offset is None:
        return Shape(min(columns, 64), 0, tile, double)
    return Shape(columns, min(tile, max(1, most // columns)), tile, double)


def scored(atoms: Atoms, usable: int, shape: Shape, device: Any) -> Scored:
    """Atoms on the device, padded to whole tiles; those that are not usable have no weight."""
    n_atoms = max(1, -(-usable // shape.tile)) * shape.tile
    matrix, bias = torch.from_numpy(atoms.matrix[:usable]).to(device), torch.from_numpy(atoms.bias[:usable]).to(device)
    full = torch.full((n_atoms,), float("-inf"), dtype=matrix.dtype, device=device)
    full[:usable] = bias
    if atoms.offset is None:
        rows = -(-matrix.shape[1] // shape.columns) * shape.columns
        padded = torch.zeros((rows, n_atoms), dtype=matrix.dtype, device=device)
        padded[: matrix.shape[1], :usable] = matrix.T
        return Scored(padded, padded, full, usable)
    d, group = matrix.shape[1], shape.group
    offset = torch.zeros((n_atoms, shape.columns), dtype=matrix.dtype, device=device)
    offset[:usable, :d] = torch.from_numpy(atoms.offset[:usable]).to(device)
    padded = torch.zeros((n_atoms // group, shape.columns, group, shape.columns), dtype=matrix.dtype, device=device)
    whole = torch.zeros((n_atoms, d, d), dtype=matrix.dtype, device=device)
    whole[:usable] = matrix
    padded[:, :d, :, :d] = whole.view(n_atoms // group, group, d, d).transpose(1, 2)
    return Scored(padded, offset, full, usable)


@triton.jit
def product(x, w, DOUBLE: tl.constexpr):
    if DOUBLE:
        return tl.dot(x, w, out_dtype=tl.float64)
    else:
        return tl.dot(x, w, input_precision="tf32x3")


@triton.jit
def load_rows(values, rows, ok, first, width, COLUMNS: tl.constexpr, DOUBLE: tl.constexpr):
    """[rows, COLUMNS]: values of rows from column `first` on; nothing where there are none."""
    js = first + tl.arange(0, COLUMNS)
    at = values + rows[:, None].to(tl.int64) * width + js[None, :]
    x = tl.load(at, mask=ok[:, None] & (js < width)[None, :], other=0.0)
    if DOUBLE:
        x = x.to(tl.float64)
    return x


@triton.jit
def linear_tile(values, rows, ok, width, atoms, t, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    """Scores of a tile of atoms."""
    COLUMNS: tl.constexpr = SHAPE[0]
    TILE: tl.constexpr = SHAPE[2]
    ks = t * TILE + tl.arange(0, TILE)
    n_atoms = tl.cdiv(atoms.usable, TILE) * TILE
    scores = tl.zeros((BLOCK, TILE), tl.float64 if SHAPE[3] else tl.float32)
    for first in range(0, width, COLUMNS):
        x = load_rows(values, rows, ok, first, width, COLUMNS, SHAPE[3])
        js = first + tl.arange(0, COLUMNS)
        w = tl.load(atoms.matrix + js[:, None].to(tl.int64) * n_atoms + ks[None, :])
        scores += product(x, w, SHAPE[3])
    return scores + tl.load(atoms.bias + ks)[None, :]


@triton.jit
def quadratic_tile(x, atoms, t, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    """Scores of a tile of atoms, some of them in each product."""
    COLUMNS: tl.constexpr = SHAPE[0]
    GROUP: tl.constexpr = SHAPE[1]
    TILE: tl.constexpr = SHAPE[2]
    GROUPS: tl.constexpr = TILE // GROUP
    WIDTH: tl.constexpr = GROUP * COLUMNS
    js, cs, gs = tl.arange(0, COLUMNS), tl.arange(0, WIDTH), tl.arange(0, GROUPS)
    squares = tl.zeros((BLOCK, GROUPS, GROUP), tl.float64 if SHAPE[3] else tl.float32)
    for g in range(0, tl.minimum(GROUPS, tl.cdiv(atoms.usable - t * TILE, GROUP))):
        at = (t * GROUPS + g) * WIDTH
        w = tl.load(atoms.matrix + at * COLUMNS + js[:, None] * WIDTH + cs[None, :])
        white = product(x, w, SHAPE[3]) - tl.load(atoms.offset + at + cs)[None, :]
        own = tl.sum(tl.reshape(white * white, (BLOCK, GROUP, COLUMNS)), 2)
        squares = tl.where((gs == g)[None, :, None], own[:, None, :], squares)
    ks = t * TILE + tl.arange(0, TILE)
    return tl.load(atoms.bias + ks)[None, :] - 0.5 * tl.reshape(squares, (BLOCK, TILE))
