"""Fits on a GPU, or in Triton's interpreter: bits, what is refused, and labels that are where they should be."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the kernels of GPUs need torch: pip install -e '.[dev]'")

from unbounded import DiagonalGaussian, DirichletProcessMixture, Gaussian, HierarchicalDirichletProcess  # noqa: E402
from unbounded.columns import describe  # noqa: E402
from unbounded.models.labelled.halves import Cuts, Sides  # noqa: E402
from unbounded.models.mixtures.kernels import build_kernel, kernel_for_few  # noqa: E402
from unbounded.models.mixtures.model import RowRecipe  # noqa: E402
from unbounded.randomness import key  # noqa: E402

ROWS = np.concatenate([np.random.default_rng(0).normal(size=(12, 2)) + c for c in (0.0, 9.0)])


def small(**options):
    usual = {
        "device": "cuda", "n_shards": 1, "n_chains": 1, "init": "one", "jumps": False, "n_warmup": 1, "n_draws": 4,
        "random_state": 0, "engine": "serial",
    }  # fmt: skip
    return DirichletProcessMixture(Gaussian(), **(usual | options))


def test_a_run_goes_on_to_the_same_bits(tmp_path):
    whole = small().fit(ROWS)
    parts = small(n_draws=2, checkpoint=tmp_path / "run").fit(ROWS)
    assert parts.posterior_.sizes["draw"] == 2
    parts = small(checkpoint=tmp_path / "run").fit(ROWS)
    assert parts.posterior_["log_joint"].values.tobytes() == whole.posterior_["log_joint"].values.tobytes()
    assert parts.labels_.tolist() == whole.labels_.tolist()
    with pytest.raises(Exception, match="other device"):
        small(device="cpu", checkpoint=tmp_path / "run").fit(ROWS)


@pytest.mark.parametrize(
    ("options", "X", "sentence"),
    [
        ({"device": "cuda:first"}, ROWS, "by number"),
        ({"device": "abacus"}, ROWS, "device must be one of"),
        ({"instantiate": "published-cold"}, ROWS, "exact rule"),
        ({"sampler": "slice"}, ROWS, "device='cpu' only"),
        ({}, np.where(np.arange(48).reshape(24, 2) == 3, np.nan, ROWS), "missing values"),
        ({}, np.random.default_rng(0).normal(size=(140, 129)), "up to 128 columns"),
    ],
)
def test_what_does_not_run_there_is_refused_in_a_sentence(options, X, sentence):
    with pytest.raises(ValueError, match=sentence):
        small(**options).fit(X)


def test_other_models_say_where_they_run():
    with pytest.raises(ValueError, match=r"device must be one of .*'reference'.*, got 'cuda'"):
        HierarchicalDirichletProcess(device="cuda").fit(ROWS, np.arange(24) % 3)


@pytest.mark.parametrize("likelihood", [Gaussian(), DiagonalGaussian()], ids=["full", "diagonal"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_on_the_device_are_those_of_the_host(likelihood, dtype):
    """Clusters may be a millionth as wide as a column reaches, where single precision would not tell rows apart."""
    rows = ROWS * 1e-6 + np.array([[0.0, 1.0]])
    bound = likelihood.bind(describe(np.append(rows, [[5.0, -5.0]], 0)))
    kernel = build_kernel("cuda", bound, dtype)
    shard = RowRecipe(rows, bound, 1, kernel.shard)(0)
    shard.put(np.arange(24) % 3)
    there, here = kernel.count(shard, 3), kernel.totals(rows, shard.current(), 3)
    np.testing.assert_allclose(there.statistics, here.statistics, rtol=1e-13, atol=1e-13)


def test_labels_are_where_they_were_written_last():
    """By the host or by the device; whoever reads sees the others' changes."""
    bound = Gaussian().bind(describe(ROWS))
    kernel = build_kernel("cuda", bound, "float64")
    shard = RowRecipe(ROWS, bound, 1, kernel.shard)(0)
    shard.put(np.arange(24) % 3)
    kernel.hold(shard)
    assert kernel.count(shard, 3).counts.tolist() == [8, 8, 8]
    shard.labels[:3] = 2
    assert kernel.count(shard, 3).counts.tolist() == [7, 7, 10]
    shard.placed()
    shard.relabel(np.array([2, 1, 0], np.int32))
    assert shard.fresh == "device"
    assert shard.labels_of(np.array([0, 3])).tolist() == [0, 2]
    assert shard.members(np.array([1])).tolist() == list(range(4, 24, 3))
    assert shard.fresh == "device"
    assert shard.coded(np.array([5, 6, 7])).tolist()[:6] == [5, 5, 5, 7, 6, 5]
    assert shard.fresh == "both"
    cuts = Cuts(np.zeros((1, 6)), np.array([[-1]]), np.array([-1]), key(1, "halves"), False)
    kernel.halve(shard, cuts, Sides(np.array([0, -1, -1]), np.array([-1, -1, -1]), np.array([3])))
    assert {3} < set(shard.arrays()["labels"].tolist())
    kept = shard.arrays()["labels"].copy()
    shard.put(np.zeros(24, int))
    shard.restore({"labels": kept})
    assert kernel.count(shard, 4).counts.tolist() == np.bincount(kept, minlength=4).tolist()
    assert kernel_for_few("cuda:1") == "cpu"
    assert kernel_for_few("reference") == "reference"
