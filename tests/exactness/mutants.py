"""Planted mistakes: a test that no mistake can fail is not a test.

    python tests/exactness/mutants.py [part of a name ...] [-j 2]
    python tests/exactness/mutants.py --generate 100 --seed 0 [--only chain/store.py ...] [-j 2]

Each mutant (mutant_list.py) is one edit of a copy of the package, at a marked place. It names fast checks (enumeration
and joint tests) or tests; these run on the copy, in a process of their own, until one fails: then the mutant is killed.
Without an edit all checks must pass, and so must a test that has killed one, by itself. A mutant that crashes a check
counts as not killed: that would say nothing about the statistics. Nor is one killed that runs out of time after it has
passed checks; one that hangs in its first one is, and one that hangs in a test.

Generated mutants (mutant_generator.py) are small edits at random places; the tests of their file must fail.

Processes are forks of one that has imported what is not the package (tests/nursery.py), and compiled code is that of
the tests: what a mutant does not change is compiled once.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import queue
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests")]

from mutant_list import MUTANTS, Mutant  # noqa: E402

from nursery import Nursery, nurseries, serve  # noqa: E402

SOURCE = ROOT / "src" / "unbounded"
MARK = "# mutant: "
TESTS = "tests/"  # how checks begin that are run by pytest
PATIENCE = 900  # seconds: a mutant that hangs in its first check, or in a test, is one that was noticed


# ---- in the fresh process


def battery() -> dict[str, Callable[[], Any]]:
    """Fast checks by name; together they use all that the mutants touch."""
    import answers
    import enumeration
    import feature_geweke
    import feature_jumps
    import feature_problems
    import feature_truth
    import flat
    import franchise_geweke
    import franchise_problems
    import franchise_truth
    import geweke
    import jumps
    import repeats_truth
    from enumeration import Run
    from feature_jumps import Moves
    from feature_truth import FeatureRun
    from franchise_truth import GroupedRun
    from problems import problem

    from unbounded.instantiation import Ghosts, OneOpen
    from unbounded.models.groups import jump as groups_jump
    from unbounded.models.groups.words import cuts as token_cuts
    from unbounded.models.groups.words import kernel
    from unbounded.models.mixtures.jump import Jumps

    def cells(case: str, measure: str, run: Run) -> Callable[[], Any]:
        return lambda: enumeration.check(problem(case, measure), run)

    def columns(case: str, law: str, n: int, run: FeatureRun) -> Callable[[], Any]:
        return lambda: feature_truth.check(feature_problems.problem(case, law, n), run)

    def moved(case: str, law: str, n: int, moves: Moves) -> Callable[[], Any]:
        return lambda: feature_jumps.check(feature_problems.problem(case, law, n), moves)

    def seats(case: str, measure: str, run: GroupedRun) -> Callable[[], Any]:
        return lambda: franchise_truth.check(franchise_problems.problem(case, measure), run)

    def said(words: str, measure: str, run: GroupedRun) -> Callable[[], Any]:
        return lambda: repeats_truth.check(repeats_truth.problem(words, measure), run)

    def tables() -> Any:
        with mock.patch.multiple(kernel, FEW=0, WORTH=0):
            return seats("words", "crowded", GroupedRun("direct", Ghosts(100), 2, rounds=400))()

    def on_gpu(name: str, *arguments: Any) -> Callable[[], Any]:
        """Imported when it is run: torch takes its time."""

        def run() -> Any:
            os.environ.setdefault("TRITON_INTERPRET", "1")
            import device_mirror

            return getattr(device_mirror, name)(*arguments)

        return run

    often = Jumps(every=1, share=1.0, passes=2, joined=0.4, merges=4, coin=0.4)

    def sits(case: str, measure: str, form: str, **more: Any) -> Callable[[], Any]:
        return seats(case, measure, GroupedRun(form, Ghosts(), 2, options=(("jumps", often),), **more))

    def tokens(**more: Any) -> Callable[[], Any]:
        def check() -> Any:
            always = mock.patch.object(groups_jump, "tokens_due", return_value=True)
            with always, mock.patch.object(token_cuts, "WIDE", 6.0):  # beta's cut matters more
                return sits("words", "fixed", "direct", **more)()

        return check

    def halves(case: str, measure: str, kind: str, n: int = 4, **more: Any) -> Callable[[], Any]:
        return lambda: jumps.check(problem(case, measure, n), jumps.Moves(kind, **more))

    return {
        "estimates": answers.estimates,
        "trust": answers.trust,
        "kept": answers.kept,
        "cuts": halves("gaussian-1", "py", "cut"),
        "narrow": halves("gaussian-1", "py", "cut", share=0.4, strict=True),
        "near": halves("gaussian-1", "py", "near"),
        "anew": halves("gaussian-1", "py", "near", chains=80),
        "neighbours": halves("flat", "py-high", "near", chains=300),
        "coins": halves("gaussian-1", "py", "coin"),
        "seeds": halves("gaussian-1", "py", "seeds", chains=100, rounds=200),
        "urn": halves("flat", "py-high", "cut", chains=100),
        "urns": halves("flat", "dp", "coin", n=5, coin=0.85, chains=60),
        "seeded": halves("flat", "dp", "seeds", coin=0.6, chains=60),
        "sits": sits("words", "fixed", "direct", rounds=120, alone=True),
        "sits-long": sits("words", "fixed", "direct", rounds=400, alone=True),
        "sits-rows": sits("bit", "fixed", "direct", rounds=120, alone=True),
        "tokens": tokens(chains=80, rounds=150, alone=True, seed=5),
        "sits-eta": sits("words-eta", "fixed", "direct", rounds=100),
        "franchise": seats("bernoulli", "fixed", GroupedRun("franchise", Ghosts(1), 2, rounds=300)),
        "served": seats("bernoulli", "fixed", GroupedRun("franchise", Ghosts(0))),
        "direct": seats("bit", "fixed", GroupedRun("direct", Ghosts(1), 2, 3, rounds=160)),
        "words": seats("words", "fixed", GroupedRun("direct", Ghosts(2), 2)),
        "page": lambda: franchise_geweke.check(
            franchise_geweke.Joint("direct", "words", Ghosts(0), 1, replicates=60, rounds=100)
        ),  # with a document of one word
        "lone": seats("words", "fixed", GroupedRun("direct", OneOpen(3), 2, 3, rounds=160)),
        "crowd": seats("words", "fixed", GroupedRun("direct", Ghosts(50), 2, rounds=600)),
        "shared": seats("words", "fixed", GroupedRun("direct", Ghosts(8), 2, rounds=800)),
        "tables": tables,
        "eta": seats("words-eta", "sampled", GroupedRun("direct", Ghosts(), 2)),
        "base": seats("words-both", "fixed", GroupedRun("direct", Ghosts(1), 2, chains=60, rounds=400)),
        "base-tail": seats("words-both", "fixed", GroupedRun("direct", Ghosts(0), 1, chains=60, rounds=400)),
        "repeats": said("fixed", "fixed", GroupedRun("direct", Ghosts(2), 2, rounds=150)),
        "repeats-hyper": said("sampled", "sampled", GroupedRun("direct", Ghosts(0), rounds=150)),
        "buffet": columns("gaussian-3", "bb-1", 3, FeatureRun(Ghosts(0))),
        "buffet-2": columns("gaussian-3", "bb-2", 3, FeatureRun(Ghosts(0))),
        "order": columns("gaussian-holes", "bb-2", 3, FeatureRun(Ghosts(0), chains=400, rounds=400)),
        "ghosts": columns("sharp", "bb-1", 3, FeatureRun(Ghosts(), 2, rounds=100)),
        "folds": moved("gaussian-3", "bb-2", 3, Moves("fold", tries=0, folds=4, chains=60, rounds=100)),
        "deaths": moved("gaussian-3", "bb-2", 3, Moves("death", ahead=0.75, chains=80, rounds=100)),
        "absorptions": moved("gaussian-1", "bb-1", 3, Moves("absorption", 1, tries=4, chains=320, rounds=100)),
        "discoveries": moved("gaussian-3", "bb-2", 3, Moves("discovery", 1, tries=2, chains=240, rounds=100)),
        "choices": feature_jumps.choices,
        "sizes": feature_jumps.sizes,
        "flips": lambda: feature_jumps.flipped("bnb-6"),
        "turns": moved("gaussian-intercept", "bb-2", 3, Moves("death", ahead=0.75, chains=80, rounds=60)),
        "level": lambda: feature_geweke.check(feature_geweke.Joint("bb", "level", Ghosts(), 2, replicates=60)),
        "multiples": moved("gaussian-3", "gp-2", 2, Moves("multiple", 1, chains=160, rounds=100)),
        "beyond": moved("gaussian-3", "gp-2", 2, Moves("multiple", 2, chains=160, rounds=100, few=True)),
        "sweeps": columns("gaussian-3", "bb-2", 3, FeatureRun(Ghosts(30), 2, 3, rounds=100)),
        "factors": columns("poisson", "bb-1", 3, FeatureRun(Ghosts(), 2)),
        "collapsed": cells("bernoulli", "py", Run(Ghosts(0))),
        "tail": cells("sharp", "dp", Run(Ghosts(0), 1, 2)),
        "sharp": cells("sharp", "py", Run(Ghosts())),
        "shards": cells("bernoulli", "py", Run(Ghosts(), 2)),
        "rows": lambda: flat.check(flat.Flat(1.0, 0.0, 100, Ghosts(20), rounds=150)),
        "twins": cells("twins", "py", Run(Ghosts())),
        "many": cells("flat", "py-high", Run(Ghosts(20), 5)),
        "few": cells("bernoulli", "py-high", Run(Ghosts(1), 2)),
        "dp": cells("bernoulli", "dp", Run(Ghosts(), 3)),
        "open": cells("bernoulli", "py", Run(OneOpen(2), 3)),
        "sampled": cells("bernoulli", "py-sampled", Run(Ghosts(), 2)),
        "joint": lambda: geweke.check(geweke.Joint("dp", "bernoulli", Ghosts(), 3), 8000),
        "hole": cells("gaussian-hole", "dp", Run(Ghosts(), 2)),
        "eight": cells("sharp", "py", Run(Ghosts(), sampler="algorithm8")),
        "slice": cells("bernoulli", "py", Run(Ghosts(), 2, sampler="slice")),
        "shares": cells("bernoulli", "dp", Run(Ghosts(), 3, sampler="auxiliary")),
        "processors": cells("bernoulli", "py-high", Run(Ghosts(), 3, sampler="auxiliary")),
        "kernels": on_gpu("kernels"),
        "bulk": on_gpu("bulk", "flat", "dp", Run(Ghosts(2), rounds=150, device="cuda")),
        "bulk-shards": on_gpu("bulk", "bernoulli", "py", Run(Ghosts(4), 2, device="cuda")),
        "bulk-twins": on_gpu("bulk", "twins", "dp", Run(Ghosts(1), rounds=150, device="cuda")),
        "gossip": cells("bernoulli", "py", Run(Ghosts(), sampler="asynchronous")),
        "gossip-words": seats("words", "fixed", GroupedRun("direct", Ghosts(), sampler="asynchronous")),
    }


def server() -> None:
    """Imports what checks need beside the package."""
    import numba  # noqa: F401
    import pandas  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.base  # noqa: F401

    serve(run_checks)


def run_checks(package: str, checks: str) -> None:
    """Run checks on a copy of the package; print one line of JSON for each, stop at the first failure. None: all."""
    _use(package)
    names = checks.split()
    if tests := [name for name in names if name.startswith(TESTS)]:
        print(json.dumps({"check": "pytest", "failures": _failed_tests(tests), "largest": 0.0, "rms": 0.0}), flush=True)
        return
    known = battery()
    for name in names or known:
        verdict = known[name]()
        line = {"check": name, "failures": verdict.failures, "largest": verdict.largest, "rms": verdict.rms}
        print(json.dumps(line), flush=True)
        if not verdict.passed and names:
            return


def _use(package: str) -> None:
    """Import the package from here, and so does whatever is started."""
    import numba

    home = str(Path(package).parent)
    os.environ |= {"PYTHONPATH": home, "NUMBA_CACHE_DIR": str(ROOT / ".numba_cache")}
    numba.config.reload_config()
    sys.path.insert(0, home)
    import unbounded

    if Path(unbounded.__file__).parent != Path(package):
        raise SystemExit(f"the package comes from {unbounded.__file__}, not from {package}")


def _failed_tests(tests: list[str]) -> list[str]:
    """The first test that fails. Tests that cannot even be collected were not killed by what they compare."""
    import pytest

    class First:
        name = ""

        def pytest_runtest_logstart(self) -> None:
            signal.alarm(PATIENCE)  # ends the process, also in compiled code

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed and not self.name:
                self.name = report.nodeid

    first = First()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not long", "--rootdir", str(ROOT)]
    status = pytest.main([*options, *(str(ROOT / test) for test in tests)], plugins=[first])
    signal.alarm(0)
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(int(status))
    return [first.name] if first.name else []


# ---- in the calling process


@cache
def marked(source: Path) -> dict[str, list[tuple[Path, int, str]]]:
    """By the name of a place: the lines that are marked so."""
    found = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if MARK in line:
                found[line.split(MARK)[1].strip()].append((path, number, line))
    return found


def place_of(mutant: Mutant, source: Path = SOURCE) -> tuple[Path, int]:
    """The file, and the line on which the marked statement begins; the marker must be there exactly once."""
    found = marked(source).get(mutant.place, [])
    if len(found) != 1:
        raise ValueError(f"{mutant.name}: the marker {mutant.place!r} occurs {len(found)} times.")
    ((path, number, line),) = found
    return path, number + (line.strip() == MARK + mutant.place)


def edited(mutant: Mutant, source: Path = SOURCE) -> tuple[Path, str]:
    """The mutant's file and its text after the edit."""
    path, first = place_of(mutant, source)
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    for block in _blocks(ast.parse(text)):
        for k, statement in enumerate(block):
            if statement.lineno == first:
                inside = getattr(statement, "body", None)
                last = inside[0].lineno - 1 if inside else block[k + mutant.span - 1].end_lineno
                indent = lines[first - 1][: statement.col_offset]
                lines[first - 1 : last] = [indent + line + "\n" for line in mutant.new.splitlines() or ["pass"]]
                return path, "".join(lines)
    raise ValueError(f"{mutant.name}: no statement begins at line {first} of {path.name}.")


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(node, name, None), list):
                yield block


