"""Files are whole or absent, and whatever is wrong with a run directory is said in one sentence."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil

import numpy as np
import pytest
from runs import everything, model, rows, stopped

from unbounded import RunError
from unbounded.chain import several, store
from unbounded.chain.store import ChainStore, RunStore, read_arrays, write_arrays

X = rows()
ARRAYS = {"state/round": np.array(7), "shard0/labels": np.arange(5, dtype=np.int32), "empty": np.empty((0, 2))}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run that was stopped half-way: checkpoint, trace, assignments, snapshots."""
    return stopped(tmp_path_factory.mktemp("begun") / "run", 12)


@pytest.fixture
def run(begun, tmp_path):
    return shutil.copytree(begun, tmp_path / "run")


def sentence(error) -> str:
    """The message, if it is one clear sentence."""
    message = str(error.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert "Traceback" not in message
    return message


# ---- single files


def test_arrays_come_back_as_they_were(tmp_path):
    write_arrays(tmp_path / "a.ub", ARRAYS)
    back = read_arrays(tmp_path / "a.ub")
    assert back.keys() == ARRAYS.keys()
    for name, value in ARRAYS.items():
        np.testing.assert_array_equal(back[name], value)
        assert back[name].dtype == value.dtype
    assert os.listdir(tmp_path) == ["a.ub"]


def test_no_pickles(tmp_path):
    """Neither written nor read: a run directory from a stranger cannot run code."""
    with pytest.raises(ValueError, match=r"[Pp]ickle|[Oo]bject"):
        write_arrays(tmp_path / "a.ub", {"thing": np.array([{"a": 1}], dtype=object)})
    assert not (tmp_path / "a.ub").exists()
    payload = io.BytesIO()
    np.savez(payload, thing=np.array([{"a": 1}], dtype=object))
    digest = store.hashlib.sha256(payload.getvalue()).hexdigest().encode()
    (tmp_path / "b.ub").write_bytes(store._MAGIC + digest + b"\n" + payload.getvalue())
    with pytest.raises(RunError, match=r"[Pp]ickle|[Oo]bject"):
        read_arrays(tmp_path / "b.ub")


@pytest.mark.parametrize("length", [0, 5, 30, 90, 500, -1])
def test_truncated_files_are_noticed(tmp_path, length):
    path = tmp_path / "a.ub"
    write_arrays(path, ARRAYS)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(RunError, match="damaged"):
        read_arrays(path)


@pytest.mark.parametrize("position", [3, 20, 76, 200, -1])
def test_a_flipped_byte_is_noticed(tmp_path, position):
    path = tmp_path / "a.ub"
    write_arrays(path, ARRAYS)
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(RunError, match="damaged"):
        read_arrays(path)


def test_foreign_files_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones(3))
    with pytest.raises(RunError, match="does not begin as files of a run do") as error:
        read_arrays(tmp_path / "a.npz")
    sentence(error)


