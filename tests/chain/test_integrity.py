"""Whatever is changed in a run directory is noticed by a resumed fit, a report and the live view, or does no harm."""

from __future__ import annotations

import html
import json
import re
import shutil
import signal
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from runs import WARMUP, at_round, cut_the_power, everything, model, rows, stopped

from unbounded import BetaBernoulliFeatures, PitmanYorMixture, RunError
from unbounded.arrays import unpacked_entries
from unbounded.chain import store
from unbounded.chain.store import ChainStore, RunStore, RunWarning, read_arrays, write_arrays
from unbounded.report import live, page, view

X = rows()
DOCS = Path(__file__).parents[2] / "docs" / "runs.md"


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return stopped(tmp_path_factory.mktemp("begun") / "run", 14)


@pytest.fixture
def run(begun, tmp_path):
    return shutil.copytree(begun, tmp_path / "run")


def edit_a_line(run):
    path = run / "chain-0" / "trace.jsonl"
    path.write_text(path.read_text().replace('"n_clusters": ', '"n_clusters": 1', 1))
    return "trace.jsonl is damaged: it was changed or cut"


def drop_a_line(run):
    path = run / "chain-0" / "trace.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:1] + lines[2:]))
    return "trace.jsonl is damaged"


def flip_a_label(run):
    path = run / "chain-0" / "assignments.bin"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    return "assignments.bin is damaged: it was changed or cut"


def delete_a_snapshot(run):
    path = sorted((run / "chain-0" / "snapshots").iterdir())[0]
    path.unlink()
    return f"{path.name} is damaged or missing"


def flip_a_snapshot(run):
    path = sorted((run / "chain-0" / "snapshots").iterdir())[0]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    return f"{path.name} is damaged"


def exchange_snapshots(run):
    one, other = sorted((run / "chain-0" / "snapshots").iterdir())[:2]
    shutil.copy(one, other)
    return f"{other.name} is damaged or missing"


def add_a_snapshot(run):
    path = run / "chain-0" / "snapshots" / "notes.ub"
    shutil.copy(sorted((run / "chain-0" / "snapshots").iterdir())[0], path)
    return "notes.ub is not of this run; remove it"


def add_a_whole_draw(run):
    there = sorted((run / "chain-0" / "snapshots").iterdir())
    path = there[0].with_name("000004.ub")
    assert path not in there, "it was never kept whole"
    shutil.copy(there[0], path)
    return "000004.ub is not of this run; remove it"


def remove_a_key(run):
    config = json.loads((run / "run.json").read_text())
    del config["seed"]
    (run / "run.json").write_text(json.dumps(config))
    return "seed|run.json was changed"


def change_a_setting(run):
    config = json.loads((run / "run.json").read_text())
    config["thin"] = 1
    (run / "run.json").write_text(json.dumps(config))
    return "thin|run.json was changed"


def change_the_length(run):
    config = json.loads((run / "run.json").read_text())
    config["n_draws"] -= 1
    (run / "run.json").write_text(json.dumps(config))
    return "run.json was changed; restore it from a backup or fit again"


def change_an_older_run(run):
    config = json.loads((run / "run.json").read_text())
    del config["sha256"], config["thin"]
    (run / "run.json").write_text(json.dumps(config))
    return "thin|checkpoint.ub belongs to another run, or run.json was changed"


def delete_a_checkpoint(run):
    (run / "chain-0" / "checkpoint.ub").unlink()
    return "checkpoint.ub is missing, although there are draws"


def come_from_the_future(run):
    path = run / "chain-0" / "checkpoint.ub"
    path.write_bytes(path.read_bytes().replace(b"unbounded 2", b"unbounded 9", 1))
    return "written by a later version"


def add_a_chain(run):
    shutil.copytree(run / "chain-0", run / "chain-2")
    return "chain-2 is not of this run, which has n_chains=2; remove it"


