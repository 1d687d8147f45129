"""The compiled operations of Poisson factors (poisson_factors.py)."""

from __future__ import annotations

import math
from typing import NamedTuple

from unbounded.arrays import Array
from unbounded.compiled.draws import binomial, log_gamma, poisson, stream, uniform
from unbounded.compiled.jit import implements, inline, jit
from unbounded.compiled.lanes import lane_log
from unbounded.models.features.entries import Entry, draw_entry
from unbounded.models.features.laws import draw_column, is_binary
from unbounded.models.features.operations import (
    apply,
    begin_visit,
    collect,
    end_visit,
    fill,
    log_change,
    mobile_waits,
    next_visit,
    open_slot,
    prepare,
    reset,
    sweep_mobile,
    visit_mobile,
)


class PoissonFactorsSpec(NamedTuple):
    loadings: Array  # [shared, D]
    totals: Array  # [shared]
    background: Array
    shape: float
    rate: Array


class PoissonFactorsTail(NamedTuple):
    loadings: Array  # [slots, D]
    totals: Array  # [slots]
    rates: Array  # flat: D x rows, the expectation of every cell of the block
    counts: Array  # flat: D x rows
    size: Array  # [1] rows of the block


# ---- the mobile columns


@implements(mobile_waits, PoissonFactorsSpec)
def _mobile_waits(spec):
    return False


@implements(visit_mobile, PoissonFactorsSpec)
def _visit_mobile(spec, law, tail, rows, r, mobile, key, work):
    pass


@implements(reset, PoissonFactorsSpec)
def _reset(spec, tail):
    """A slot is given loadings before it is used."""


@implements(fill, PoissonFactorsSpec)
def _fill(spec, tail, part, shared, work):
    """Loadings are kept: there is nothing to rebuild."""


@implements(prepare, PoissonFactorsSpec)
def _prepare(spec, tail, rows, usable, work):
    data, start, z = rows.data, rows.start, rows.z
    columns, size = z.shape
    d = data.shape[1]
    shared = spec.loadings.shape[0]
    tail.size[0] = size
    rates, counts = tail.rates[: d * size].reshape(d, size), tail.counts[: d * size].reshape(d, size)
    for j in range(d):
        for r in range(size):
            rates[j, r] = spec.background[j]
            counts[j, r] = data[start + r, j]
        for k in range(columns):
            theta = spec.loadings[k, j] if k < shared else tail.loadings[k - shared, j]
            for r in range(size):
                rates[j, r] += z[k, r] * theta


@implements(sweep_mobile, PoissonFactorsSpec)
def _sweep_mobile(spec, law, tail, rows, mobile, key, work):
    """Update the mobile columns of all rows of a block, with private entries as part of the rates."""
    z, order, weights, first = rows.z, mobile.order, mobile.weights, rows.first
    size, d = z.shape[1], spec.background.size
    rates, counts = tail.rates[: d * size].reshape(d, size), tail.counts[: d * size].reshape(d, size)
    gain = work.scratch[:size]
    for q in range(order.size):
        k = order[q]
        own = stream(key, k)
        if not is_binary(law):
            for r in range(size):
                old = int(z[k, r])
                u = uniform(own, first + r)
                new = draw_entry(law, spec, tail, Entry(r, k, old, -1.0, weights[k]), u, work.ladder)
                if new != old:
                    apply(spec, tail, r, k, float(new - old))
                    z[k, r] = new
            continue
        for r in range(size):
            gain[r] = -spec.totals[k]
        for j in range(d):
            theta = spec.loadings[k, j]
            for r in range(size):
                low = max(rates[j, r] - z[k, r] * theta, 1e-250)
                rates[j, r] = low
                gain[r] += counts[j, r] * lane_log((low + theta) / low)
        draw_column(law, z[k], gain, weights[k], 0.0, own, first, work)
        for j in range(d):
            theta = spec.loadings[k, j]
            for r in range(size):
                rates[j, r] += z[k, r] * theta


# ---- visits


@implements(next_visit, PoissonFactorsSpec)
def _next_visit(spec, law, private, rows, r, draws, work):
    return r


@implements(begin_visit, PoissonFactorsSpec)
def _begin_visit(spec, private, rows, r):
    pass


@implements(end_visit, PoissonFactorsSpec)
def _end_visit(spec, tail, rows, r):
    pass


@inline
def _loadings(spec, tail, column):
    shared = spec.loadings.shape[0]
    return tail.loadings[column - shared] if column >= shared else spec.loadings[column]


@implements(log_change, PoissonFactorsSpec)
def _log_change(spec, tail, r, column, step):
    if step == 0.0:
        return 0.0
    size, shared = tail.size[0], spec.loadings.shape[0]
    theta = _loadings(spec, tail, column)
    value = -step * (tail.totals[column - shared] if column >= shared else spec.totals[column])
    for j in range(theta.size):
        x = tail.counts[j * size + r]
        if x > 0.0:
            rate = tail.rates[j * size + r]
            value += x * math.log(max(rate + step * theta[j], 1e-250) / rate)
    return value


@implements(apply, PoissonFactorsSpec)
def _apply(spec, tail, r, column, step):
    size = tail.size[0]
    theta = _loadings(spec, tail, column)
    for j in range(theta.size):
        tail.rates[j * size + r] = max(tail.rates[j * size + r] + step * theta[j], 1e-250)


@implements(open_slot, PoissonFactorsSpec)
def _open_slot(spec, tail, slot, key):
    """A new atom's loadings come from the prior."""
    total = 0.0
    for j in range(spec.background.size):
        theta = math.exp(max(log_gamma(spec.shape, stream(key, j)), -460.0)) / spec.rate[j]
        tail.loadings[slot, j] = theta
        total += theta
    tail.totals[slot] = total


@implements(collect, PoissonFactorsSpec)
def _collect(spec, tail, rows, key, sums, work):
    """Split every count between the background and the row's atoms."""
    z, total, rest = rows.z, sums.sums, sums.rest
    columns, size = z.shape
    d, shared = rest.size, spec.loadings.shape[0]
    counts = tail.counts[: d * size].reshape(d, size)
    for r in range(size):
        for j in range(d):
            left = int(counts[j, r])
            if left == 0:
                continue
            mass = spec.background[j]
            for k in range(columns):
                if z[k, r] > 0:
                    mass += z[k, r] * (spec.loadings[k, j] if k < shared else tail.loadings[k - shared, j])
            own = stream(key, (rows.first + r) * d + j)
            for k in range(columns):
                if left > 0 and z[k, r] > 0:
                    part = z[k, r] * (spec.loadings[k, j] if k < shared else tail.loadings[k - shared, j])
                    taken = binomial(left, min(part / mass, 1.0), stream(own, k))  # mutant: collect taken
                    total[k, j] += taken
                    left -= taken
                    mass = max(mass - part, spec.background[j])
            rest[j] += left


@jit
def impute(data, holes, Z, loadings, background, key, first):
    d = data.shape[1]
    for q in range(holes.shape[0]):
        i, j = holes[q, 0], holes[q, 1]
        mean = background[j]
        for k in range(Z.shape[0]):
            mean += Z[k, i] * loadings[k, j]
        data[i, j] = poisson(mean, stream(key, (first + i) * d + j))
