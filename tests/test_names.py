"""One word, one meaning: a class name that occurs twice stands for the same thing in two places."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import unbounded

PACKAGE = Path(unbounded.__file__).parent

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
    "Taken": "where the columns of Z come from, on the host and on a device",
    "_Crew": "the workers of an engine, and the way to them",
    "_Member": "one worker of a crew",
}


def test_a_class_name_has_one_meaning():
    files = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert {name for name, places in files.items() if len(places) > 1} == set(SHARED)