def full_disk(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("operation", ["replace", "fsync"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, operation):
    path = tmp_path / "a.ub"
    write_arrays(path, ARRAYS)
    monkeypatch.setattr(store.os, operation, full_disk)
    with pytest.raises(RunError, match="No space left") as error:
        write_arrays(path, {"other": np.ones(3)})
    assert str(path) in sentence(error)
    assert os.listdir(tmp_path) == ["a.ub"]
    assert read_arrays(path).keys() == ARRAYS.keys()


# ---- whole runs


@pytest.mark.parametrize("operation", ["replace", "fsync"])
def test_a_full_disk_stops_a_run_that_can_be_resumed(run, monkeypatch, operation):
    with monkeypatch.context() as patch:
        patch.setattr(store.os, operation, full_disk)
        with pytest.raises(RunError, match="No space left") as error:
            model(run).fit(X)
        sentence(error)
    assert everything(model(run).fit(X)) == everything(model().fit(X))


def test_a_full_disk_at_the_trace(run, monkeypatch):
    real_open = open

    def no_room(path, *args, **kwargs):
        if str(path).endswith("trace.jsonl"):
            full_disk()
        return real_open(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", no_room)
        with pytest.raises(RunError, match="No space left") as error:
            model(run).fit(X)
        sentence(error)
    assert everything(model(run).fit(X)) == everything(model().fit(X))


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_checkpoint_stops_the_resume(run):
    damage(run / "chain-0" / "checkpoint.ub")
    with pytest.raises(RunError, match=r"checkpoint\.ub is damaged") as error:
        model(run).fit(X)
    sentence(error)


def test_a_damaged_snapshot_stops_the_resume(run):
    damage(next((run / "chain-0" / "snapshots").glob("*.ub")))
    with pytest.raises(RunError, match="is damaged") as error:
        model(run).fit(X)
    sentence(error)


def test_a_foreign_file_in_place_of_the_checkpoint(run):
    (run / "chain-0" / "checkpoint.ub").write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(RunError, match="does not begin as files of a run do") as error:
        model(run).fit(X)
    sentence(error)


@pytest.mark.parametrize("other", [{"random_state": 10}, {"n_shards": 5}])
def test_a_checkpoint_of_another_run_is_refused(run, tmp_path, other):
    """Same shapes or not: a checkpoint says which run it belongs to."""
    model(tmp_path / "other", **other).fit(X)
    shutil.copy(tmp_path / "other" / "chain-0" / "checkpoint.ub", run / "chain-0" / "checkpoint.ub")
    with pytest.raises(RunError, match="belongs to another run") as error:
        model(run).fit(X)
    sentence(error)


def test_a_checkpoint_of_other_data_is_refused(run, tmp_path):
    other = rows(7)
    model(tmp_path / "other").fit(other)
    shutil.copy(tmp_path / "other" / "chain-0" / "checkpoint.ub", run / "chain-0" / "checkpoint.ub")
    with pytest.raises(RunError, match="belongs to another run") as error:
        model(run).fit(X)
    sentence(error)


def test_a_checkpoint_of_another_chain_is_refused(tmp_path):
    model(tmp_path / "run").fit(X)
    chains = tmp_path / "run"
    shutil.copy(chains / "chain-0" / "checkpoint.ub", chains / "chain-1" / "checkpoint.ub")
    with pytest.raises(RunError, match="belongs to another run") as error:
        model(tmp_path / "run").fit(X)
    sentence(error)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"random_state": 10}, "seed"),
        ({"n_shards": 2}, "n_shards"),
        ({"thin": 3}, "thin"),
        ({"concentration": 2.0}, "measure"),
        ({"likelihood": "diagonal_gaussian"}, "likelihood"),
        ({"instantiate": "one_open"}, "instantiate"),
        ({"init": "prior"}, "init"),
        ({"init": np.zeros(90, int)}, "init"),
        ({"dtype": "float32"}, "dtype"),
        ({"keep_assignments": False}, "keep_assignments"),
    ],
)
def test_other_settings_in_the_same_directory(run, options, word):
    with pytest.raises(RunError, match=f"other .*{word}") as error:
        model(run, **options).fit(X)
    assert str(run) in sentence(error)


def test_other_data_in_the_same_directory(run):
    with pytest.raises(RunError, match="other data") as error:
        model(run).fit(rows(7))
    sentence(error)


def test_refusals_leave_the_run_as_it_was(run):
    for options, data in [({"n_shards": 2}, X), ({}, rows(7))]:
        with pytest.raises(RunError):
            model(run, **options).fit(data)
    assert everything(model(run).fit(X)) == everything(model().fit(X))


def test_chains_of_another_run_are_not_adopted(run):
    """Without run.json nobody knows whose they are but they themselves; what is refused writes nothing."""
    (run / "run.json").unlink()
    before = sorted(run.rglob("*"))
    with pytest.raises(RunError, match=r"run\.json is missing, and .*chain-0 is of a run with other settings") as error:
        model(run, random_state=10).fit(X)
    sentence(error)
    assert sorted(run.rglob("*")) == before
    assert everything(model(run).fit(X)) == everything(model().fit(X))


