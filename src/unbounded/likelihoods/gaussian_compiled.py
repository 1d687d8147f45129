"""The compiled side of the full-covariance Gaussian: quadratic terms, staged bounds, and the collapsed tail."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import normal
from unbounded.compiled.jit import implements, inline, jit
from unbounded.compiled.lanes import lane_log
from unbounded.compiled.products import multiply
from unbounded.likelihoods.operations import (
    accumulate,
    clear,
    contrast,
    contrast_terms,
    copy_row,
    dense_logits,
    evaluate,
    logits,
    screen,
    update,
    weigh,
    weigh_terms,
    write_terms,
)

STAGED_COLUMNS = 32  # from here on, atoms are bounded by a quarter of the columns first
PRODUCT_COLUMNS = 8
NEGLIGIBLE = 37.0  # nats: e^-37 is below the rounding error of a sum in double precision


class GaussianSpec(NamedTuple):
    columns: Array
    first: int
    shift: Array
    inverse_scale: Array
    mean0: Array
    kappa0: float
    dof0: float
    factor0: Array

    own_cuts = True  # type: ignore[misc]  # of the class: contrast and weigh without terms


class PlaneGaussian(NamedTuple):
    """The finite part for two columns: natural parameters of (xx, xy, yy, x, y, 1)."""

    eta: Array


class StagedGaussian(NamedTuple):
    """The finite part for many columns: |factor (rotation x) - offset|^2 with a lower triangular factor for each atom.

    The rotation puts first what tells atoms apart. The first coordinates alone bound the log weight from above; `lead`
    are the natural parameters of that bound (of their products, themselves, and 1).
    """

    factor: Array
    offset: Array
    rotation: Array
    lead: Array
    eta: Array  # all coordinates, for blocks whose atoms overlap too much
    coordinates: int


class GaussianTail(NamedTuple):
    factor: Array  # upper triangular, factor' factor = scale_n
    mean: Array
    n: Array
    constant: Array  # log predictive at the mode
    lanes: Array
    squares: Array
    step: Array


@jit
def _linear(spec, block):
    data, start, size, terms = block.data, block.start, block.size, block.terms
    d = spec.columns.size
    x0 = spec.first + d * (d + 1) // 2
    for j in range(d):
        c, shift, scale = spec.columns[j], spec.shift[j], spec.inverse_scale[j]
        for r in range(size):
            terms[x0 + j, r] = (data[start + r, c] - shift) * scale
        for r in range(size, terms.shape[1]):
            terms[x0 + j, r] = 0
    return x0


@jit
def _quadratic(terms, x0, coordinates, first):
    """Products of the first coordinates, pair by pair, from row `first` on."""
    f = first
    for a in range(coordinates):
        for b in range(a, coordinates):
            for r in range(terms.shape[1]):
                terms[f, r] = terms[x0 + a, r] * terms[x0 + b, r]
            f += 1
    return f


@implements(write_terms, GaussianSpec)
def _write_terms(spec, block):
    terms = block.terms
    x0 = _linear(spec, block)
    _quadratic(terms, x0, spec.columns.size, spec.first)


@jit
def _pairs(spec, flat, begin, size, terms, x0):
    """`_linear` for a table of two columns: one pass over neighbours vectorises, two strided ones do not."""
    a, b = spec.shift[0], spec.shift[1]
    u, v = spec.inverse_scale[0], spec.inverse_scale[1]
    for r in range(size):
        terms[x0, r] = (flat[begin + 2 * r] - a) * u
        terms[x0 + 1, r] = (flat[begin + 2 * r + 1] - b) * v
    for r in range(size, terms.shape[1]):
        terms[x0, r] = 0
        terms[x0 + 1, r] = 0


@inline
def _six(eta, k):
    return eta[k, 0], eta[k, 1], eta[k, 2], eta[k, 3], eta[k, 4], eta[k, 5]


@inline
def _plane(e, x, y):
    return e[5] + x * (e[3] + e[0] * x + e[1] * y) + y * (e[4] + e[2] * y)


@implements(logits, PlaneGaussian)
def _plane_logits(finite, spec, block, out, top):
    """Two columns: the quadratic form in Horner's way, four atoms at a time, and the largest value in the same pass."""
    data, start, size, terms = block.data, block.start, block.size, block.terms
    x0 = spec[0].first + 3
    if data.shape[1] == 2 and spec[0].columns[0] == 0:
        _pairs(spec[0], data.reshape(data.size), 2 * start, size, terms, x0)
    else:
        _linear(spec[0], block)
    eta = finite.eta
    atoms, lanes = out.shape
    for r in range(lanes):
        top[r] = -np.inf
    for k in range(0, atoms - 3, 4):
        e0, e1, e2, e3 = _six(eta, k), _six(eta, k + 1), _six(eta, k + 2), _six(eta, k + 3)
        for r in range(lanes):
            x, y = terms[x0, r], terms[x0 + 1, r]
            a, b, c, d = _plane(e0, x, y), _plane(e1, x, y), _plane(e2, x, y), _plane(e3, x, y)
            out[k, r] = a
            out[k + 1, r] = b
            out[k + 2, r] = c
            out[k + 3, r] = d
            top[r] = max(top[r], max(max(a, b), max(c, d)))
    for k in range(atoms - atoms % 4, atoms):
        e0 = _six(eta, k)
        for r in range(lanes):
            value = _plane(e0, terms[x0, r], terms[x0 + 1, r])
            out[k, r] = value
            top[r] = max(top[r], value)


