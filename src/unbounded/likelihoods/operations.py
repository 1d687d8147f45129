"""The compiled contract of a likelihood: six operations, chosen while compiling by the type of the spec.

A *spec* is a NamedTuple of plain arrays and numbers (what the likelihood is), a *tail* another one (the collapsed
state of up to C atoms, one slot each, and the prior in slot C). A kernel sees a tuple of specs, one per column
group: their log likelihoods add up. Rows come in blocks with rows in lanes: `terms[f, r]` is term f of row r.

Every likelihood is an exponential family: log f(x | atom k) = bias_k + eta_k . terms(x) + a term that is the same for
all atoms, and an atom's sufficient statistics are the sum of its rows' terms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.extending import overload

from unbounded.compiled.jit import OVERLOAD, inline, jit, over_parts
from unbounded.compiled.products import multiply


class Block(NamedTuple):
    """Rows start .. start + size of the data, and room for their terms."""

    data: Any
    start: int
    size: int
    terms: Any


def write_terms(spec: Any, block: Any) -> None:
    """Write the terms of the block's rows."""


def accumulate(spec: Any, data: Any, rows: Any, statistics: Any) -> None:
    """Add the terms of the given rows to one atom's statistics."""


def clear(spec: Any, tail: Any, slot: int) -> None:
    """Make the slot the prior: no members."""


def update(spec: Any, tail: Any, slot: int, block: Any, r: int, sign: int) -> None:
    """Add (sign = 1) or remove (sign = -1) row r of the block to the members of a slot."""


def evaluate(spec: Any, tail: Any, slot: int, block: Any, begin: int, end: int, out: Any) -> None:
    """Add the log predictive of rows begin .. end of the block, given the slot's members, to out[begin:end]."""


def screen(spec: Any, tail: Any, slot: int, block: Any, begin: int, end: int, out: Any) -> None:
    """Like `evaluate`, but add an upper bound that costs little; infinity is always right."""


def logits(finite: Any, spec: Any, block: Any, out: Any, top: Any) -> None:
    """out[k, r]: log weight times likelihood of row r of the block under atom k, and top[r] its largest over k.

    `finite` is the finite part: an array eta, with out = eta . (terms, 1), or what a likelihood has that is faster;
    of its atoms, the first out.shape[0] are used.
    Fills `terms` on the way (at least the rows that the tail reads); its last row is 1.
    """


def contrast(spec: Any, block: Any, coefficients: Any, out: Any) -> None:
    """out[r] = coefficients . (terms, 1) of row r of the block, whose terms are written on the way."""


def weigh(spec: Any, block: Any, weights: Any, out: Any) -> None:
    """out[f] = the sum of the terms f of all rows, by their weights; the terms are those that `contrast` wrote."""


def _write_terms_one(spec, block):
    write_terms(spec[0], block)


def _write_terms_more(spec, block):
    write_terms(spec[0], block)
    write_terms(spec[1:], block)


def _accumulate_one(spec, data, rows, statistics):
    accumulate(spec[0], data, rows, statistics)


def _accumulate_more(spec, data, rows, statistics):
    accumulate(spec[0], data, rows, statistics)
    accumulate(spec[1:], data, rows, statistics)


def _clear_one(spec, tail, slot):
    clear(spec[0], tail[0], slot)


def _clear_more(spec, tail, slot):
    clear(spec[0], tail[0], slot)
    clear(spec[1:], tail[1:], slot)


def _update_one(spec, tail, slot, block, r, sign):
    update(spec[0], tail[0], slot, block, r, sign)


def _update_more(spec, tail, slot, block, r, sign):
    update(spec[0], tail[0], slot, block, r, sign)
    update(spec[1:], tail[1:], slot, block, r, sign)


def _evaluate_one(spec, tail, slot, block, begin, end, out):
    evaluate(spec[0], tail[0], slot, block, begin, end, out)


def _evaluate_more(spec, tail, slot, block, begin, end, out):
    evaluate(spec[0], tail[0], slot, block, begin, end, out)
    evaluate(spec[1:], tail[1:], slot, block, begin, end, out)


def _screen_one(spec, tail, slot, block, begin, end, out):
    screen(spec[0], tail[0], slot, block, begin, end, out)


def _screen_more(spec, tail, slot, block, begin, end, out):
    screen(spec[0], tail[0], slot, block, begin, end, out)
    screen(spec[1:], tail[1:], slot, block, begin, end, out)


over_parts(write_terms, _write_terms_one, _write_terms_more)
over_parts(accumulate, _accumulate_one, _accumulate_more)
over_parts(clear, _clear_one, _clear_more)
over_parts(update, _update_one, _update_more)
over_parts(evaluate, _evaluate_one, _evaluate_more)
over_parts(screen, _screen_one, _screen_more)


