"""The proof of conforms.py is complete: what it assigns are all members of all lists."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from unbounded import engines, instantiation, likelihoods
from unbounded.models.families import FAMILIES
from unbounded.models.groups import contents
from unbounded.sources import formats


@pytest.fixture(scope="module")
def proof():
    for name in ("ray", "mpi4py"):
        pytest.importorskip(name)
    spec = importlib.util.spec_from_file_location("conforms", Path(__file__).parent / "conforms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_all_engines(proof):
    dotted = {name: f"{kind.__module__}.{kind.__name__}" for name, kind in proof.ENGINES.items()}
    assert dotted == {name: f"unbounded.engines.{place}" for name, place in engines.MEMBERS.items()}


def test_all_rules(proof):
    assert {type(rule) for rule in instantiation.MEMBERS.values()} == set(proof.RULES)


def test_all_likelihoods(proof):
    named = {member for family in FAMILIES for member in family.choices.likelihoods}
    assert named | {likelihoods.Product} == set(proof.LIKELIHOODS)


def test_all_samplers(proof):
    built = {sampler.build for registry in proof.SAMPLERS for sampler in registry.values()}
    assert built == set(proof.BUILDERS)
    classes = {kind for kind in built if isinstance(kind, type)}
    assert classes <= {*proof.MIXTURES, proof.SLICES, *proof.GROUPS, *proof.FEATURE_MODELS}
    offered = [kind._choices.samplers for family in FAMILIES for kind in family.estimators.values()]
    assert all(any(registry == known for known in proof.SAMPLERS) for registry in offered)


def test_all_measures(proof):
    proved = {*proof.PARTITIONS, *proof.HIERARCHIES, *proof.MEASURES}
    assert {measure for family in FAMILIES for measure in family.measures} == proved


def test_all_kernels(proof):
    proved = [proof.LABEL_KERNELS, proof.TABLE_KERNELS, proof.ENTRY_KERNELS]
    assert [family.choices.kernels for family in FAMILIES] == proved
    steps = [sampler.kernels for registry in proof.SAMPLERS for sampler in registry.values() if sampler.kernels]
    assert all(kernels in (proof.SLICES_OF_MIXTURES, proof.STEPS_OF_ALGORITHM_8) for kernels in steps)


def test_all_starts(proof):
    assert [family.choices.start for family in FAMILIES] == [proof.CLUSTERS, proof.TOPICS, proof.COLUMNS]


def test_all_contents_of_groups(proof):
    assert list(contents.CONTENTS) == [proof.WORDS, proof.ROWS] == list(proof.HELD)


def test_all_formats_of_files(proof):
    assert proof.READERS is formats.FORMATS
