"""What pages tell readers to type: commands with options that they have, targets of make, scripts that are there.

And the Makefile itself: its targets run what is there, and one of them runs each test that `make test` leaves out.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from unbounded.cli.commands import app

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = dict(re.findall(r"^([\w-]+):[^=\n]*\n((?:\t.+\n)*)", MAKEFILE, re.M))
READ = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in READ}
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ ]*$", re.M | re.S)
ELSEWHERE = {"--kill-on-bad-exit"}  # of srun


def typed(page: str) -> Iterator[tuple[str, bool]]:
    """Lines of code that is not Python, and code within sentences; and whether it is a whole line."""
    for language, block in FENCE.findall(page):
        if language not in ("python", "py", "r"):
            yield from ((line.strip(), True) for line in block.replace("\\\n", "").splitlines())
    prose = FENCE.sub("", page)
    yield from ((line.strip(), True) for line in re.findall(r"^ {4,}(?![-*] )(\S.*)", prose, re.M))
    yield from ((" ".join(code.split()), False) for code in re.findall(r"`([^`]+)`", prose))


def after(command: str, page: str) -> Iterator[tuple[list[str], bool]]:
    """The words behind a command, wherever it is typed: alone, or behind others such as `mpiexec -n 4`."""
    for line, whole in typed(page):
        if found := re.match(rf"(?!from )(?:[\w.:-]+ )*?{command} (?=[a-z-])(.+)", line):
            yield shlex.split(re.split(r"\s#", found[1])[0]), whole


def test_pages_are_searched():
    page = "Use `unbounded watch run/`.\n\n```\nmpiexec -n 2 unbounded fit dp x # go\n```\n\n    make test  # all\n"
    assert [*after("unbounded", page)] == [(["fit", "dp", "x"], True), (["watch", "run/"], False)]
    assert [*after("make", page)] == [(["test"], True)]
    counts = [sum(1 for page in PAGES.values() for _ in after(command, page)) for command in ("unbounded", "make")]
    assert min(counts) > 30


CLI = typer.main.get_command(app)
OURS = {word for command in (CLI, *CLI.commands.values()) for option in command.params for word in option.opts}


def parse(words: list[str], whole: bool = True) -> None:
    """As the command line does, without running anything; code within a sentence may leave arguments out."""
    if words[0].startswith("-"):
        assert words[0] in OURS
        return
    assert words[0] in CLI.commands
    try:
        CLI.commands[words[0]].make_context(words[0], words[1:])
    except typer.BadParameter as error:
        if whole or "missing" not in str(error).lower():
            raise


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_pages_parse(name):
    for words, whole in after("unbounded", PAGES[name]):
        parse(words, whole)


@pytest.mark.parametrize(
    "command", ["fit dp x --out run --nope", "fit dp", "fit dp x --out run --seed one", "nope", "--no"]
)
def test_what_is_wrong_does_not_parse(command):
    with pytest.raises((AssertionError, typer.BadParameter.__mro__[1])):
        parse(command.split())


@pytest.mark.parametrize("command", CLI.commands)
def test_everything_that_can_be_typed_is_explained(command):
    given = CLI.commands[command]
    assert given.help
    assert [each.name for each in given.params if not each.help] == []


def scripts(page: str) -> Iterator[tuple[str, list[str]]]:
    """Scripts of the repository, as their text, and what is typed behind their names."""
    for words, _ in after("python", page):
        if words[0].endswith(".py") and "/" in words[0]:
            yield (ROOT / words[0]).read_text(), words[1:]


@pytest.mark.parametrize("name", PAGES)
def test_options_of_pages_exist(name):
    """Those that are quoted without their command: of `unbounded`, or of a script that the page names."""
    quoted = {code.split()[0].partition("=")[0] for code, _ in typed(PAGES[name]) if code.startswith("--")}
    known = "".join(script for script, _ in scripts(PAGES[name]))
    assert sorted(option for option in quoted - OURS - ELSEWHERE if f'"{option}"' not in known) == []


@pytest.mark.parametrize("name", PAGES)
def test_targets_and_scripts_of_pages_exist(name):
    targets = [words[0] for words, _ in after("make", PAGES[name]) if re.fullmatch(r"[a-z][\w-]*", words[0])]
    assert sorted(set(targets) - TARGETS.keys()) == []
    for script, words in scripts(PAGES[name]):
        assert [word for word in words if word.startswith("--") and f'"{word}"' not in script] == []


@pytest.mark.parametrize("name", PAGES)
def test_python_of_pages_parses(name):
    """Also what cannot run here, because it needs a cluster or another library."""
    for language, code in FENCE.findall(PAGES[name]):
        if language in ("python", "py"):
            ast.parse(code)


def test_targets_run_what_is_there():
    declared = re.search(r"^\.PHONY: (.+)", MAKEFILE, re.M)[1].split()
    assert {name for name in TARGETS if name != "PHONY"} == set(declared)
    paths = set(re.findall(r"(?<![\w./])(?:tests|tools|benchmarks|examples)/[\w./]+", MAKEFILE))
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_each_long_test_is_run_by_a_target():
    """Those that `make test` leaves out. A target runs those of a folder or of a file."""
    run = [
        ROOT / word
        for recipe in TARGETS.values()
        for line in recipe.splitlines()
        if "pytest" in line and '-m "long"' in line
        for word in re.findall(r"(?<!\S)tests/\S+", line)
    ]
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)}
    long = [path for path, text in tests.items() if "pytest.mark.long" in text]
    assert len(long) > 10
    assert [path.name for path in long if not any(path.is_relative_to(place) for place in run)] == []
