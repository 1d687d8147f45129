"""The reference: everything public is on one of its pages, and has an example, which runs, and an entry for every
parameter, with its default.

Examples of a method go on from the one of its class, as a reader would: all of a class run in one namespace, in the
order of the source, those that it inherits last.
"""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
from pathlib import Path

import griffe
import pytest

import unbounded as ub
from unbounded import contracts, datasets, sources
from unbounded.docstrings import ATTRIBUTES, PARAMETERS, entries

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
    if _raised(OTHERS[name]) or name.endswith("Data"):  # made by others, whose examples show them
        docs.pop(name)
    lacking = [part for part, text in docs.items() if ">>>" not in text]
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


# ---- parameters


def literal(text: str) -> object:
    return eval(text, {name: getattr(ub, name) for name in ub.__all__})


def default_of(name: str, kind: type | object, given: inspect.Parameter) -> object:
    """What is taken where nothing is given; dataclasses make some of them."""
    made = getattr(kind, "__dataclass_fields__", {}).get(name)
    return made.default_factory() if made and made.default_factory is not dataclasses.MISSING else given.default


DOCUMENTED = {name: getattr(ub, name) for name in ESTIMATORS} | OTHERS
DOCUMENTED = {name: value for name, value in DOCUMENTED.items() if not _raised(value)}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_parameter_is_documented_with_its_default(name):
    """Those of results are attributes."""
    kind = DOCUMENTED[name]
    section = ATTRIBUTES if hasattr(kind, "_fields") else PARAMETERS
    said = entries(inspect.getdoc(kind), section)
    taken = inspect.signature(kind).parameters
    assert set(said) == set(taken)
    for parameter, entry in said.items():
        head, _, meaning = entry.partition("\n")
        assert meaning.strip(), f"{parameter} of {name} says nothing."
        default = re.search(r", default (.+)$", head)
        actual = default_of(parameter, kind, taken[parameter])
        assert (default is None) == (actual is inspect.Parameter.empty), f"{parameter} of {name} and its default"
        assert default is None or literal(default[1]) == actual, f"{parameter} of {name} is {actual!r} by default."


@pytest.mark.parametrize("name", DOCUMENTED)
def test_parameters_of_methods_are_those_that_they_have(name):
    for owner in DOCUMENTED[name].__mro__ if isinstance(DOCUMENTED[name], type) else ():
        for method, value in vars(owner).items():
            said = entries(inspect.getdoc(value) or "", PARAMETERS) if inspect.isfunction(value) else {}
            if said and not method.startswith("_") and owner.__module__.startswith("unbounded"):
                taken = inspect.signature(value).parameters
                assert set(said) == set(taken) - {"self", "y"}
                for parameter, entry in said.items():
                    default = re.search(r", default (.+)$", entry.partition("\n")[0])
                    assert literal(default[1] if default else "None") == taken[parameter].default


def test_names_of_tables_are_single_names():
    """An entry of several parameters would be a row of the reference with the default of none of them."""
    for path in (Path(ub.__file__).parent).rglob("*.py"):
        assert not re.findall(r"^ +\w+, [\w, ]+ : .*$", path.read_text(), re.M)


def test_help_and_the_reference_show_the_same():
    """The reference reads sources, and so an extension of it looks docstrings up that are made by code."""
    package = griffe.load(
        "unbounded", search_paths=[PAGES.parents[1] / "src"],
        extensions=griffe.load_extensions(str(PAGES.parents[1] / "tools" / "site" / "made_docstrings.py")),
    )  # fmt: skip
    for name in ESTIMATORS:
        kind = getattr(ub, name)
        shown = package[f"{kind.__module__}.{name}".removeprefix("unbounded.")]
        parsed = [part for part in shown.docstring.parse("numpy") if part.kind.value == "parameters"]
        assert {row.name for row in parsed[0].value} == set(inspect.signature(kind).parameters)
