"""Counter-based random numbers: each is a pure function of a key and a counter."""

from __future__ import annotations

import math

import numpy as np

from unbounded.compiled.jit import inline, jit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LOW_BITS = 4096.0


@inline
def mix(word: np.uint64) -> np.uint64:
    """The 64-bit finaliser of SplitMix64: a bijection whose output on a counter passes BigCrush."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@inline
def uniform(key: np.uint64, counter: int) -> float:
    """The uniform number in (0, 1) that belongs to (key, counter)."""
    word = mix(key + np.uint64(counter) * _GOLDEN)
    return (np.float64(np.int64(word >> np.uint64(12))) + 0.5) * (1.0 / 4503599627370496.0)


@inline
def low_bits(key: np.uint64, counter: int) -> float:
    """The bits that `uniform` leaves out, as a whole number below LOW_BITS: independent of it."""
    return np.float64(np.int64(mix(key + np.uint64(counter) * _GOLDEN) & np.uint64(4095)))


@inline
def normal(key: np.uint64, counter: int) -> float:
    """The standard normal number that belongs to (key, counter)."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, 2 * counter)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * counter + 1))


@inline
def stream(key: np.uint64, counter: int) -> np.uint64:
    """A key of its own for (key, counter), where one number is not enough."""
    return mix(key + np.uint64(counter) * _GOLDEN + np.uint64(1))


@jit
def log_gamma(shape: float, key: np.uint64) -> float:
    """Log of a Gamma(shape, 1) draw (Marsaglia and Tsang 2000); a small shape is boosted: G(a) = G(a + 1) U^(1 / a)."""
    boost = 0.0
    j = 0
    if shape < 1.0:
        boost = math.log(uniform(key, 0)) / shape
        shape += 1.0
        j = 1
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(stream(key, j), 0)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            # mutant: gamma accepted
            if math.log(uniform(stream(key, j), 2)) < 0.5 * x * x + d - d * v + d * math.log(v):
                return math.log(d) + math.log(v) + boost
        j += 1


@jit
def log_beta(a: float, b: float, key: np.uint64) -> float:
    """Log of a Beta(a, b) draw."""
    x, y = log_gamma(a, stream(key, 0)), log_gamma(b, stream(key, 1))
    high = max(x, y)
    return x - high - math.log(math.exp(x - high) + math.exp(y - high))


@jit
def binomial(n: int, p: float, key: np.uint64) -> int:
    """A Binomial(n, p) draw: large n are halved at the median of n uniforms, a beta draw (Devroye 1986, X.4)."""
    total = 0
    j = 0
    while n > 32:
        a = 1 + n // 2
        split = math.exp(log_beta(float(a), float(n + 1 - a), stream(key, j)))
        j += 1
        if split <= p:
            total += a
            n -= a
            p = (p - split) / (1.0 - split)  # mutant: binomial split
        else:
            n = a - 1
            p = p / split
    last = stream(key, j)
    for i in range(n):
        total += uniform(last, i) < p
    return total


@jit
def poisson(mean: float, key: np.uint64) -> int:
    """A Poisson(mean) draw: a large mean is cut down at a gamma waiting time (Ahrens and Dieter 1974)."""
    total = 0
    j = 0
    while mean > 16.0:
        n = int(0.875 * mean)
        wait = math.exp(log_gamma(float(n), stream(key, j)))
        j += 1
        if wait > mean:
            return total + binomial(n - 1, mean / wait, stream(key, j))
        total += n
        mean -= wait
    last = stream(key, j)
    product = uniform(last, 0)
    floor = math.exp(-mean)
    i = 0
    while product > floor:
        i += 1
        product *= uniform(last, i)
    return total + i