CHANGES = (
    edit_a_line, drop_a_line, flip_a_label, delete_a_snapshot, flip_a_snapshot, exchange_snapshots, add_a_snapshot,
    add_a_whole_draw, remove_a_key, change_a_setting, change_the_length, change_an_older_run, come_from_the_future,
    delete_a_checkpoint, add_a_chain,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_was_changed_is_said(run, change):
    said = change(run)
    for read in (lambda: model(run).fit(X), lambda: view.read(run), lambda: view.check_files(run)):
        with pytest.raises(RunError, match=said) as error:
            read()
        assert "\n" not in str(error.value)
        assert str(error.value).endswith(".")
    with live.server(run) if said.find("run.json") < 0 else nullcontext() as server:
        assert server is None or re.search(said, html.unescape(server.RequestHandlerClass.live.now()))


def contents(run):
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_refused_resume_leaves_everything_as_it_was(run, change):
    change(run)
    before = contents(run)
    with pytest.raises(RunError):
        model(run, n_draws=30).fit(X)
    assert contents(run) == before


def test_no_chain_goes_on_where_a_later_one_is_damaged(begun, tmp_path):
    run = stopped(tmp_path / "run", 25)
    shutil.rmtree(run / "chain-0")
    shutil.copytree(begun / "chain-0", run / "chain-0")
    (run / "chain-1" / "checkpoint.ub").write_bytes(b"")
    before = contents(run)
    with pytest.raises(RunError, match=r"chain-1.*is damaged"):
        model(run).fit(X)
    assert contents(run) == before


@pytest.mark.parametrize("line", ['{"draw": 4, "n_clusters": 99.0}\n', "hello\n", '{"draw": 4, "n_clu'])
def test_what_is_behind_the_checkpoint_is_no_draw(tmp_path, line):
    """It is made anew where the chain goes on, and nobody believes it before."""
    run, brief = tmp_path / "run", {"n_chains": 1, "n_snapshots": 4}
    model(run, n_draws=4, **brief).fit(X)
    page_before, live_before = page.render(view.read(run)), live.render(run).partition("Traces")[2]
    there = [path for path in run.rglob("*") if path.is_dir()]
    trace = run / "chain-0" / "trace.jsonl"
    last = json.loads(trace.read_text().splitlines()[-1])
    added = line if "99" not in line else json.dumps(last | json.loads(line)) + "\n"
    trace.write_text(trace.read_text() + added)
    assert RunStore(run).n_draws() == 4
    assert page.render(view.read(run)) == page_before
    assert live.render(run).partition("Traces")[2] == live_before
    assert [path for path in run.rglob("*") if path.is_dir()] == there, "who reads makes no folders"
    assert everything(model(run, n_draws=6, **brief).fit(X)) == everything(model(n_draws=6, **brief).fit(X))


def test_a_folder_that_is_nearly_a_chain(run):
    (run / "chain-03").mkdir()
    view.read(run)
    view.check_files(run)
    assert sorted(path.name for path in run.glob("chain-*")) == ["chain-0", "chain-03"]


def test_a_view_that_is_open_notices(run):
    """When the chain has gone on: what was looked at is not read again."""
    with live.server(run) as server:
        seen = server.RequestHandlerClass.live
        assert "is damaged" not in seen.now()
        model(run).fit(X)
        said = edit_a_line(run)
        seen._made = -np.inf  # a second later
        assert said in seen.now()


@pytest.mark.parametrize("read", [lambda run: view.read(run).chains[0].draws, view.check_files], ids=["report", "live"])
def test_a_reader_may_come_while_snapshots_are_dropped(tmp_path, monkeypatch, read):
    """The checkpoint that it has read knows of them; the next one does not."""
    for n_draws, name in ((4, "run"), (8, "later")):
        model(tmp_path / name, n_draws=n_draws, n_snapshots=2, n_chains=1).fit(X)
    check, began = ChainStore._check, []

    def goes_on(*given):
        if not began:
            began.append(True)
            shutil.rmtree(tmp_path / "run")
            shutil.copytree(tmp_path / "later", tmp_path / "run")
        check(*given)

    monkeypatch.setattr(ChainStore, "_check", goes_on)
    assert read(tmp_path / "run") == read(tmp_path / "later")


def test_files_that_are_nobodys_business(run):
    undisturbed = everything(model().fit(X))
    (run / "notes.txt").write_text("do not touch")
    (run / "chain-0" / "snapshots" / "notes.txt").write_text("do not touch")
    for content in ("{", "[" * 100_000, '{"rounds": null, "seconds": {"start": "x", "warm-up": []}}', '{"seconds": 3}'):
        (run / "chain-0" / "timing.json").write_text(content)
        view.read(run)
    for name in ("about.json", "progress.json"):
        known = json.loads((run / name).read_text())
        for value in ([], {"a": 1}, "x"):
            (run / name).write_text(json.dumps(dict.fromkeys(known, value) | {"sha256": known["sha256"]}))
            page.render(view.read(run))
            live.render(run)
    (run / "about.json").unlink()
    assert everything(model(run).fit(X)) == undisturbed


@pytest.mark.parametrize("exact", [True, False])
def test_whether_draws_are_exact_is_part_of_the_checkpoint(run, exact):
    """A file that is there for people to read does not vouch for it."""
    for chain in run.glob("chain-*"):
        arrays = read_arrays(chain / "checkpoint.ub")
        assert arrays["exact"]
        write_arrays(chain / "checkpoint.ub", arrays | {"exact": np.array(exact)})
    (run / "about.json").write_text(json.dumps({"exact": not exact}))
    assert view.read(run).exact is exact


def test_other_versions_are_a_warning(run, monkeypatch):
    known = store.versions()
    monkeypatch.setattr(store, "versions", lambda: known | {"numpy": "9.9"})
    with pytest.warns(RunWarning, match=f"written with numpy {known['numpy']}, now 9.9; from here on"):
        model(run).fit(X)


def test_checkpoints_that_know_of_no_files_are_read(run):
    """Those of older versions."""
    for chain in ("chain-0", "chain-1"):
        path = run / chain / "checkpoint.ub"
        if path.exists():
            arrays = read_arrays(path)
            write_arrays(path, {name: value for name, value in arrays.items() if name not in ("files", "versions")})
        trace = run / chain / "trace.jsonl"
        if trace.exists():
            lines = [json.loads(line) for line in trace.read_text().splitlines()]
            trace.write_text("".join(json.dumps({k: v for k, v in x.items() if k != "draw"}) + "\n" for x in lines))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert everything(model(run).fit(X)) == everything(model().fit(X))


def as_version_1(run):
    """Matrices Z as bytes, labels in four of them, and the line that says so."""
    digests = {}
    for path in [*run.rglob("snapshots/*.ub"), *run.rglob("checkpoint.ub")]:
        arrays = read_arrays(path)
        for name in [name for name in arrays if name.rpartition("/")[2] == "bits"]:
            shape = name.removesuffix("bits") + "shape"
            arrays[name.removesuffix("bits") + "Z"] = unpacked_entries(
                {"bits": arrays.pop(name), "shape": arrays.pop(shape)}
            )
        for name in [name for name in arrays if name.rpartition("/")[2] == "labels"]:
            arrays[name] = arrays[name].astype(np.int32)
        if "files" in arrays:
            files = json.loads(arrays["files"].tobytes())
            files["whole"] |= digests
            arrays["files"] = np.frombuffer(json.dumps(files).encode(), np.uint8)
        digests[f"snapshots/{path.name}"] = write_arrays(path, arrays)
        path.write_bytes(path.read_bytes().replace(b"unbounded 2", b"unbounded 1", 1))


@pytest.mark.parametrize("kind", [PitmanYorMixture, BetaBernoulliFeatures])
def test_runs_of_version_1_go_on(tmp_path, kind):
    brief = {"n_shards": 2, "n_warmup": 3, "n_chains": 1, "n_snapshots": 4, "n_workers": 1, "random_state": 9}
    kind(checkpoint=tmp_path, n_draws=6, **brief).fit(X)
    as_version_1(tmp_path)
    later, straight = (kind(checkpoint=where, n_draws=12, **brief).fit(X) for where in (tmp_path, None))
    assert later.posterior_.to_dict() == straight.posterior_.to_dict()
    np.testing.assert_array_equal(later.score_samples(X), straight.score_samples(X))


def as_before_jumps(run):
    """As runs were when mixtures had no jumps and began with k-means: neither run.json nor checkpoints said more."""
    config = json.loads((run / "run.json").read_text())
    del config["format"], config["sha256"]
    (run / "run.json").write_text(json.dumps(config | {"init": "kmeans++"}))
    for path in run.rglob("checkpoint.ub"):
        arrays = {k: v for k, v in read_arrays(path).items() if k not in ("files", "versions")}
        write_arrays(path, arrays | {"run": RunStore(run).chain(0)._run})


def test_runs_from_before_there_were_jumps_go_on_without(tmp_path):
    brief = {"n_shards": 2, "n_warmup": 3, "n_chains": 1, "n_snapshots": 4, "n_workers": 1, "random_state": 9}
    PitmanYorMixture(checkpoint=tmp_path, n_draws=6, jumps=False, **brief).fit(X)
    as_before_jumps(tmp_path)
    with pytest.raises(RunError, match="a run with other jumps"):
        PitmanYorMixture(checkpoint=tmp_path, n_draws=12, jumps=True, **brief).fit(X)
    later = PitmanYorMixture(checkpoint=tmp_path, n_draws=12, **brief).fit(X)
    straight = PitmanYorMixture(jumps=False, n_draws=12, **brief).fit(X)
    assert later.posterior_.to_dict() == straight.posterior_.to_dict()
    shutil.rmtree(tmp_path / "chain-0")
    with pytest.raises(RunError, match="a run with other init"):  # which would matter now
        PitmanYorMixture(checkpoint=tmp_path, n_draws=12, **brief).fit(X)


def test_a_run_with_jumps_does_not_go_on_without(run):
    with pytest.raises(RunError, match="a run with other jumps"):
        model(run, jumps=False).fit(X)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_schedulers_are_heard(tmp_path, monkeypatch, number):
    """What they send before they kill does what Ctrl-C does; an answer that somebody else has is left alone."""
    before = signal.signal(number, signal.SIG_DFL)  # whatever the tests themselves were started with
    try:
        with monkeypatch.context() as patch:
            at_round(patch, WARMUP + 5, lambda: signal.raise_signal(number))
            assert model(tmp_path).fit(X).interrupted_
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert everything(model(tmp_path).fit(X)) == everything(model().fit(X))


def test_the_first_checkpoint_is_that_of_the_start(tmp_path, monkeypatch):
    """A run that dies at once does not have to start again."""
    with monkeypatch.context() as patch:
        at_round(patch, 1, cut_the_power)
        with pytest.raises(RuntimeError, match="power"):
            model(tmp_path).fit(X)
    assert int(read_arrays(tmp_path / "chain-0" / "checkpoint.ub")["state/round"]) == 0
    assert everything(model(tmp_path).fit(X)) == everything(model().fit(X))


def test_the_format_is_as_documented(run):
    """Twenty lines of NumPy, as docs/runs.md has them."""
    page = DOCS.read_text().split("```python")[1].split("```")[0]
    names: dict = {}
    exec(page, names)
    draws, snapshot, checkpoint = names["read"](run / "chain-0")
    assert [draw["draw"] for draw in draws] == list(range(len(draws)))
    assert snapshot["labels"].shape == (len(X),)
    assert int(checkpoint["n_draws"]) == len(draws)


def test_the_format_of_features_is_as_documented(tmp_path):
    """Whole draws have Z in bits, and draws of it have their own files."""
    brief = {"n_chains": 1, "n_warmup": 2, "n_draws": 4, "n_shards": 2, "random_state": 0, "keep_assignments": True}
    fitted = BetaBernoulliFeatures(checkpoint=tmp_path, **brief).fit(X)
    names: dict = {}
    exec(DOCS.read_text().split("```python")[1].split("```")[0], names)
    draws, snapshot, _ = names["read"](tmp_path / "chain-0")
    last = names["arrays"](tmp_path / "chain-0" / "assignments" / "000003.ub")
    for arrays in (snapshot, last):
        Z = np.unpackbits(arrays["bits"], count=int(np.prod(arrays["shape"]))).reshape(arrays["shape"])
        np.testing.assert_array_equal(Z, fitted.posterior_["assignments"][0, -1, :, : Z.shape[1]])
        assert Z.shape == (len(X), draws[-1]["n_features"])