@implements(logits, StagedGaussian)
def _staged_logits(finite, spec, block, out, top):
    """Bound every atom by its first coordinates, then finish only those that can still matter.

    An atom more than NEGLIGIBLE nats below another one of the same row weighs less than a rounding error of their sum.
    In a block where most atoms do matter, one dense product is faster. The room of the quadratic terms, which are
    not needed here, is the scratch.
    """
    terms = block.terms
    d = finite.factor.shape[1]
    x0 = _linear(spec[0], block)
    multiply(finite.rotation, terms[x0 : x0 + d], terms[x0 - 3 * d : x0 - 2 * d])
    guess = np.empty(out.shape[1], np.int64)
    floor = np.empty(out.shape[1], out.dtype)
    if 2 * _bound_atoms(finite, terms, x0, guess, floor, out, top) < out.size:
        _finish_open(finite, terms, x0, guess, floor, out, top)
    else:
        dense_logits(finite.eta, spec, block, out, top)


@jit
def _bound_atoms(finite, terms, x0, guess, floor, out, top):
    """Bound log weights by the first coordinates and finish each row's most promising atom; count what stays open."""
    atoms, lanes = out.shape
    j = finite.coordinates
    rotated = x0 - 3 * finite.factor.shape[1]
    end = _quadratic(terms, rotated, j, 0)
    for a in range(j + 1):
        for r in range(lanes):
            terms[end + a, r] = terms[rotated + a, r] if a < j else 1.0
    multiply(finite.lead[:atoms], terms[: end + j + 1], out)
    for r in range(lanes):
        top[r] = -np.inf
    for k in range(atoms):
        for r in range(lanes):
            if out[k, r] > top[r]:
                top[r] = out[k, r]
                guess[r] = k
    rows = np.empty(lanes, np.int64)
    for k in range(atoms):
        m = 0
        for r in range(lanes):
            rows[m] = r
            m += guess[r] == k
        if m:
            _finish(finite, k, rows[:m], terms, x0, out)
        for q in range(m):
            floor[rows[q]] = out[k, rows[q]] - out.dtype.type(NEGLIGIBLE)
            top[rows[q]] = out[k, rows[q]]
    count = 0
    for k in range(atoms):
        for r in range(lanes):
            count += out[k, r] >= floor[r]
    return count


