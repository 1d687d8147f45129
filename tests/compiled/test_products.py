"""Products and inverses of matrices in compiled code."""

from __future__ import annotations

import numpy as np
import pytest

from unbounded.compiled.jit import jit
from unbounded.compiled.products import invert, multiply


@jit
def _multiply(a, b, out):
    multiply(a, b, out)


@jit
def _multiply_turned(a, b, out):
    multiply(a, b.T, out)


@jit
def _invert(matrix, scratch):
    invert(matrix, scratch)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "shape", [(3, 4, 5), (1, 4, 5), (3, 4, 1), (1, 4, 1), (3, 0, 5), (0, 4, 5), (3, 4, 0)], ids=str
)
def test_products(shape, dtype):
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    for product, right in ((_multiply, b), (_multiply_turned, np.ascontiguousarray(b.T))):
        out = np.full(m * n + 1, 7.0, dtype)
        product(a, right, out)
        np.testing.assert_allclose(out[:-1].reshape(m, n), a @ b, rtol=1e-5)
        assert out[-1] == 7.0


@pytest.mark.parametrize("size", [0, 1, 5])
def test_inverse(size):
    matrix = np.random.default_rng(0).normal(size=(size, size)) + 3.0 * np.eye(size)
    inverse = matrix.copy()
    _invert(inverse, np.empty(size))
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-9)
