"""Pages whose code runs: every Python block of a Markdown file, in order, in one process per page.

    python tools/site/pages.py docs/tutorials/*.md README.md

What a block prints, the data frame or the figures that it ends with and those that it leaves open are kept under
build/pages, under a digest of the page's code and of the package: a page runs again when one of them has changed, and
not before.
Blocks inside of a comment (`<!-- run` ... `-->`) run, too, and are not shown.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "pages"
RUNNER = Path(__file__).with_name("runner.py")
# A block on its own, or one in a comment that nobody sees.
BLOCK = re.compile(r"^(?P<fence>```python\n(?P<code>.*?)^```[ ]*$)|^<!-- run\n(?P<hidden>.*?)^-->[ ]*$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """Code of a page, and where it stands."""

    code: str
    line: int
    start: int
    end: int
    hidden: bool


@dataclass(frozen=True)
class Outcome:
    """What a block left: text, tables, files of pictures with their titles."""

    text: str
    table: str
    pictures: tuple[tuple[str, str], ...]


class PageError(RuntimeError):
    """A block has failed; the message has the page, the line and what Python says."""


def blocks(text: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        name = "code" if found["hidden"] is None else "hidden"
        line = text.count("\n", 0, found.start(name)) + 1
        yield Block(found[name], line, found.start(), found.end(), name == "hidden")


def outcomes(page: Path) -> tuple[Path, list[Outcome]]:
    """The folder of the page's pictures, and what each of its blocks left; runs the page if need be."""
    run([page])
    folder, code = _folder(page), list(blocks(page.read_text()))
    if not code or os.environ.get("DRAFT"):
        return folder, [Outcome("", "", ()) for _ in code]
    said = json.loads((folder / "result.json").read_text())["outcomes"]
    return folder, [Outcome(one["text"], one["table"], tuple(map(tuple, one["pictures"]))) for one in said]


def run(pages: Sequence[Path]) -> list[Path]:
    """Run those pages whose outcome is not known yet. DRAFT=1 runs none: how the site looks, without outcomes."""
    due = [page for page in pages if not known(page)] if not os.environ.get("DRAFT") else []
    if not due:
        return due
    works = [work(page, _folder(page)) for page in due]
    done = subprocess.run(
        [sys.executable, str(RUNNER)], input=json.dumps(works), env=_environment(), stderr=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        raise PageError(done.stderr.strip()[-3000:])
    return due


def work(page: Path, folder: Path) -> dict[str, Any]:
    """What the runner is given of a page; the folder, for what it leaves, is made, and empty."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    code = [(block.code, block.line) for block in blocks(page.read_text())]
    name = page.resolve().relative_to(ROOT).as_posix()
    return {"page": name, "folder": str(folder), "digest": _digest(page), "blocks": code}


def known(page: Path) -> bool:
    result = _folder(page) / "result.json"
    if not any(blocks(page.read_text())):
        return True
    return result.exists() and json.loads(result.read_text())["digest"] == _digest(page)


def _folder(page: Path) -> Path:
    return KEPT / "-".join(page.resolve().relative_to(ROOT).with_suffix("").parts)


def _digest(page: Path) -> str:
    """Of the page's code, of the package, and of the experiments if the page draws what they found."""
    digest = hashlib.blake2b(_code_of_the_package().encode(), digest_size=16)
    for block in blocks(page.read_text()):
        digest.update(repr((block.code, block.hidden)).encode())
        if "experiments" in block.code:
            digest.update(_experiments())
    return digest.hexdigest()


@cache
def _experiments() -> bytes:
    """A digest of the experiments, and of what is kept of their runs."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted([*(ROOT / "experiments").glob("*.py"), *(ROOT / "docs" / "paper").rglob("*.*")]):
        digest.update(path.read_bytes())
    return digest.digest()


@cache
def _code_of_the_package() -> str:
    """A digest of what runs: other comments and docstrings make no page run again."""
    digest = hashlib.blake2b(RUNNER.read_bytes(), digest_size=16)
    for path in sorted((ROOT / "src" / "unbounded").rglob("*.py")):
        for part in _what_runs(compile(path.read_bytes(), path.name, "exec", dont_inherit=True, optimize=2)):
            digest.update(repr(part).encode())
    return digest.hexdigest()


def _what_runs(code: CodeType) -> Iterator[Any]:
    """All of compiled code but where its lines are. Compiled with optimize=2 it has no docstrings."""
    yield code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_exceptiontable
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _what_runs(constant)
        else:
            yield sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def repository() -> str:
    """Where the sources are published, if they are: pyproject.toml says it."""
    address: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["unbounded"]["repository"]
    return address.rstrip("/")


def _environment() -> dict[str, str]:
    """Pages find the package that this process finds, from another folder, and the experiments of this checkout, draw
    without a screen, and have the compiled code of the tests."""
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = os.pathsep.join([*given, str(ROOT)])
    compiled = {"NUMBA_CACHE_DIR": str(ROOT / ".numba_cache")} | os.environ
    return compiled | {"PYTHONPATH": paths, "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"}


if __name__ == "__main__":
    try:
        ran = run([Path(name) for name in sys.argv[1:]])
    except PageError as error:
        sys.exit(str(error))
    print(f"{len(ran)} of {len(sys.argv) - 1} pages were run; the others are as they were.")