@jit
def _finish_open(finite, terms, x0, guess, floor, out, top):
    atoms, lanes = out.shape
    rows = np.empty(lanes, np.int64)
    for k in range(atoms):
        m = 0
        for r in range(lanes):
            rows[m] = r
            m += (guess[r] != k) & (out[k, r] >= floor[r])
        if m:
            _finish(finite, k, rows[:m], terms, x0, out)
        for q in range(m):
            top[rows[q]] = max(top[rows[q]], out[k, rows[q]])


@jit
def _finish(finite, k, rows, terms, x0, out):
    """Complete the bound to the exact value for the given rows: one product with the rest of the triangular factor."""
    d = finite.factor.shape[1]
    lanes = terms.shape[1]
    m, j = rows.size, finite.coordinates
    rest = d - j
    x = terms[x0 - 2 * d : x0 - d].reshape(d * lanes)[: d * m].reshape(d, m)
    y = terms[x0 - d : x0].reshape(d * lanes)[: rest * m].reshape(rest, m)
    for i in range(d):
        for q in range(m):
            x[i, q] = terms[x0 - 3 * d + i, rows[q]]
    multiply(finite.factor[k, j:], x, y)
    for q in range(m):
        x[0, q] = 0
    for i in range(rest):
        b = finite.offset[k, j + i]
        for q in range(m):
            white = y[i, q] - b
            x[0, q] += white * white
    for q in range(m):
        out[k, rows[q]] -= out.dtype.type(0.5) * x[0, q]


@implements(accumulate, GaussianSpec)
def _accumulate(spec, data, rows, statistics):
    d = spec.columns.size
    members = rows.size
    x = np.empty((members, d))
    for i in range(members):
        for j in range(d):
            x[i, j] = (data[rows[i], spec.columns[j]] - spec.shift[j]) * spec.inverse_scale[j]
    f = spec.first
    x0 = f + d * (d + 1) // 2
    if d <= 4 or members <= 4:
        for i in range(members):
            f = spec.first
            for a in range(d):
                for b in range(a, d):
                    statistics[f] += x[i, a] * x[i, b]
                    f += 1
    else:
        products = np.empty((d, d))
        multiply(x.T, x, products)
        for a in range(d):
            for b in range(a, d):
                statistics[f] += products[a, b]
                f += 1
    for i in range(members):
        for j in range(d):
            statistics[x0 + j] += x[i, j]


@jit
def _set_constant(spec, tail, slot):
    d = spec.columns.size
    n = tail.n[slot]
    kappa = spec.kappa0 + n
    dof = spec.dof0 + n
    log_det = 0.0
    for j in range(d):
        log_det += math.log(tail.factor[slot, j, j])
    tail.constant[slot] = (
        math.lgamma(0.5 * (dof + 1.0)) - math.lgamma(0.5 * (dof + 1.0 - d))
        + 0.5 * d * math.log(2.0 * kappa / (kappa + 1.0)) - log_det
    )  # fmt: skip


@implements(clear, GaussianSpec)
def _clear(spec, tail, slot):
    for j in range(spec.columns.size):
        copy_row(spec.factor0[j], tail.factor[slot], j)
    copy_row(spec.mean0, tail.mean, slot)
    tail.n[slot] = 0.0
    _set_constant(spec, tail, slot)


