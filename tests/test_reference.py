"""The reference: everything public is on one of its pages, and has an example, which runs.

Examples of a method go on from the one of its class, as a reader would: all of a class run in one namespace, in the
order of the source, those that it inherits last.
"""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest

import unbounded as ub
from unbounded import datasets, sources

PAGES = Path(__file__).parents[1] / "docs" / "reference"
ESTIMATORS = [name for name in ub.__all__ if hasattr(getattr(ub, name), "fit")]
OTHERS = {name: getattr(ub, name) for name in ub.__all__ if name not in ESTIMATORS}
OTHERS |= {name: getattr(datasets, name) for name in datasets.__all__ if callable(getattr(datasets, name))}
OTHERS["shard"] = sources.shard
WITH_METHODS = (
    "Source",
    "GaussianMixtureData",
    "CambridgeData",
)  # of the others; the rest is described by contracts.py


def methods(kind: type) -> dict[str, str]:
    """Public methods and properties of ours, with their docstrings: those of the class, then what it inherits."""
    found = {}
    for owner in kind.__mro__:
        if owner.__module__.partition(".")[0] != "unbounded":
            continue
        for name, value in vars(owner).items():
            documented = value.fget if isinstance(value, property) else value
            if not name.startswith("_") and inspect.isfunction(documented):
                found.setdefault(name, inspect.getdoc(documented) or "")
    return found


def run(docs: dict[str, str], names: dict[str, object]) -> None:
    """All examples, one after another, in one namespace."""
    for name, text in docs.items():
        test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
        report: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
        assert not report, "".join(report)
        names = test.globs


@pytest.mark.parametrize("name", ESTIMATORS)
def test_examples_of_estimators(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    docs = methods(getattr(ub, name))
    assert {"fit", "score"} <= set(docs)
    lacking = [method for method, text in docs.items() if ">>>" not in text]
    assert not lacking, f"{name} has methods without an example: {', '.join(lacking)}."
    run({name: inspect.getdoc(getattr(ub, name)) or ""} | docs, {})


@pytest.mark.parametrize("name", [name for name in OTHERS if name != "report"])
def test_examples_of_everything_else(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    docs = {name: inspect.getdoc(OTHERS[name]) or ""}
    docs |= methods(OTHERS[name]) if name in WITH_METHODS else {}
    if not _raised(OTHERS[name]) and not name.endswith("Data"):
        assert all(">>>" in text for text in docs.values()), f"{name} or one of its methods has no example."
    run(docs, {})


def test_the_example_of_the_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run({"report": inspect.getdoc(ub.report) or ""}, {})


def _raised(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def test_everything_public_is_on_a_page():
    said = [line for page in PAGES.glob("*.md") for line in re.findall(r"^::: (\S+)", page.read_text(), re.M)]
    where = {f"{value.__module__}.{value.__qualname__}" for value in OTHERS.values()}
    where |= {f"{getattr(ub, name).__module__}.{name}" for name in ESTIMATORS}
    assert sorted(said) == sorted(where)
