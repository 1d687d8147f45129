"""What all compiled code shares: options, dispatch on families, lane-friendly functions, counter-based uniforms."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

# Everything that lets loops vectorise, but infinities and NaN keep their meaning.
FAST = {"contract", "reassoc", "nsz", "arcp", "afn"}


def _sources_digest() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _sources_digest()


def _compiled(inlining: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile, and cache on disk until any source of the package changes.

    Numba looks at the file of the cached function alone, but a kernel contains code of the likelihoods: its stamp must
    cover them, or a changed likelihood would silently run old code. An index of older sources may even name classes
    that are no more: it is stale, too.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        options: Any = {"nogil": True, "cache": True, "fastmath": FAST, "error_model": "numpy", "inline": inlining}
        dispatcher = nb.njit(**options)(function)
        file = dispatcher._cache._cache_file
        file._source_stamp = _SOURCES
        read = file._load_index

        def load_index() -> Any:
            try:
                return read()
            except (AttributeError, ImportError):
                return {}

        file._load_index = load_index
        return dispatcher

    return decorate


jit = _compiled("never")
inline = _compiled("always")

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LOW_BITS = 4096.0


def implements(operation: Callable[..., Any], family_class: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register compiled code for `operation` when its first argument is a `family_class` (a NamedTuple).

    Numba picks the implementation while compiling, from the type alone, so that a kernel over any mix of families is
    straight-line code and can be cached on disk.
    """

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        def choose(family: Any, *args: Any) -> Callable[..., Any] | None:
            return implementation if getattr(family, "instance_class", None) is family_class else None

        overload(operation, jit_options={"nogil": True, "fastmath": FAST, "error_model": "numpy"}, strict=False)(choose)
        return implementation

    return register


def over_parts(operation: Callable[..., Any], recurse: Callable[..., Any], stop: Callable[..., Any]) -> None:
    """Register `operation` for a plain tuple of families: `recurse` on a non-empty one, `stop` on the empty one."""

    def choose(family: Any, *args: Any) -> Callable[..., Any] | None:
        if not isinstance(family, types.BaseTuple) or isinstance(family, types.BaseNamedTuple):
            return None
        return recurse if len(family) else stop

    overload(operation, jit_options={"nogil": True, "fastmath": FAST, "error_model": "numpy"}, strict=False)(choose)


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
def _exp32(x: np.float32) -> np.float32:
    """exp in single precision by range reduction and a degree-6 polynomial; 0 far to the left, x <= 80."""
    f = np.float32
    x = max(x, f(-87.0))
    n = np.floor(x * f(1.4426950408889634) + f(0.5))
    r = x - n * f(0.693359375) + n * f(2.12194440e-4)
    p = f(1.9875691500e-4)
    p = p * r + f(1.3981999507e-3)
    p = p * r + f(8.3334519073e-3)
    p = p * r + f(4.1665795894e-2)
    p = p * r + f(1.6666665459e-1)
    p = p * r + f(5.0000001201e-1)
    p = p * r * r + r + f(1.0)
    bits = np.int32((np.int32(n) + np.int32(127)) << np.int32(23))
    return p * bits.view(np.float32)


@inline
def _exp64(x: float) -> float:
    """exp in double precision by range reduction and the Taylor polynomial of degree 12; 0 far to the left."""
    x = max(x, -708.0)
    n = np.floor(x * 1.4426950408889634 + 0.5)
    r = x - n * 6.93145751953125e-1 - n * 1.42860682030941723212e-6
    p = 2.08767569878681e-09
    p = p * r + 2.50521083854417e-08
    p = p * r + 2.75573192239859e-07
    p = p * r + 2.75573192239859e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.98412698412698e-04
    p = p * r + 1.38888888888889e-03
    p = p * r + 8.33333333333333e-03
    p = p * r + 4.16666666666667e-02
    p = p * r + 1.66666666666667e-01
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    bits = np.int64((np.int64(n) + np.int64(1023)) << np.int64(52))
    return p * bits.view(np.float64)


def lane_exp(x: Any) -> Any:
    """exp for x <= 80, in the precision of x, written so that a loop over rows vectorises."""
    raise TypeError("compiled code only")


@overload(
    lane_exp, inline="always", jit_options={"nogil": True, "fastmath": FAST, "error_model": "numpy"}, strict=False
)
def _lane_exp(x: Any) -> Callable[[Any], Any]:
    return (lambda x: _exp32(x)) if x == types.float32 else (lambda x: _exp64(x))


@inline
def lane_log(x: float) -> float:
    """log of a positive normal number in double precision, written so that a loop over rows vectorises."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> np.int64(52)) - np.int64(1022)
    m = np.int64((bits & np.int64(0x000FFFFFFFFFFFFF)) | np.int64(0x3FE0000000000000)).view(np.float64)
    small = m < 0.7071067811865476
    m = m + m if small else m
    e = np.float64(exponent) - (1.0 if small else 0.0)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    p = 1.0 / 21.0
    p = p * q + 1.0 / 19.0
    p = p * q + 1.0 / 17.0
    p = p * q + 1.0 / 15.0
    p = p * q + 1.0 / 13.0
    p = p * q + 1.0 / 11.0
    p = p * q + 1.0 / 9.0
    p = p * q + 1.0 / 7.0
    p = p * q + 1.0 / 5.0
    p = p * q + 1.0 / 3.0
    return 2.0 * (s + s * q * p) + e * 0.6931471805599453


@inline
def lane_sin(turns: float) -> float:
    """sin(2 pi turns) for turns in [-0.5, 0.5], written so that a loop over rows vectorises."""
    near = turns if abs(turns) <= 0.25 else (0.5 - abs(turns)) * math.copysign(1.0, turns)
    x = 2.0 * math.pi * near
    q = x * x
    p = 2.8114572543455206e-15
    p = p * q - 7.647163731819816e-13
    p = p * q + 1.6059043836821613e-10
    p = p * q - 2.505210838544172e-08
    p = p * q + 2.7557319223985893e-06
    p = p * q - 1.984126984126984e-04
    p = p * q + 8.333333333333333e-03
    p = p * q - 1.6666666666666666e-01
    return x + x * q * p


@inline
def stream(key: np.uint64, counter: int) -> np.uint64:
    """A key of its own for (key, counter), where one number is not enough."""
    return mix(key + np.uint64(counter) * _GOLDEN + np.uint64(1))


@intrinsic
def prefetch(typing: Any, array: Any, row: Any, column: Any) -> Any:
    """Ask for array[row, column], which will be read soon, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = context.make_array(signature.args[0])(context, builder, arguments[0])
        indices = [
            context.cast(builder, argument, kind, types.intp)
            for argument, kind in zip(arguments[1:], signature.args[1:], strict=True)
        ]
        place = cgutils.get_item_pointer(context, builder, signature.args[0], value, indices, wraparound=False)
        place = builder.bitcast(place, ir.PointerType(ir.IntType(8)))
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(hint, [place, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, row, column), generate


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
            p = (p - split) / (1.0 - split)
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