@dataclass(frozen=True)
class Outcome:
    verdict: str  # killed, survived, crashed, or unsound: what has killed it also fails without it
    check: str
    largest: float
    rms: float
    seconds: float
    failures: str = ""
    tail: str = ""


def examine(package: Path, checks: str, nursery: Nursery) -> Outcome:
    """Run the checks on a copy of the package in a process of its own."""
    begin = time.perf_counter()
    session = nursery.start([str(package), checks], f"{package}.log")
    late = False
    try:
        status, words = session.end(PATIENCE if checks and not checks.startswith(TESTS) else None)
    except queue.Empty:
        late = True
        os.killpg(session.pid, signal.SIGKILL)
        status, words = session.end(None)
    seconds = time.perf_counter() - begin
    lines = [json.loads(line) for line in words.splitlines() if line.startswith('{"check"')]
    if status == -signal.SIGALRM:
        with suppress(ProcessLookupError):
            os.killpg(session.pid, signal.SIGKILL)  # what it has started
        return Outcome("killed", "patience", 0.0, 0.0, seconds, "it hangs")
    if late:  # who has passed checks is slow, and does not hang
        verdict, said = ("survived", f"out of time after {len(lines)} checks") if lines else ("killed", "it hangs")
        return Outcome(verdict, "patience", 0.0, 0.0, seconds, said)
    if status:
        return Outcome("crashed", lines[-1]["check"] if lines else "-", 0.0, 0.0, seconds, tail=words[-600:])
    worst = max(lines, key=lambda line: (len(line["failures"]) > 0, line["largest"]))
    verdict = "killed" if worst["failures"] else "survived"
    return Outcome(verdict, worst["check"], worst["largest"], worst["rms"], seconds, " ".join(worst["failures"]))


