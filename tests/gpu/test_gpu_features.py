"""Features on a GPU, or in Triton's interpreter: the chain of the CPU, exact sums, and Z where it should be."""

from __future__ import annotations

import os
import sys
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the kernels of GPUs need torch: pip install -e '.[dev]'")

sys.path.insert(0, str(Path(__file__).parents[1] / "exactness"))

import device_mirror as mirror  # noqa: E402

from unbounded import BetaBernoulliFeatures, GammaPoissonFeatures, LinearGaussian, PoissonFactors  # noqa: E402
from unbounded.columns import describe  # noqa: E402
from unbounded.contracts import Summaries  # noqa: E402
from unbounded.engines import build  # noqa: E402
from unbounded.engines.local import Sum  # noqa: E402
from unbounded.gpu.device import torch_device  # noqa: E402
from unbounded.instantiation import Ghosts  # noqa: E402
from unbounded.models.features.column_moves import Flip, Launches, Proposal  # noqa: E402
from unbounded.models.features.gpu import bits  # noqa: E402
from unbounded.models.features.hybrid import HybridFeatures  # noqa: E402
from unbounded.models.features.launch import AtomDraws, jump_state, launch, select_columns  # noqa: E402
from unbounded.models.features.launch import Pool as LookedAt  # noqa: E402
from unbounded.models.features.measures import BetaBernoulli  # noqa: E402
from unbounded.models.features.resident import DeviceMemory, ResidentShard, packed, unpacked  # noqa: E402
from unbounded.models.features.state import PATTERN  # noqa: E402
from unbounded.randomness import key  # noqa: E402
from unbounded.round import rounds  # noqa: E402
from unbounded.setup import Setup  # noqa: E402

rng = np.random.default_rng(5)
N, D = 150, 5
ENTRIES = (rng.random((N, 4)) < 0.4).astype(np.int64)
ROWS = ENTRIES @ rng.normal(size=(4, D)) * 2.0 + 0.5 * rng.normal(size=(N, D)) + 7.0
ROWS[::30, 1:3] += 6.0  # rows that ask for atoms of their own


def model_of(device, n_shards, dtype="float64", sweeps=2, mass=1.0, seed=0):
    likelihood = LinearGaussian().bind(describe(ROWS))
    setup = Setup(BetaBernoulli(mass, 1.0), likelihood, N, n_shards, seed, sweeps=sweeps, dtype=dtype, device=device)
    return HybridFeatures(setup, rule=Ghosts(), jumps=None)


def chain(device, n_rounds, *options, **more):
    """(Z, sums, private atoms) after every round."""
    model = model_of(device, *options, **more)
    home = build("threads", model.recipe(ROWS), 2)
    states = islice(rounds(model, home, model.begin(home, ENTRIES)), n_rounds)
    seen = [(np.array(model.assignments(s, home)), s.table.sums.copy(), int(s.n_private.sum())) for s in states]
    home.close()
    return seen


@pytest.mark.parametrize(("n_shards", "mass", "dtype"), [(3, 1.0, "float64"), (1, 8.0, "float32")])
def test_the_chain_is_that_of_the_cpu(n_shards, mass, dtype):
    """Several blocks, shards in one launch, births that are refused on the device, and some that are not."""
    ours, theirs = (chain(device, 2, n_shards, mass=mass, dtype=dtype) for device in ("cuda", "cpu"))
    for (Z, sums, private), (other, same, alike) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(Z, other)
        np.testing.assert_allclose(sums, same, rtol=1e-11, atol=1e-9)  # of rows as they are, whatever the precision
        assert private == alike
    assert any(private for *_, private in ours) or mass == 1.0


