"""docs/theory.md: what stands behind a statement is there, a test by file and name or a planted mistake."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "exactness"))

from mutant_list import MUTANTS  # noqa: E402

PAGE = (ROOT / "docs" / "theory.md").read_text()
BRACKETS = [re.sub(r"\s+", " ", words) for words in re.findall(r"\[((?:[^\[\]]|\[[^\]]*\])*)\](?!\()", PAGE)]
TESTS = sorted({found for words in BRACKETS for found in re.findall(r"`(tests/[^`]+)`", words)})
NAMED = sorted({name for words in BRACKETS if "utant" in words for name in re.findall(r'"([^"]+)"', words)})


def test_the_page_has_statements_with_something_behind_them():
    assert len(TESTS) > 25
    assert len(NAMED) > 25


@pytest.mark.parametrize("test", TESTS)
def test_tests_exist(test):
    file, _, name = test.partition("::")
    assert (ROOT / file).is_file()
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", NAMED)
def test_mutants_exist(name):
    assert name in {mutant.name for mutant in MUTANTS}


def test_every_lemma_and_proposition_has_a_test():
    """From its head to the next one there is at least one bracket with a test."""
    heads = list(re.finditer(r"^\*\*(?:Lemma|Proposition|Theorem)\b[^*]*\*\*", PAGE, re.MULTILINE))
    assert len(heads) > 12
    ends = [*(head.start() for head in heads[1:]), len(PAGE)]
    bare = {"Lemma 1 (restriction).", "Lemma 8 (choosing without looking)."}  # what the next one rests on
    for head, end in zip(heads, ends, strict=True):
        text = PAGE[head.start() : end]
        assert head[0].strip("*") in bare or "`tests/" in text or "utant" in text, head[0]