@dataclass(frozen=True)
class Edit:
    """A changed file of the package, and the checks that should notice; no file: the package as it is."""

    name: str
    path: Path | None
    text: str
    checks: str


WHOLE = Edit("(none)", None, "", "")


def planted(mutant: Mutant) -> Edit:
    path, text = edited(mutant)
    return Edit(mutant.name, path, text, mutant.checks)


def hunt(edits: list[Edit], report: Callable[[str, Outcome], None], at_once: int = 1) -> list[tuple[str, Outcome]]:
    """Every edit in a copy of its own; compiled code is shared, since it is known by what it contains."""
    idle: queue.Queue[Nursery] = queue.Queue()
    sound: dict[str, bool] = {}  # tests that have killed: whether they pass without an edit
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        nurseries(at_once, str(HERE / "mutants.py"), "--server") as opened,
        ThreadPoolExecutor(at_once) as pool,
    ):
        pristine = Path(folder) / "pristine" / "unbounded"
        shutil.copytree(SOURCE, pristine, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(pristine, quiet=1)  # copies have it, too
        for nursery in opened:
            idle.put(nursery)

        def examined(number: int) -> tuple[str, Outcome]:
            edit, package, nursery = edits[number], Path(folder) / str(number) / "unbounded", idle.get()
            shutil.copytree(pristine, package)
            if edit.path is not None:
                (package / edit.path.relative_to(SOURCE)).write_text(edit.text)
            outcome = examine(package, edit.checks, nursery)
            if outcome.check == "pytest" and outcome.verdict == "killed":
                test = outcome.failures.split("[")[0]
                if test not in sound:
                    sound[test] = examine(pristine, test, nursery).verdict == "survived"
                outcome = outcome if sound[test] else replace(outcome, verdict="unsound")
            idle.put(nursery)
            shutil.rmtree(package.parent, ignore_errors=True)
            report(edit.name, outcome)
            return edit.name, outcome

        return list(pool.map(examined, range(len(edits))))


def show(name: str, outcome: Outcome) -> None:
    print(
        f"{name:48s} {outcome.verdict:9s} {outcome.check:10s} max |z| {outcome.largest:6.1f}  rms {outcome.rms:5.2f}  "
        f"{outcome.seconds:4.0f} s  {outcome.failures}",
        flush=True,
    )
    if outcome.tail:
        print(outcome.tail, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only mutants whose name contains one of these")
    parser.add_argument("-j", type=int, default=1, help="how many at once")
    parser.add_argument("--generate", type=int, default=0, metavar="N", help="N mutants at random places instead")
    parser.add_argument("--seed", type=int, default=0, help="of the random places")
    parser.add_argument("--only", nargs="*", default=[], help="files or folders of the package to generate them in")
    parser.add_argument("--server", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.server:
        server()
        return 0
    if options.generate:
        from mutant_generator import generated

        edits = [Edit(*each) for each in generated(options.generate, options.seed, options.only)]
    else:
        chosen = [m for m in MUTANTS if not options.words or any(word in m.name for word in options.words)]
        edits = ([] if options.words else [WHOLE]) + [planted(mutant) for mutant in chosen]
    outcomes = hunt(edits, show, options.j)
    wrong = [name for name, outcome in outcomes if not as_it_should(name, outcome)]
    print(f"{len(edits)} tried, {len(wrong)} not as they should be" + "".join(f"\n  {name}" for name in wrong))
    return len(wrong)


def as_it_should(name: str, outcome: Outcome) -> bool:
    return outcome.verdict == ("survived" if name == WHOLE.name else "killed")


if __name__ == "__main__":
    sys.exit(main())
