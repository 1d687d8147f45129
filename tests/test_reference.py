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
from unbounded import contracts, datasets, sources

PAGES = Path(__file__).parents[1] / "docs" / "reference"
ESTIMATORS = [name for name in ub.__all__ if hasattr(getattr(ub, name), "fit")]
OTHERS = {name: getattr(ub, name) for name in ub.__all__ if name not in ESTIMATORS}
OTHERS |= {name: getattr(datasets, name) for name in datasets.__all__ if callable(getattr(datasets, name))}
OTHERS["shard"] = sources.shard
BETWEEN_MODELS = ("PitmanYor", "BetaBernoulli", "GammaPoisson", "BetaNegativeBinomial")
MEASURE = {name for name in vars(contracts.Measure) if not name.startswith("_")}  # what they show; the rest is theirs


def methods(kind: type) -> dict[str, str]:
    """Public methods and properties of ours, with their docstrings: those of the class, then what it inherits."""
    found = {}
    for owner in kind.__mro__:
        if owner.__module__.partition(".")[0] != "unbounded":
            continue
        for name, value in vars(owner).items():
            documented = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
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
    docs = {name: inspect.getdoc(OTHERS[name]) or ""} | shown(name)
    lacking = [part for part, text in docs.items() if ">>>" not in text]
    if not _raised(OTHERS[name]) and not name.endswith("Data"):
        assert not lacking, f"{name} has no example of {', '.join(lacking)}."
    run(docs, {})


def shown(name: str) -> dict[str, str]:
    """Methods that a page of the reference has."""
    all_of_them = methods(OTHERS[name]) if isinstance(OTHERS[name], type) else {}
    return {method: text for method, text in all_of_them.items() if name not in BETWEEN_MODELS or method in MEASURE}


@pytest.mark.parametrize("name", [name for name in OTHERS if shown(name)])
def test_pages_show_methods_with_examples(name):
    pages = "\n".join(page.read_text() for page in PAGES.glob("*.md"))
    found = re.search(rf"^::: \S+\.{name}\n(?:    options:\n      members: (.+))?", pages, re.M)
    listed = None if found[1] is None else set(re.findall(r"\w+", found[1]))
    assert listed is None or listed == set(shown(name)), f"docs/reference shows other methods of {name}."


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