def test_a_limit_that_falls_between_two_checks(tmp_path):
    """400 draws are not more than 400: it is said how many a fit makes that stops by itself."""
    model(tmp_path, n_draws=4, n_chains=1).fit(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(several, "FIRST", 3)
        asked = model(tmp_path, n_draws="auto", max_draws=5, n_chains=1)
        with pytest.raises(
            RunError, match=r"holds 4 draws, more than the 3 that n_draws='auto' makes at most"
        ) as error:
            asked.fit(X)
        assert "ask for max_draws=6 or n_draws=4" in sentence(error)
        assert several.stages("auto", 6)[-1] == 6


def test_a_run_of_a_later_layout(run):
    config = json.loads((run / "run.json").read_text())
    assert config.pop("format") == 1
    del config["sha256"]
    (run / "run.json").write_text(json.dumps(config | {"format": 2}))
    with pytest.raises(RunError, match=r"run\.json was written by a later version of unbounded"):
        model(run).fit(X)
    (run / "run.json").write_text(json.dumps(config))  # of an older one
    assert everything(model(run).fit(X)) == everything(model().fit(X))


@pytest.mark.parametrize("name", ["run.json", "chain-0/trace.jsonl", "chain-0/checkpoint.ub"])
@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe{", b'{"draw": 0,,}\n' * 100])
def test_what_is_wrong_with_a_file_and_what_to_do(run, name, content):
    """In our words, whatever Python says of it. None: a folder in its place."""
    (run / name).unlink()
    (run / name).mkdir() if content is None else (run / name).write_bytes(content)
    with pytest.raises(RunError) as error:
        model(run).fit(X)
    assert str(run / name) in sentence(error)
    assert "restore it from a backup or fit again" in sentence(error)
    assert not any(words in sentence(error) for words in ("Errno", "codec", "delimiter", "Expecting"))


def test_a_wrong_setting_claims_no_directory(tmp_path):
    """A mistake that is found before the first round must not block the directory for the corrected call."""
    for wrong in ({"init": "bogus"}, {"engine": "bogus"}, {"n_workers": 0}, {"init": np.zeros(3, int)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model(tmp_path / "run", **wrong).fit(X)
    assert everything(model(tmp_path / "run").fit(X)) == everything(model().fit(X))


@pytest.mark.parametrize("name", ["trace.jsonl", "assignments.bin"])
@pytest.mark.parametrize("keep", [0, 20])
def test_a_trace_that_lost_its_end(run, name, keep):
    """Shorter than the checkpoint says: damaged, not padded with something."""
    os.truncate(run / "chain-0" / name, keep)
    with pytest.raises(RunError, match="damaged") as error:
        model(run).fit(X)
    sentence(error)


@pytest.mark.parametrize("line", [b"{not json}\n", b"\xff\xfe\n", b"3\n"])
def test_a_trace_with_garbage(run, line):
    path = run / "chain-0" / "trace.jsonl"
    path.write_bytes(line + path.read_bytes())
    with pytest.raises(RunError, match="damaged") as error:
        model(run).fit(X)
    sentence(error)


def test_a_torn_last_line_is_made_again(run):
    """What a crash leaves behind the checkpoint is not damage."""
    with open(run / "chain-0" / "trace.jsonl", "a") as file:
        file.write('{"n_clusters": 3, "alp')
    with open(run / "chain-0" / "assignments.bin", "ab") as file:
        file.write(b"\x01\x00\x00")
    assert everything(model(run).fit(X)) == everything(model().fit(X))


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "\x00", pytest.param("[" * 100_000, id="deep")])
def test_a_damaged_configuration(run, content):
    (run / "run.json").write_text(content)
    with pytest.raises(RunError, match=r"run\.json") as error:
        model(run).fit(X)
    sentence(error)


def test_draws_are_those_of_the_longest_chain(run, tmp_path):
    assert RunStore(run).n_draws() == max(len(chain.read_text().splitlines()) for chain in run.rglob("trace.jsonl"))
    assert RunStore(tmp_path / "none").n_draws() == 0


def test_an_unwritable_directory(tmp_path):
    """Its parent is a regular file, so that this fails for the administrator too."""
    (tmp_path / "file").write_text("here")
    with pytest.raises(RunError, match="cannot write to the run directory") as error:
        model(tmp_path / "file" / "run").fit(X)
    assert "file" in sentence(error)


def test_a_file_where_the_directory_should_be(tmp_path):
    (tmp_path / "run").write_text("here")
    with pytest.raises(RunError, match="cannot write to the run directory") as error:
        model(tmp_path / "run").fit(X)
    sentence(error)


def test_a_new_run_never_overwrites(run):
    with pytest.raises(RunError, match="already holds a run"):
        RunStore(run).prepare({"a": 1})
    with pytest.raises(RunError, match="holds no run"):
        RunStore(run / "nowhere").config()


def test_the_files_are_what_the_documentation_says(run):
    """Plain text and plain arrays: anybody can read them without this package."""
    config = json.loads((run / "run.json").read_text())
    assert {"model", "likelihood", "measure", "seed", "data"} <= config.keys()
    draws = [json.loads(line) for line in (run / "chain-0" / "trace.jsonl").read_text().splitlines()]
    assert {"n_clusters", "alpha", "sigma", "log_joint", "entropy", "largest"} <= draws[0].keys()
    labels = np.fromfile(run / "chain-0" / "assignments.bin", "<i4").reshape(-1, len(X))
    assert len(labels) == len(draws)
    assert [len(np.unique(row)) for row in labels] == [draw["n_clusters"] for draw in draws]
    magic, digest, payload = (run / "chain-0" / "checkpoint.ub").read_bytes().split(b"\n", 2)
    assert magic == b"unbounded 2"
    assert len(digest) == 64
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        assert any("labels" in name for name in arrays.files)


def test_reading_draws_by_hand(tmp_path):
    """The store alone: append, read, rewind."""
    chain = ChainStore(tmp_path / "chain-0")
    chain.prepare()
    for d in range(4):
        chain.append_draw(d, {"n_clusters": d, "x": 0.1 * d}, np.full(3, d))
    assert [draw["n_clusters"] for draw in chain.draws()] == [0, 1, 2, 3]
    assert chain.rewind(2, 3) == [{"n_clusters": 0, "x": 0.0}, {"n_clusters": 1, "x": 0.1}]
    assert np.stack(chain.assignments(3, 2)).tolist() == [[0, 0, 0], [1, 1, 1]]
    chain.append_draw(2, {"n_clusters": 9, "x": 0.0}, np.full(3, 9))
    assert [draw["n_clusters"] for draw in chain.draws()] == [0, 1, 9]
    with pytest.raises(RunError, match="damaged"):
        chain.draws(7)


def test_matrices_of_any_width_by_hand(tmp_path):
    """Draws of Z have different numbers of columns, none at all too."""
    chain = ChainStore(tmp_path / "chain-0")
    chain.prepare()
    draws = [np.arange(3 * width, dtype=np.uint8).reshape(3, width) for width in (2, 0, 5, 1)]
    for d, Z in enumerate(draws):
        chain.append_draw(d, {"n_features": Z.shape[1]}, Z)
    chain.rewind(3, 3)
    assert sorted(os.listdir(tmp_path / "chain-0" / "assignments")) == ["000000.ub", "000001.ub", "000002.ub"]
    for Z, again in zip(draws, chain.assignments(3, 3), strict=False):
        np.testing.assert_array_equal(Z, again)
    with pytest.raises(RunError, match="could not read"):
        chain.assignments(3, 4)
