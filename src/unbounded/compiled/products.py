"""Products and inverses of matrices: calls of BLAS and LAPACK, and what makes their arguments of one type.

Numba's np.dot and np.linalg.inv make the same calls, but each comes with a dozen functions of checks and copies that
take a second to compile.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numba.np.linalg import (
    call_xxdot,
    call_xxgemm,
    call_xxgemv,
    check_lapack_return,
    ensure_blas,
    ensure_lapack,
    get_blas_kind,
)


@intrinsic
def multiply(typing: Any, a: Any, b: Any, out: Any) -> Any:
    """a b, for contiguous matrices of one precision, in C order at the beginning of `out`; rounded as np.dot rounds."""
    ensure_blas()

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x, y, product = (make_array(kind)(context, builder, v) for kind, v in zip(signature.args, values, strict=True))
        x_shape, y_shape = (cgutils.unpack_tuple(builder, each.shape) for each in (x, y))
        shape = x_shape[0], y_shape[1]
        zero, one = (context.get_constant(types.intp, value) for value in (0, 1))
        size = builder.mul(*shape)
        something = builder.icmp_signed(">", builder.mul(x_shape[1], size), zero)
        with builder.if_else(something) as (full, empty):
            with full, builder.if_else(builder.icmp_signed("==", y_shape[1], one)) as (column, columns):
                with column, builder.if_else(builder.icmp_signed("==", x_shape[0], one)) as (number, vector):
                    with number:
                        call_xxdot(context, builder, False, a.dtype, x_shape[1], x.data, y.data, product.data)
                    with vector:
                        turned = a.layout == "C"
                        call_xxgemv(context, builder, turned, a, x_shape, x.data, y.data, product.data)
                with columns, builder.if_else(builder.icmp_signed("==", x_shape[0], one)) as (row, matrix):
                    with row:
                        turned = b.layout != "C"
                        call_xxgemv(context, builder, turned, b, y_shape, y.data, x.data, product.data)
                    with matrix:
                        sides = (a, x_shape, x.data), (b, y_shape, y.data), (out, shape, product.data)
                        call_xxgemm(context, builder, *sides[0], *sides[1], *sides[2])
            with empty:
                cgutils.memset(builder, product.data, builder.mul(product.itemsize, size), 0)
        return context.get_dummy_value()

    return types.none(a, b, out), write


@intrinsic
def invert(typing: Any, matrix: Any, scratch: Any) -> Any:
    """Put the inverse of a square matrix in C order in its place; scratch: as many float64 as it has rows.

    Of a symmetric one, what np.linalg.inv gives comes out transposed, to the bit.
    """
    ensure_lapack()

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        a, room = (make_array(kind)(context, builder, v) for kind, v in zip(signature.args, values, strict=True))
        size = cgutils.unpack_tuple(builder, a.shape)[0]
        char, number, pointer = ir.IntType(8), size.type, cgutils.voidptr_t
        kind = ir.Constant(char, ord(get_blas_kind(matrix.dtype)))
        data, pivots = (builder.bitcast(each.data, pointer) for each in (a, room))
        factors = (char, number, number, pointer, number, pointer), (kind, size, size, data, size, pivots)
        inverse = (char, number, pointer, number, pointer), (kind, size, data, size, pivots)
        with builder.if_then(builder.icmp_signed(">", size, ir.Constant(number, 0))):
            for name, (taken, given) in (("numba_xxgetrf", factors), ("numba_ez_xxgetri", inverse)):
                function = cgutils.get_or_insert_function(
                    builder.module, ir.FunctionType(ir.IntType(32), list(taken)), name
                )
                check_lapack_return(context, builder, builder.call(function, given))
        return context.get_dummy_value()

    return types.none(matrix, scratch), write


@intrinsic
def read_only(typing: Any, array: Any) -> Any:
    """The same array, not to be written to: so that it may stand for one that never could be."""

    def give(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return impl_ret_borrowed(context, builder, signature.return_type, values[0])

    return array.copy(readonly=True)(array), give
