"""The kernels of GPUs, in Triton's interpreter or on a GPU: uniform numbers to the bit, all else against NumPy."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the kernels of GPUs need torch: pip install -e '.[dev]'")
triton = pytest.importorskip("triton", reason="the kernels of GPUs need Triton: pip install -e '.[dev]'")

sys.path.insert(0, str(Path(__file__).parents[1] / "exactness"))

import device_mirror as mirror  # noqa: E402
import triton.language as tl  # noqa: E402
from device_mirror import WHERE, cut_problem, on_host, problem, there  # noqa: E402

from unbounded.gpu import device, draws  # noqa: E402
from unbounded.models.mixtures.gpu import pick, sets  # noqa: E402
from unbounded.randomness import key, stream, uniforms  # noqa: E402

ON_GPU = os.environ.get("TRITON_INTERPRET") != "1"


@triton.jit
def _numbers(keys, counters, out, streams, N: tl.constexpr):
    i = tl.arange(0, N)
    own = draws.key_at(keys, 0)
    tl.store(out + i, draws.uniform(own, tl.load(counters + i)))
    tl.store(streams, draws.stream(own, 7).to(tl.int64, bitcast=True))


def test_uniform_numbers_are_those_of_the_cpu():
    own = key(3, "label", 7)
    counters = np.append(np.arange(1000), 2**40 + np.arange(24))
    out, streams = torch.empty(1024, dtype=torch.float64, device=WHERE), torch.empty(1, dtype=torch.int64, device=WHERE)
    _numbers[(1,)](there(np.array([own]).view(np.int64)), there(counters), out, streams, 1024)
    assert out.cpu().numpy().tobytes() == uniforms(own, counters).tobytes()
    assert streams.cpu().numpy().view(np.uint64)[0] == stream(own, 7)


CASES = [(True, True, 7), (True, False, 21), (False, True, 5), (False, False, 150), (True, True, 1)]


@pytest.mark.parametrize(("quadratic", "double", "n_atoms"), CASES)
def test_labels_are_those_of_the_mirror(quadratic, double, n_atoms):
    """Several tiles of atoms, groups that are not full, blocks that are not full; and none usable."""
    rows, atoms, apart, shape = problem(quadratic, double, n_atoms)
    other = on_host(rows)
    pick.pick(rows, atoms, apart, 1, shape)
    mirror.pick(other, on_host(atoms), on_host(apart), 1, shape)
    assert rows.labels.tolist() == other.labels.tolist()
    assert rows.marks.tolist() == other.marks.tolist()
    assert len(set(rows.marks.tolist())) > 1
    assert (-1 in rows.labels.tolist()) == (1 < n_atoms < 100)


@pytest.mark.parametrize("quadratic", [True, False])
@pytest.mark.parametrize("soft", [True, False])
def test_sums_and_cuts_are_those_of_the_mirror(quadratic, soft):
    rows, by_set, cuts, codes, labels = cut_problem(quadratic)
    theirs = on_host(codes)
    expected = mirror.cut(on_host(rows), on_host(by_set), on_host(cuts), theirs, soft)
    found = sets.cut(rows, by_set, cuts, codes, soft)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.cpu(), two, rtol=1e-12, atol=1e-12)
    assert codes.labels.tolist() == theirs.labels.tolist()
    assert (codes.labels.tolist() != labels.tolist()) == (not soft)
    for share in (None, found[0]):
        sums = sets.sums(rows, by_set, share, quadratic).cpu()
        host_share = None if share is None else share.cpu()
        np.testing.assert_allclose(sums, mirror.sums(on_host(rows), on_host(by_set), host_share, quadratic), atol=1e-12)
        assert sums.numpy().tobytes() == sets.sums(rows, by_set, share, quadratic).cpu().numpy().tobytes()


def test_the_rows_of_sets_are_in_order():
    which = there(np.array([2, 0, 1, 0, 5, 2, 3], np.int32))
    by_set = sets.sets_of(which, 3)
    assert by_set.starts.tolist() == [0, 2, 3, 5]
    assert by_set.order.tolist()[:5] == [1, 3, 2, 0, 5]
    assert by_set.chunks.tolist() == [0, 1, 2, 3]


def test_devices_by_name():
    kinds = ["cpu", "cuda"]
    device.check("cuda", kinds)
    for name in ("abacus", "cpu:1", 3, None):
        with pytest.raises(ValueError, match="device must be one of"):
            device.check(name, kinds)
    with pytest.raises(ValueError, match="by number"):
        device.check("cuda:first", kinds)
    assert device.resolve("cpu", kinds) == "cpu"
    assert device.resolve("auto", kinds) == ("cuda" if ON_GPU else "cpu")
    assert device.resolve("auto", ["cpu"]) == "cpu"


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'torch'"), OSError("libcudart is damaged")])
def test_what_is_missing_is_said_in_a_sentence(monkeypatch, error):
    def not_there(name):
        raise error

    device.missing.cache_clear()
    monkeypatch.setattr(device, "import_module", not_there)
    try:
        with pytest.raises(ValueError, match=r"pip install \"unbounded\[gpu\]\""):
            device.torch_device("cuda")
        assert device.resolve("auto", ["cpu", "cuda"]) == "cpu"
    finally:
        device.missing.cache_clear()