def test_sums_are_exact_in_any_order():
    """Of values with many digits, columns of different size, and chunks that are not full."""
    shards = []
    for p, n in enumerate((1200, 1, 40)):
        data = rng.normal(size=(n, 3)) * np.array([1.0, 1e-3, 1e6])
        shards.append(ResidentShard(p, 0, data, np.uint8, np.array([0.1, 0.0, -1.0]), np.zeros(3)))
        shards[-1].Z = (rng.random((18, n)) < 0.3).astype(np.uint8)
    memory = DeviceMemory(shards, torch_device("cuda"))
    for shard in shards:
        shard.upload()
    memory.swap()
    total = bits.sums(memory.rows, memory.chunks, memory.units, 18).cpu().numpy()
    for p, shard in enumerate(shards):
        cells, Z = shard.data - shard.centre, shard.current().astype(float)
        sums = total[p, : 3 * 32].reshape(3, 32)[:, :18].T
        largest = np.abs(cells).max(axis=0) * Z.shape[1]
        assert (np.abs(sums - Z @ cells) <= 1e-15 * largest).all()
        np.testing.assert_array_equal(total[p, 3 * 32 :].reshape(32, 32)[:18, :18], Z @ Z.T)


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="mirrors are for tests without a GPU")
def test_the_mirror_of_sweeps_is_right():
    """What stands in for the kernels in enumeration: the same chain."""
    ours = chain("cuda", 1, 1, mass=8.0)
    with mirror.mirrored_bits():
        theirs = chain("cuda", 1, 1, mass=8.0)
    for (Z, sums, _), (other, same, _) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(Z, other)
        np.testing.assert_allclose(sums, same, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [0, 1, 8, 11, 62])
def test_columns_are_bits(size):
    Z = (rng.random((size, 70)) < 0.5).astype(np.uint8)
    np.testing.assert_array_equal(unpacked(packed(Z), size), Z)


@pytest.mark.parametrize("n_shards", range(1, 14))
def test_a_level_of_the_tree_at_a_time_is_the_tree(n_shards):
    """Bit for bit, for any block of shards."""
    values = rng.normal(size=(n_shards, 3)) * 10.0 ** rng.integers(-8, 8, (n_shards, 1))
    expected = Sum(n_shards)
    for p in range(n_shards):
        expected.add((p, p + 1), {"x": values[p]})
    for cut in range(n_shards):
        found_ = Sum(n_shards)
        for start, stop in ((0, cut), (cut, n_shards)):
            found_.add_report(start, Summaries({"x": values[start:stop]}, []))
        assert found_.total["x"].tobytes() == expected.total["x"].tobytes()


def test_workers_do_not_change_a_bit():
    """All shards in the memory of one worker, or of two."""
    model, told = model_of("cuda", 3), []
    for edges in ((0, 3), (0, 1, 3)):
        engine = build("serial", model.recipe(ROWS))
        message, total = model.global_step(model.begin(engine, ENTRIES)), Sum(3)
        for start, stop in pairwise(edges):
            pairs = zip(engine._shards[start:stop], message.own[start:stop], strict=True)
            for report in model.local_step.steps(pairs, message.shared):
                total.add_report(start, report)
        told.append({name: np.asarray(value).tobytes() for name, value in total.total.items()})
        engine.close()
    assert told[0] == told[1]


def small(**options):
    usual = {
        "device": "cuda", "n_shards": 1, "n_chains": 1, "init": "one", "jumps": False, "n_warmup": 1, "n_draws": 4,
        "random_state": 0, "engine": "serial", "n_snapshots": 1,
    }  # fmt: skip
    return BetaBernoulliFeatures(LinearGaussian(), **(usual | options))


def test_a_run_goes_on_to_the_same_bits(tmp_path):
    X = ROWS[:30]
    whole = small().fit(X)
    small(n_draws=2, checkpoint=tmp_path / "run").fit(X)
    parts = small(checkpoint=tmp_path / "run").fit(X)
    assert parts.posterior_["log_joint"].values.tobytes() == whole.posterior_["log_joint"].values.tobytes()
    with pytest.raises(Exception, match="other device"):
        small(device="cpu", checkpoint=tmp_path / "run").fit(X)


@pytest.fixture
def home():
    """(model, shards, their columns, a state of jumps) with columns that are elsewhere in one of the shards."""
    model = model_of("cuda", 2)
    engine = build("serial", model.recipe(ROWS))
    state = model.begin(engine, ENTRIES)
    own = [np.array([0, 1, 2, 3]), np.array([2, -1, 0, 3])]
    yield model, engine._shards, own, jump_state(model, state)
    engine.close()


