"""Mistakes that nobody thought of: a sign, a bound, a number or a term changed at a random place of the sources.

Each change is one that a tired programmer makes, on one line. The tests of its file (`TESTED_BY`) must notice. Some
changes mean nothing (a message, a block size, a bound that is never met): whoever reads the list of survivors decides.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "unbounded"

# The longest prefix of a path of the package says which tests are its own.
_SHOWN = "tests/report/test_page.py tests/report/test_plots.py tests/test_cli.py"
_OF_MOVES = "tests/models/features/test_passes.py tests/exactness/test_feature_jumps.py"
TESTED_BY = {
    "arrays.py": "tests/models/features tests/chain/test_store.py",
    "categories.py": "tests/test_conventions.py",
    "cli/": "tests/test_cli.py",
    "contracts.py": "tests/engines/test_together.py tests/engines/test_conformance.py",
    "setup.py": "tests/models/mixtures/test_mixture_input.py tests/models/mixtures/test_mixtures.py",
    "chain/": "tests/chain",
    "chain/convergence.py": "tests/chain/test_convergence.py",
    "chain/diagnostics.py": "tests/chain/test_convergence.py",
    "chain/lock.py": "tests/chain/test_lock.py",
    "chain/store.py": "tests/chain/test_store.py tests/chain/test_integrity.py tests/chain/test_resume.py",
    "chain/export.py": "tests/models/mixtures/test_mixtures.py tests/chain/test_convergence.py",
    "sources/": "tests/sources/test_sources.py tests/sources/test_source_errors.py tests/sources/test_shard.py "
    "tests/sources/test_fits.py",
    "columns.py": "tests/sources/test_sources.py tests/conformance/test_likelihoods.py "
    "tests/models/mixtures/test_mixture_input.py",
    "rows.py": "tests/sources/test_sources.py tests/sources/test_fits.py tests/models/mixtures/test_mixtures.py",
    "priors.py": "tests/conformance/test_measures.py tests/exactness/test_geweke.py",
    "randomness.py": "tests/conformance/test_measures.py tests/exactness/test_enumeration.py",
    "instantiation.py": "tests/conformance/test_rules.py tests/exactness/test_enumeration.py",
    "datasets/": "tests/test_datasets.py",
    "holdout.py": "tests/test_datasets.py",
    "shares.py": "tests/test_datasets.py",
    "disk.py": "tests/chain/test_store.py tests/chain/test_lock.py tests/chain/test_integrity.py",
    "round.py": "tests/chain/test_resume.py tests/exactness/test_enumeration.py",
    "estimator.py": "tests/models/mixtures/test_mixtures.py tests/chain",
    "inputs.py": "tests/models/mixtures/test_mixture_input.py tests/models/features/test_feature_input.py",
    "outputs.py": "tests/models/mixtures/test_mixtures.py tests/test_conventions.py",
    "report/": "tests/report/test_page.py tests/report/test_plots.py",
    "report/view.py": "tests/chain/test_integrity.py tests/report/test_page.py",
    "report/live.py": "tests/report/test_live.py tests/chain/test_integrity.py",
    "compiled/": "tests/compiled tests/conformance/test_kernels.py",
    "engines/": "tests/engines",
    "gpu/": "tests/gpu",
    "likelihoods/": "tests/conformance/test_likelihoods.py tests/exactness/test_enumeration.py",
    "models/labelled/": "tests/models/labelled tests/models/mixtures/test_mixtures.py",
    "models/labelled/device.py": "tests/gpu/test_gpu_fits.py",
    "models/labelled/halves.py": "tests/exactness/test_jumps.py",
    "models/mixtures/": "tests/models/mixtures tests/exactness/test_enumeration.py",
    "models/mixtures/device.py": "tests/gpu tests/exactness/test_device.py",
    "models/mixtures/gpu/": "tests/gpu",
    "models/mixtures/measure.py": "tests/conformance/test_measures.py tests/exactness/test_enumeration.py",
    **{
        f"models/mixtures/{name}.py": "tests/exactness/test_jumps.py"
        for name in ("jump", "cuts", "launch", "merges", "neighbours", "pairs")
    },
    "models/mixtures/kernel.py": "tests/conformance/test_kernels.py tests/exactness/test_enumeration.py",
    "models/mixtures/own.py": "tests/models/mixtures/test_own.py",
    "models/mixtures/rivals/": "tests/exactness/test_rivals.py tests/exactness/test_approximate.py",
    "models/groups/": "tests/models/groups tests/conformance/test_group_kernels.py tests/exactness/test_franchise.py",
    **{f"models/groups/{name}.py": "tests/exactness/test_group_jumps.py" for name in ("jump", "tables", "words/cuts")},
    "models/groups/reference": "tests/conformance/test_group_kernels.py",
    "models/groups/measure.py": "tests/conformance/test_group_measures.py tests/models/groups/test_group_measure.py "
    "tests/exactness/test_franchise.py",
    "models/features/": "tests/models/features tests/conformance/test_feature_likelihoods.py "
    "tests/conformance/test_feature_measures.py tests/conformance/test_feature_kernels.py "
    "tests/exactness/test_feature_enumeration.py",
    **{f"models/features/{name}.py": _OF_MOVES for name in ("column_moves", "fold", "jump", "launch", "passes")},
    "models/features/reference.py": "tests/conformance/test_feature_kernels.py",
    "models/features/rivals/": "tests/exactness/test_rivals.py tests/exactness/test_approximate.py",
    "models/features/device.py": "tests/gpu",
    "models/features/gpu/": "tests/gpu",
    "models/mixtures/describe.py": _SHOWN,
    "models/mixtures/rows_shown.py": _SHOWN,
    **{
        f"models/{model}/{name}.py": _SHOWN
        for model in ("mixtures", "groups", "features") for name in ("family", "plots", "show")
    },
}  # fmt: skip
ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
ORDER = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}


def generated(count: int, seed: int, only: Sequence[str] = ()) -> Iterator[tuple[str, Path, str, str]]:
    """(name, file, its text after the change, the tests that should notice), at places drawn without replacement."""
    found = [
        (path, checks, *change)
        for path in sorted(SOURCE.rglob("*.py"))
        if (checks := tested_by(path)) and (not only or str(path.relative_to(SOURCE)).startswith(tuple(only)))
        for change in _changes(path.read_text())
    ]
    for path, checks, line, column, old, new in random.Random(seed).sample(found, min(count, len(found))):
        lines = path.read_text().splitlines(keepends=True)
        text = lines[line - 1]
        lines[line - 1] = text[:column] + new + text[column + len(old) :]
        name = f"{path.relative_to(SOURCE)}:{line}:{column} {old.strip()} -> {new.strip() or 'nothing'}"
        yield name, path, "".join(lines), checks


def tested_by(path: Path) -> str:
    name = str(path.relative_to(SOURCE))
    fits = [prefix for prefix in TESTED_BY if name.startswith(prefix)]
    return TESTED_BY[max(fits, key=len)] if fits else ""


def _changes(text: str) -> Iterator[tuple[int, int, str, str]]:
    """(line, column, old text, new text) of all small changes of a file."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            yield from _operator(lines, node.left, node.right, ARITHMETIC[type(node.op)])
            if isinstance(node.op, ast.Add | ast.Sub):
                yield from _dropped(lines, node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in ORDER:
            yield from _operator(lines, node.left, node.comparators[0], ORDER[type(node.ops[0])])
        elif isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= 2:
            old = _encoded(lines[node.lineno - 1], node.col_offset, node.end_col_offset or 0)
            if old == str(node.value):  # older Pythons say wrong places in strings with values
                yield node.lineno, node.col_offset, old, str(node.value + 1)


def _operator(lines: list[str], left: ast.expr, right: ast.expr, new: str) -> Iterator[tuple[int, int, str, str]]:
    """What stands between two operands, if it is on one line and nothing but an operator with spaces around it."""
    if left.end_lineno == right.lineno and left.end_col_offset is not None:
        old = _encoded(lines[right.lineno - 1], left.end_col_offset, right.col_offset)
        if old.strip() in {"+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!="}:
            yield right.lineno, left.end_col_offset, old, f" {new} "


def _dropped(lines: list[str], node: ast.BinOp) -> Iterator[tuple[int, int, str, str]]:
    """A sum without its last term."""
    left, right = node.left, node.right
    if left.end_lineno == right.end_lineno == right.lineno and left.end_col_offset and right.end_col_offset:
        old = _encoded(lines[right.lineno - 1], left.end_col_offset, right.end_col_offset)
        if old.count("(") == old.count(")"):
            yield right.lineno, left.end_col_offset, old, ""


def _encoded(line: str, start: int, stop: int) -> str:
    """A piece of a line; columns of the syntax tree count bytes, and only lines where that makes no difference do."""
    return line[start:stop] if line.isascii() else ""
