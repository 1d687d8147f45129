"""Thousands of damaged run directories: each one is refused in a sentence, or gives the draws of the undamaged one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from runs import everything, model, rows, stopped

from damage import DAMAGES, Damage, check_sentence, examples
from unbounded import RunError
from unbounded.chain.store import EXTENSIBLE, RunStore
from unbounded.report import live, page, view

X = rows()
HARMLESS = ("about.json", "timing.json", "progress.json")
MODELS = ("mixture", "features", "words", "groups", "gamma-poisson")  # of a run directory of each kind
BEGUN, DONE = 5, 8  # draws


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return stopped(tmp_path_factory.mktemp("begun") / "run", 25)  # in the second chain


@pytest.fixture
def fits(monkeypatch):
    """A fit of every model, as engines are compared with."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "engines")
    return import_module("fits")


def files_of(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file())


def check_resumed(begun: Path, run: Path, n: int, resumed: Callable[[Path], Any], undisturbed: Any) -> None:
    """A copy of the run that was begun, damaged, goes on to the same draws, or is refused."""
    told: list[Damage] = []

    @examples(n)
    @given(DAMAGES)
    def damaged(how: Damage) -> None:
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(begun, run)
        files = files_of(run)
        before = how.done(files)
        changed = how.path(files).read_bytes() != before
        try:
            assert resumed(run) == undisturbed, how
        except RunError as error:
            check_sentence(error, how)
            assert changed, how
            told.append(how)

    damaged()
    assert len(told) > n / 4


@pytest.mark.parametrize("n", [60, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_wrong_draw(begun, tmp_path, n):
    undisturbed = everything(model().fit(X))
    check_resumed(begun, tmp_path / "run", n, lambda run: everything(model(run).fit(X)), undisturbed)


@pytest.mark.parametrize("n", [10, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", MODELS)
def test_no_wrong_draw_of_a_run_that_is_extended(fits, tmp_path, name, n):
    fit = fits.ALL_FITS[name]

    def resumed(run: Path) -> Any:
        return fits.everything(fit(engine="serial", checkpoint=run, n_draws=DONE))

    fit(engine="serial", checkpoint=tmp_path / "begun", n_draws=BEGUN)
    undisturbed = fits.everything(fit(engine="serial", n_draws=DONE))
    check_resumed(tmp_path / "begun", tmp_path / "run", n, resumed, undisturbed)


@pytest.mark.parametrize("n", [60, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_wrong_page(begun, tmp_path, n):
    """Of a report and of a live view: a file that no chain reads changes what they do not say, and nothing else."""
    run = shutil.copytree(begun, tmp_path / "run")
    files, whole = files_of(run), view.read(run).chains
    told: list[Damage] = []

    @examples(n)
    @given(DAMAGES)
    def damaged(how: Damage) -> None:
        before = how.done(files)
        try:
            warned = 'class="warn"' in live._Live(run).now()
            seen = view.read(run)
            page.render(seen)
            assert [chain.draws for chain in seen.chains] == [chain.draws for chain in whole], how
        except RunError as error:
            check_sentence(error, how)
            told.append(how)
            assert warned, how
        finally:
            how.path(files).write_bytes(before)

    damaged()
    assert len(told) > n / 4


def content(run: Path) -> list[Any]:
    """All that a resumed fit takes from a run directory."""
    store = RunStore(run)
    config = store.config()
    said: list[Any] = [{name: value for name, value in config.items() if name not in EXTENSIBLE}]
    for index in store.chains():
        chain = store.chain(index)
        saved = chain.checkpoint() or {}
        count = int(saved.get("n_draws", 0))
        whole = chain.snapshots()
        said.append([{name: value.tobytes() for name, value in arrays.items()} for arrays in (saved, *whole.values())])
        said.append([chain.draws(count), list(whole), [one.tobytes() for one in chain.assignments(len(X), count)]])
        chain.clock()
    return said


@pytest.mark.parametrize("n", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_wrong_file(begun, tmp_path, n):
    """The same of reading alone, which takes a thousandth of a second."""
    run = shutil.copytree(begun, tmp_path / "run")
    files, whole = [path for path in files_of(run) if path.name not in HARMLESS], content(run)
    told: list[Damage] = []

    @examples(n)
    @given(DAMAGES)
    def damaged(how: Damage) -> None:
        before = how.done(files)
        try:
            assert content(run) == whole, how
        except RunError as error:
            check_sentence(error, how)
            told.append(how)
        finally:
            how.path(files).write_bytes(before)

    damaged()
    assert len(told) > n / 2
