"""Pieces that break while they are fitted: one sentence that names them, and a run that goes on once they are back."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import unbounded as ub
from unbounded import sources
from unbounded.chain.run import run
from unbounded.chain.store import RunError
from unbounded.estimator import ChainEstimator
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.model import Mixture

X = np.random.default_rng(0).normal(size=(600, 2)) + 5.0 * (np.arange(600) % 3)[:, None]


@pytest.fixture
def pieces(tmp_path):
    np.save(tmp_path / "x.npy", X)
    return sources.shard(ub.open_source(tmp_path / "x.npy"), tmp_path / "pieces", 4)


@pytest.fixture(scope="module")
def undisturbed():
    return model().fit(X)


def model(**options):
    few = {
        "n_chains": 1,
        "n_warmup": 2,
        "n_draws": 4,
        "n_snapshots": 2,
        "n_shards": 4,
        "random_state": 1,
        "engine": "serial",
    }
    return ub.DirichletProcessMixture("diagonal_gaussian", **few | options)


@pytest.mark.parametrize("place", [-1, 700], ids=["where a fingerprint looks", "where it does not"])
def test_a_piece_that_changed_between_two_sessions(pieces, tmp_path, monkeypatch, place):
    monkeypatch.setattr("unbounded.sources.files._SAMPLE", 4)
    (tmp_path / "pieces" / "pieces.json").unlink()  # else it would be known by that what was changed
    source, run = ub.open_source(tmp_path / "pieces"), tmp_path / "run"
    model(checkpoint=run).fit(source)
    path = tmp_path / "pieces" / "piece-00002.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place:][1:])
    changed = ub.open_source(tmp_path / "pieces")
    assert (changed.fingerprint() == source.fingerprint()) == (place == 700)
    longer = model(checkpoint=run, n_draws=6)
    with pytest.raises(RunError, match=r"piece-00002.npy is not what it was when the run in .* began; ") as error:
        longer.fit(changed)
    assert str(error.value).count(". ") == 0
    path.write_bytes(whole)
    longer.fit(ub.open_source(tmp_path / "pieces"))
    assert longer.posterior_.identical(model(n_draws=6).fit(X).posterior_)


def test_runs_that_know_of_no_pieces_go_on(pieces, tmp_path, monkeypatch):
    """Those of older versions."""
    config = ChainEstimator._config
    with monkeypatch.context() as older:
        older.setattr(ChainEstimator, "_config", lambda *a: {k: v for k, v in config(*a).items() if k != "pieces"})
        model(checkpoint=tmp_path / "run").fit(pieces)
    assert "pieces" not in json.loads((tmp_path / "run" / "run.json").read_text())
    longer = model(checkpoint=tmp_path / "run", n_draws=6).fit(pieces)
    assert longer.posterior_.identical(model(n_draws=6).fit(X).posterior_)


def vanish(path):
    path.unlink()


def truncate(path):
    content = path.read_bytes()
    path.write_bytes(content[:-100])


def widen(path):
    np.save(path, np.ones((150, 3)))


FAULTS = {vanish: "disappeared", truncate: "truncated", widen: "3 columns, the other pieces have 2"}


def damaged(pieces, fault):
    """Break the third piece; returns its path and what was there."""
    path = Path(pieces.pieces[2].path)
    content = path.read_bytes()
    fault(path)
    return path, content


def same(a, b):
    assert a.posterior_.identical(b.posterior_)
    np.testing.assert_array_equal(a.labels_, b.labels_)


def at_round_three(monkeypatch, disturb):
    """Do something in the driver when three rounds are done and, since every one of them is, in the checkpoint."""
    step = HybridMixture.global_step

    def disturbed(self, state, parallel):
        if self.n_shards == 4 and state.round == 3:
            disturb()
        return step(self, state, parallel)

    monkeypatch.setattr(HybridMixture, "global_step", disturbed)
    monkeypatch.setitem(run.__kwdefaults__, "checkpoint_seconds", 0.0)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_piece_that_breaks_when_a_worker_needs_it_again(tmp_path, pieces, undisturbed, monkeypatch, fault):
    broken = []

    def disturb():
        broken.append(damaged(pieces, fault))
        (worker,) = (each for each in multiprocessing.active_children() if each.name == "unbounded-1")
        os.kill(worker.pid, signal.SIGKILL)

    with monkeypatch.context() as patch:
        at_round_three(patch, disturb)
        with pytest.raises(ub.SourceError, match=FAULTS[fault]) as error:
            model(engine="processes", n_workers=2, checkpoint=tmp_path / "run").fit(pieces)
    ((path, content),) = broken
    assert str(path) in str(error.value)
    assert str(error.value).count(". ") == 0
    assert any("in shard 2" in note for note in error.value.__notes__)
    with pytest.raises(ub.SourceError, match=FAULTS[fault]):  # nor does it resume without the piece
        model(checkpoint=tmp_path / "run").fit(pieces)
    path.write_bytes(content)
    assert len((tmp_path / "run" / "chain-0" / "trace.jsonl").read_text().splitlines()) == 1  # it goes on, not anew
    same(model(checkpoint=tmp_path / "run").fit(pieces), undisturbed)


def test_a_piece_that_is_gone_when_workers_start(tmp_path, pieces, undisturbed, monkeypatch):
    recipe, broken = Mixture.recipe, []

    def disturbed(self, *args):
        broken.append(damaged(pieces, vanish))
        return recipe(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Mixture, "recipe", disturbed)
        with pytest.raises(ub.SourceError, match="disappeared") as error:
            model(engine="processes", n_workers=2, checkpoint=tmp_path / "run").fit(pieces)
    assert any("in shard 2" in note for note in error.value.__notes__)
    ((path, content),) = broken
    path.write_bytes(content)
    same(model(checkpoint=tmp_path / "run").fit(pieces), undisturbed)


def test_a_disk_that_fills_up_at_a_checkpoint(tmp_path, pieces, undisturbed, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        at_round_three(patch, lambda: patch.setattr("unbounded.disk.os.fsync", full))
        with pytest.raises(RunError, match="No space left on device; make room") as error:
            model(checkpoint=tmp_path / "run").fit(pieces)
    assert str(error.value).count(". ") == 0
    assert not list((tmp_path / "run").rglob(".*.tmp"))
    same(model(checkpoint=tmp_path / "run").fit(pieces), undisturbed)
    assert (tmp_path / "run" / "labels" / "shards.json").exists()


def test_a_disk_that_fills_up_as_labels_are_written(tmp_path, pieces, undisturbed, monkeypatch):
    replace = os.replace

    def full(old, new):
        if "labels" in str(new):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(old, new)

    with monkeypatch.context() as patch:
        patch.setattr("unbounded.disk.os.replace", full)
        with pytest.raises(RunError, match=r"labels.*No space left on device"):
            model(checkpoint=tmp_path / "run").fit(pieces)
    same(model(checkpoint=tmp_path / "run").fit(pieces), undisturbed)
    assert (tmp_path / "run" / "labels" / "shards.json").exists()
