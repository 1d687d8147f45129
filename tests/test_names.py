"""Class names: one that occurs twice means the same in both places. What belongs to models stays in their folders."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import unbounded
from unbounded import likelihoods
from unbounded.models.families import FAMILIES

PACKAGE = Path(unbounded.__file__).parent
TREES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}

# What the names mean that more than one file defines: the same idea for two models, devices or engines.
SHARED = {
    "Bound": "a likelihood with its prior, bound to columns: the protocol, and what likelihoods of mixtures share",
    "Draw": "what prediction needs of a draw",
    "Finite": "the finite part, as compiled code takes it",
    "Jumps": "how much is tried in a round of moves of whole atoms",
    "Launched": "sets that may be worth a cut, and the odds of it",
    "Odds": "what a launch says of the entries of its columns, on the host and on a device",
    "Pool": "random rows at the driver, which launches see first",
    "Proposal": "a move that is tried on the whole data",
    "ReferenceTail": "the tail of a kernel in NumPy",
    "Scratch": "memory that compiled code writes besides its results",
    "SweepKeys": "the random numbers of a sweep",
    "Tail": "the collapsed state of a shard's private atoms",
    "_Crew": "the workers of an engine, and the way to them",
    "_Member": "one worker of a crew",
}


def classes(tree: ast.Module) -> set[str]:
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def test_a_class_name_has_one_meaning():
    files = defaultdict(list)
    for file, tree in TREES.items():
        for name in classes(tree):
            files[name].append(file)
    assert {name for name, places in files.items() if len(places) > 1} == set(SHARED)


# ---- outside of a model's folder, nobody names the model

LISTS = ("models/families.py", "public.py", "__init__.py")  # of all models, and of all public names
OUTSIDE = [file for file in TREES if file not in LISTS and not file.startswith("models/")]
ESTIMATORS = {kind.__name__ for family in FAMILIES for kind in family.estimators.values()}


@cache
def classes_of_models() -> set[str]:
    inside = {name for file, tree in TREES.items() if file.startswith("models/") for name in classes(tree)}
    return inside - {name for file in OUTSIDE for name in classes(TREES[file]) | names_of_types(TREES[file])}


def names_of_types(tree: ast.Module) -> set[str]:
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


@cache
def words_of_models() -> set[str]:
    """What only some families call a model, a sampler or a likelihood; likelihoods of an axis belong to everybody."""
    called = [
        {*family.estimators, *family.choices.samplers, *(kind.name for kind in family.choices.likelihoods)}
        for family in FAMILIES
    ]
    return set().union(*called) - set.intersection(*called) - {kind.name for kind in likelihoods.MEMBERS}


def said(tree: ast.Module) -> Iterator[str]:
    """Identifiers, imports and strings; of longer texts, the names of estimators. Docstrings may have examples."""
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield repr(node.value)
            yield from ESTIMATORS & set(re.findall(r"\w+", node.value))


@pytest.mark.parametrize("file", OUTSIDE)
def test_nothing_outside_of_a_models_folder_names_the_model(file):
    strings = {repr(name) for name in classes_of_models() | words_of_models()}
    assert sorted({*said(TREES[file])} & (classes_of_models() | strings)) == []


# What only one model has; scikit-learn has features, too.
OF_ONE_MODEL = re.compile(
    r"\b(topic|document|token|perplexit|vocabular|dish|franchise|cluster|merge_cost|loading)(e?s|y|ies)?\b",
    re.IGNORECASE,
)
SPEAK_OF_MODELS = {
    "datasets/": "data that are made for one kind of model say what is in them",
    "engines/ray.py": "Ray has clusters of machines, and a token that opens them",
}


def described(tree: ast.Module) -> Iterator[str]:
    """Docstrings, and names of parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        if isinstance(node, ast.arg):
            yield node.arg


@pytest.mark.parametrize("file", [file for file in OUTSIDE if not file.startswith(tuple(SPEAK_OF_MODELS))])
def test_nothing_outside_of_a_models_folder_is_described_in_its_words(file):
    assert [match[0] for text in described(TREES[file]) for match in OF_ONE_MODEL.finditer(text)] == []


@pytest.mark.parametrize("place", SPEAK_OF_MODELS)
def test_who_speaks_of_models_does(place):
    texts = [text for file in OUTSIDE if file.startswith(place) for text in described(TREES[file])]
    assert any(map(OF_ONE_MODEL.search, texts))


def test_names_of_models_are_found():
    """The check above has something to look for, and sees it."""
    assert {"DirichletProcessMixture", "Tokens", "PitmanYor"} <= classes_of_models()
    assert {"hdp", "beta-bernoulli", "subcluster", "linear_gaussian"} <= words_of_models()
    assert "gaussian" not in words_of_models()
    naming = ast.parse("if kind.name == 'Tokens' or model == 'hdp':\n    raise ValueError('See PitmanYorMixture.')")
    assert {"'Tokens'", "'hdp'", "PitmanYorMixture"} <= set(said(naming))
    naming = ast.parse('def report(vocabulary, n_features):\n    "Draws topics of dishes, n_features at a time."')
    found = [match[0] for text in described(naming) for match in OF_ONE_MODEL.finditer(text)]
    assert sorted(found) == ["dishes", "topics", "vocabulary"]