def on_host(step, shards, own, *shared):
    """What the CPU would report, with the Z that it would leave; the shards' own Z stays."""
    kept = [shard.current().copy() for shard in shards]
    told = list(step(zip(shards, own, strict=True), *shared))
    left = [shard.current().copy() for shard in shards]
    for shard, Z in zip(shards, kept, strict=True):
        shard.Z = Z
    return told, left


def on_device(step, shards, own, *shared):
    """What the device reports, of all shards at once."""
    (told,) = step(zip(shards, own, strict=True), *shared)
    return told


def alike(ours, theirs):
    assert all(set(ours.shared) == set(other.shared) for other in theirs)
    for name, values in ours.shared.items():
        expected = np.stack([other.shared[name] for other in theirs])
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-6, err_msg=name)
    for one, other in zip(ours.private, theirs, strict=True):
        shapes = {name: np.shape(value) for name, value in other.private.items()}
        assert {name: np.shape(value) for name, value in one.items()} == shapes


def left_as(shards, expected):
    for shard, Z in zip(shards, expected, strict=True):
        np.testing.assert_array_equal(shard.current(), Z)


@pytest.mark.parametrize("gone", [[1], [2, 0], []])
def test_launches_are_those_of_the_cpu(home, gone):
    model, shards, own, here = home
    gone, terms = np.array(gone, np.int64), AtomDraws(rng.normal(size=(2, D)), np.array([0.3, -1.0]))
    kept = here.without(gone)
    pool = LookedAt(ROWS[:40] - model.likelihood.centre, np.ones((len(kept), 40)), np.arange(40), 1.0)
    others = select_columns(here.statistics, kept)
    old, new = (
        launch(model, here.state, pool, others, one)[0]
        for one in (AtomDraws(rng.normal(size=(len(gone), D)), np.zeros(len(gone))), terms)
    )
    launches = Launches(gone, old, new, key(1, "entries"))
    device, host = model.kernel, model.kernel.host
    theirs, _ = on_host(host.find, shards, own, launches)
    alike(on_device(device.find, shards, own, launches), theirs)
    theirs, left = on_host(host.apply, shards, own, launches)
    alike(on_device(device.apply, shards, own, launches), theirs)
    left_as(shards, left)


@pytest.mark.parametrize(("folded", "chosen"), [(1, [0, 3]), (0, [1, 2, 3]), (-1, [0, 2]), (-1, [])])
def test_folds_are_those_of_the_cpu(home, folded, chosen):
    model, shards, own, _ = home
    proposal = Proposal(folded, np.array(chosen, np.int64), rng.random(2**PATTERN), key(1, "unfold"))
    for keep in (False, True):
        theirs, left = on_host(model.kernel.host.fold, shards, own, proposal, keep)
        alike(on_device(model.kernel.fold, shards, own, proposal, keep), theirs)
    left_as(shards, left)


@pytest.mark.parametrize(("gone", "new"), [(-1, True), (1, False)])
def test_flips_are_those_of_the_cpu(home, gone, new):
    model, shards, own, _ = home
    flip = Flip(np.array([True, False, False, True]), gone, new)
    theirs, left = on_host(model.kernel.host.flip, shards, own, flip)
    alike(on_device(model.kernel.flip, shards, own, flip), theirs)
    left_as(shards, left)


def test_columns_that_the_device_has_no_room_for_are_the_hosts(home, monkeypatch):
    """Every shard reports for itself then, and the device has what the host has made of Z."""
    model, shards, own, _ = home
    monkeypatch.setattr(bits, "MOST_COLUMNS", 3)
    flip = Flip(np.array([True, False, False, True]))
    theirs, left = on_host(model.kernel.host.flip, shards, own, flip)
    ours = list(model.kernel.flip(zip(shards, own, strict=True), flip))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.shared["sums"], other.shared["sums"])
    left_as(shards, left)


def test_what_does_not_run_there_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="zeros and ones with linear Gaussian factors"):
        GammaPoissonFeatures(LinearGaussian(), device="cuda").fit(ROWS)
    with pytest.raises(ValueError, match="zeros and ones with linear Gaussian factors"):
        BetaBernoulliFeatures(PoissonFactors(), device="cuda").fit(np.abs(ROWS).round())