@implements(update, GaussianSpec)
def _update(spec, tail, slot, block, r, sign):
    """Rank-one update (or downdate) of the Cholesky factor of scale_n, and of mean_n."""
    terms = block.terms
    if sign < 0 and tail.n[slot] < 1.5:
        clear(spec, tail, slot)
        return
    d = spec.columns.size
    x0 = spec.first + d * (d + 1) // 2
    kappa = spec.kappa0 + tail.n[slot]
    weight = math.sqrt(kappa / (kappa + sign))
    step = tail.step
    factor = tail.factor[slot]
    for j in range(d):
        x = np.float64(terms[x0 + j, r])
        step[j] = weight * (x - tail.mean[slot, j])
        tail.mean[slot, j] = (kappa * tail.mean[slot, j] + sign * x) / (kappa + sign)
    for j in range(d):
        old = factor[j, j]
        square = old * old + sign * step[j] * step[j]
        new = math.sqrt(max(square, 1e-12 * old * old))
        c, s = new / old, step[j] / old
        factor[j, j] = new
        inverse = 1.0 / c
        for i in range(j + 1, d):
            entry = (factor[j, i] + sign * s * step[i]) * inverse
            factor[j, i] = entry
            step[i] = c * step[i] - s * entry
    tail.n[slot] += sign
    _set_constant(spec, tail, slot)


@inline
def _student_terms(spec, tail, slot):
    """(row of the first coordinate, factor of the quadratic form, power) of the t predictive."""
    d = spec.columns.size
    n = tail.n[slot]
    kappa = spec.kappa0 + n
    return spec.first + d * (d + 1) // 2, kappa / (kappa + 1.0), 0.5 * (spec.dof0 + n + 1.0)


@jit
def _student_lanes(spec, tail, slot, terms, begin, end, out, coordinates):
    """Add constant - power log(1 + ratio |U^-T (x - mean)|^2) for rows in lanes, by forward substitution.

    Fewer than all coordinates leave out squares: an upper bound.
    """
    x0, ratio, power = _student_terms(spec, tail, slot)
    factor = tail.factor[slot]
    constant = tail.constant[slot]
    lanes, squares = tail.lanes, tail.squares
    for r in range(begin, end):
        squares[r] = 0.0
    for j in range(coordinates):
        mean = tail.mean[slot, j]
        inverse = 1.0 / factor[j, j]
        for r in range(begin, end):
            lanes[j, r] = terms[x0 + j, r] - mean
        i = 0
        while i + 3 < j:
            a, b, c, e = factor[i, j], factor[i + 1, j], factor[i + 2, j], factor[i + 3, j]
            for r in range(begin, end):
                lanes[j, r] -= a * lanes[i, r] + b * lanes[i + 1, r] + (c * lanes[i + 2, r] + e * lanes[i + 3, r])
            i += 4
        while i < j:
            a = factor[i, j]
            for r in range(begin, end):
                lanes[j, r] -= a * lanes[i, r]
            i += 1
        for r in range(begin, end):
            white = lanes[j, r] * inverse
            lanes[j, r] = white
            squares[r] += white * white
    for r in range(begin, end):
        out[r] += constant - power * lane_log(1.0 + ratio * squares[r])


@implements(evaluate, GaussianSpec)
def _evaluate(spec, tail, slot, block, begin, end, out):
    terms = block.terms
    d = spec.columns.size
    if end - begin >= 4:
        _student_lanes(spec, tail, slot, terms, begin, end, out, d)
    else:
        for r in range(begin, end):
            _student_row(spec, tail, slot, terms, r, out)


@jit
def _student_row(spec, tail, slot, terms, r, out):
    """The same for one row: the loops run along the factor's rows."""
    d = spec.columns.size
    x0, ratio, power = _student_terms(spec, tail, slot)
    y, factor = tail.step, tail.factor[slot]
    for j in range(d):
        y[j] = terms[x0 + j, r] - tail.mean[slot, j]
    total = 0.0
    for j in range(d):
        white = y[j] / factor[j, j]
        total += white * white
        for i in range(j + 1, d):
            y[i] -= white * factor[j, i]
    out[r] += tail.constant[slot] - power * math.log1p(ratio * total)