@jit
def refresh(specs, tail, slot, block, begin, end, columns, fresh):
    """Make the slot's column of log predictives right for rows begin .. end of the block."""
    column = columns[slot]
    for q in range(begin, end):
        column[q] = 0.0
    evaluate(specs, tail, slot, block, begin, end, column)
    fresh[slot] = end


@inline
def largest(values: Any, top: Any) -> None:
    atoms, lanes = values.shape
    for r in range(lanes):
        top[r] = -np.inf
    for k in range(0, atoms - 1, 2):
        for r in range(lanes):
            top[r] = max(top[r], max(values[k, r], values[k + 1, r]))
    if atoms % 2:
        for r in range(lanes):
            top[r] = max(top[r], values[atoms - 1, r])


@inline
def _narrow_product(eta: Any, terms: Any, out: Any) -> None:
    """eta @ (terms, 1) for a few terms: the output row stays in cache, the loop over rows vectorises."""
    atoms, lanes = out.shape
    width = eta.shape[1]
    for k in range(atoms):
        row = out[k]
        constant = eta[k, width - 1]
        for r in range(lanes):
            row[r] = constant
        for f in range(0, width - 2, 2):
            a, b = eta[k, f], eta[k, f + 1]
            for r in range(lanes):
                row[r] += a * terms[f, r] + b * terms[f + 1, r]
        if width % 2 == 0:
            a = eta[k, width - 2]
            for r in range(lanes):
                row[r] += a * terms[width - 2, r]


@jit
def dense_logits(eta: Any, spec: Any, block: Any, out: Any, top: Any) -> None:
    terms = block.terms
    write_terms(spec, block)
    if eta.shape[1] <= 12:
        _narrow_product(eta, terms, out)
    elif out.shape[0] > 0:
        multiply(eta[: out.shape[0]], terms, out)
    largest(out, top)


@jit
def copy_row(row: Any, table: Any, i: int) -> None:
    """table[i] = row: a loop, since with an assignment Numba also compiles its error for wrong shapes."""
    for j in range(row.size):
        table[i, j] = row[j]


@jit
def sparse_logits(eta: Any, block: Any, out: Any, top: Any) -> None:
    """The same for rows of (column, value) pairs; eta comes transposed, so that atoms are contiguous."""
    data, start, size = block.data, block.start, block.size
    atoms = out.shape[0]
    sums = np.empty(atoms, eta.dtype)
    for r in range(size):
        for k in range(atoms):
            sums[k] = eta[eta.shape[0] - 1, k]
        for j in range(data.indptr[start + r], data.indptr[start + r + 1]):
            value = eta.dtype.type(data.values[j])
            row = eta[data.indices[j]]
            for k in range(atoms):
                sums[k] += value * row[k]
        for k in range(atoms):
            out[k, r] = sums[k]
    for k in range(atoms):
        for r in range(size, out.shape[1]):
            out[k, r] = 0
    largest(out, top)


@overload(logits, **OVERLOAD)
def _choose_logits(finite: Any, spec: Any, block: Any, out: Any, top: Any) -> Any:
    if not isinstance(finite, types.Array):
        return None
    if not isinstance(block.types[0], types.Array):
        return lambda finite, spec, block, out, top: sparse_logits(finite, block, out, top)
    return lambda finite, spec, block, out, top: dense_logits(finite, spec, block, out, top)


@jit
def contrast_terms(spec: Any, block: Any, coefficients: Any, out: Any) -> None:
    write_terms(spec, block)
    multiply(coefficients.reshape(1, coefficients.size), block.terms, out)


@jit
def weigh_terms(block: Any, weights: Any, out: Any) -> None:
    multiply(block.terms, weights.reshape(weights.size, 1), out)


def _is_own(spec: Any) -> bool:
    """Whether the spec, by itself, has something faster than products with terms: a class attribute says so."""
    return len(spec) == 1 and getattr(getattr(spec[0], "instance_class", None), "own_cuts", False)


@overload(contrast, **OVERLOAD)
def _choose_contrast(spec: Any, block: Any, coefficients: Any, out: Any) -> Any:
    if isinstance(spec, types.BaseNamedTuple):
        return None
    if _is_own(spec):
        return lambda spec, block, coefficients, out: contrast(spec[0], block, coefficients, out)
    return lambda spec, block, coefficients, out: contrast_terms(spec, block, coefficients, out)


@overload(weigh, **OVERLOAD)
def _choose_weigh(spec: Any, block: Any, weights: Any, out: Any) -> Any:
    if isinstance(spec, types.BaseNamedTuple):
        return None
    if _is_own(spec):
        return lambda spec, block, weights, out: weigh(spec[0], block, weights, out)
    return lambda spec, block, weights, out: weigh_terms(block, weights, out)
