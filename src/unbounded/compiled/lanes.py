"""Functions written so that loops over rows vectorise: Numba's wheels have no vector mathematics library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from unbounded.compiled.jit import INLINE, inline


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


@overload(lane_exp, **INLINE)
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