@implements(screen, GaussianSpec)
def _screen(spec, tail, slot, block, begin, end, out):
    """The first coordinates of the forward substitution alone bound the quadratic form from below."""
    terms = block.terms
    d = spec.columns.size
    _student_lanes(spec, tail, slot, terms, begin, end, out, min(d, max(4, d // 3)))


@jit
def _scaled(spec, block, weights):
    """The block's rows, shifted and scaled; times their weights, where there are some."""
    d = spec.columns.size
    x = np.empty((block.size, d))
    for r in range(block.size):
        weight = weights[r] if weights.size else 1.0
        for j in range(d):
            x[r, j] = weight * ((block.data[r, spec.columns[j]] - spec.shift[j]) * spec.inverse_scale[j])
    return x


@implements(contrast, GaussianSpec)
def _contrast(spec, block, coefficients, out):
    if block.terms.shape[1] > 0:
        contrast_terms((spec,), block, coefficients, out)
        return
    d = spec.columns.size
    square = d * (d + 1) // 2
    matrix = np.empty((d, d))
    f = 0
    for a in range(d):
        for b in range(a, d):
            matrix[a, b] = matrix[b, a] = coefficients[f] if a == b else 0.5 * coefficients[f]
            f += 1
    x = _scaled(spec, block, coefficients[:0])
    products = np.empty_like(x)
    multiply(x, matrix, products)
    for r in range(block.size):
        total = coefficients[coefficients.size - 1]
        for j in range(d):
            total += x[r, j] * (products[r, j] + coefficients[square + j])
        out[r] = total


@implements(weigh, GaussianSpec)
def _weigh(spec, block, weights, out):
    if block.terms.shape[1] > 0:
        weigh_terms(block, weights, out)
        return
    d = spec.columns.size
    x, weighted = _scaled(spec, block, weights[:0]), _scaled(spec, block, weights)
    products = np.empty((d, d))
    multiply(weighted.T, x, products)
    f = 0
    for a in range(d):
        for b in range(a, d):
            out[f] = products[a, b]
            f += 1
    for j in range(d):
        total = 0.0
        for r in range(block.size):
            total += weighted[r, j]
        out[f + j] = total


class Holes(NamedTuple):
    """The holes of a table, by rows that have some: those of rows[q] are columns[starts[q] : starts[q + 1]]."""

    rows: Array
    starts: Array
    columns: Array  # positions among the columns of the spec


class Normals(NamedTuple):
    """The parameters of every atom."""

    means: Array
    precisions: Array


@jit
def draw_holes(spec, data, holes, labels, atoms, key, first):
    """Draw the holes of each row from their normal law given its other columns and its atom's parameters."""
    columns, shift, inverse_scale = spec.columns, spec.shift, spec.inverse_scale
    d = columns.size
    for q in range(holes.rows.size):
        i = holes.rows[q]
        hole = holes.columns[holes.starts[q] : holes.starts[q + 1]]
        h = hole.size
        mean, precision = atoms.means[labels[i]], atoms.precisions[labels[i]]
        is_hole = np.zeros(d, np.bool_)
        for a in range(h):
            is_hole[hole[a]] = True
        block = np.empty((h, h))
        pull = np.zeros(h)
        for a in range(h):
            for b in range(h):
                block[a, b] = precision[hole[a], hole[b]]
            for j in range(d):
                if not is_hole[j]:
                    x = (data[i, columns[j]] - shift[j]) * inverse_scale[j]
                    pull[a] -= precision[hole[a], j] * (x - mean[j])
        lower = np.linalg.cholesky(block)
        # centre = block^-1 pull; noise = L^-T e.
        for a in range(h):
            for b in range(a):
                pull[a] -= lower[a, b] * pull[b]
            pull[a] /= lower[a, a]
        for a in range(h):
            pull[a] += normal(key, (first + i) * d + hole[a])  # mutant: draw holes pull
        for a in range(h - 1, -1, -1):
            for b in range(a + 1, h):
                pull[a] -= lower[b, a] * pull[b]
            pull[a] /= lower[a, a]
        for a in range(h):
            j = hole[a]
            data[i, columns[j]] = (mean[j] + pull[a]) / inverse_scale[j] + shift[j]
