"""The wheel in clean environments: every Python from 3.11 on that it promises and that can be had.

    make test-pythons                                   # all that are found, or that Debian has
    make test-pythons PYTHONS="python3.13 ~/py/bin/python3.14"

The wheel is built once. For each interpreter there is a new environment with the wheel and what pip brings along, no
extras, and no home to write to; README, all tutorials and `tests/installed.py` run there. Which were found, which were
not, and what was installed is printed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "site")]

import debian  # noqa: E402
import pages  # noqa: E402

TUTORIALS = sorted(page for page in (ROOT / "docs" / "tutorials").glob("*.md") if page.stem != "index")
AT_ONCE = 2
PATIENCE = 1800  # seconds for one command, on a machine that is busy with other things
SHOWN = ("numba", "numpy", "scikit-learn", "pandas", "xarray", "arviz")
WHO = "import sys; print(sys.executable, '%d.%d' % sys.version_info[:2], sys.version.split()[0])"


@dataclass(frozen=True)
class Interpreter:
    path: str
    version: str  # 3.12
    full: str  # 3.12.1


class CommandError(RuntimeError):
    """A command has failed; the message is the end of what it said."""


# ---- which there are


def promised() -> list[str]:
    """The versions that pyproject.toml names."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [found[1] for line in classifiers if (found := re.fullmatch(r"Programming Language :: .* (3\.\d+)", line))]


def found(version: str) -> Interpreter | None:
    """The first that starts and is what it says: a shim of pyenv is there for versions that are not active, too."""
    answers = (asked(name) for name in _candidates(version))
    return next((one for one in answers if one and one.version == version), None)


def _candidates(version: str) -> Iterator[str]:
    yield f"python{version}"
    yield sys.executable
    for root in dict.fromkeys([os.environ.get("PYENV_ROOT", ""), str(Path.home() / ".pyenv")]):
        if root:
            yield from map(str, sorted(Path(root).glob(f"versions/{version}.*/bin/python{version}"), reverse=True))


def asked(name: str) -> Interpreter | None:
    """Who an interpreter says it is; None: nobody answers."""
    try:
        answer = subprocess.run([os.path.expanduser(name), "-c", WHO], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Interpreter(*answer.stdout.split()) if answer.returncode == 0 else None


def chosen(given: Sequence[str]) -> list[Interpreter]:
    """Those that were named, or one for each version that is promised."""
    if given:
        known = {name: asked(name) for name in given}
        for name in (name for name, one in known.items() if one is None):
            sys.exit(f"{name} does not start; give the path of an interpreter.")
        return [one for one in known.values() if one]
    return [one for version in promised() if (one := found(version) or fetched(version))]


def fetched(version: str) -> Interpreter | None:
    """From Debian, where this machine has none."""
    try:
        return asked(str(debian.interpreter(version)))
    except debian.NotThereError as error:
        print(f"Python {version}: not tried. This machine has none, and {error}.", flush=True)
        return None


# ---- what is done with them


def build_wheel(folder: Path) -> Path:
    """Built from a copy in this folder, so that nothing is left in the tree."""
    copy = folder / "sources"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel", "--no-index", "--no-deps"]
    _said([*pip, "--no-build-isolation", "-w", str(folder / "wheel"), str(copy)], os.environ)
    (made,) = (folder / "wheel").glob("*.whl")
    return made


def tried(one: Interpreter, wheel: Path, folder: Path) -> str:
    """What to say of an interpreter with which everything works."""
    began = time.perf_counter()
    own = folder / one.version
    _said([one.path, "-m", "venv", "--without-pip", str(own / "clean")], os.environ)
    python = str(own / "clean" / ("Scripts" if os.name == "nt" else "bin") / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "-q", "install"]
    _said([*pip, "--no-compile", str(wheel)], os.environ)
    installed = time.perf_counter() - began
    locked = _environment(own)
    _said([python, str(ROOT / "tests" / "installed.py"), wheel.name.split("-")[1]], locked, own)
    works = json.dumps([pages.work(page, own / "pages" / page.stem) for page in [ROOT / "README.md", *TUTORIALS]])
    _said([python, str(pages.RUNNER)], locked, own, works)
    versions = _said([python, "-c", _VERSIONS], locked).strip()
    return (
        f"Python {one.full}: passed. Installed in {installed:.0f} s ({versions}); every model, README and "
        f"{len(TUTORIALS)} tutorials in {time.perf_counter() - began - installed:.0f} s."
    )


_VERSIONS = f"from importlib.metadata import version; print(', '.join(f'{{n}} {{version(n)}}' for n in {SHOWN}))"


def _environment(own: Path) -> dict[str, str]:
    """No home, nothing of ours on the path of modules, and compiled code of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PYTHON", "NUMBA_"))}
    (own / "cache").mkdir()
    fixed = {"HOME": "/proc/nope", "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1"}
    return kept | fixed | {"NUMBA_CACHE_DIR": str(own / "cache")}


def _said(command: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None, given: str = "") -> str:
    """What a command prints, given some words on its standard input."""
    done = subprocess.run(
        command, env=environment, cwd=cwd, input=given, capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode != 0:
        raise CommandError(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def main(given: Sequence[str]) -> None:
    interpreters = chosen(given)
    if not interpreters:
        sys.exit("no interpreter was found; name some: make test-pythons PYTHONS=...")
    for one in interpreters:
        print(f"Python {one.full}: {one.path}", flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="unbounded-pythons-") as scratch:
        wheel = build_wheel(Path(scratch))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            works = {one: pool.submit(tried, one, wheel, Path(scratch)) for one in interpreters}
            for one, work in works.items():
                try:
                    print(work.result(), flush=True)
                except (CommandError, subprocess.TimeoutExpired) as error:
                    wrong += 1
                    print(f"Python {one.full}: FAILED.\n{error}", flush=True)
    sys.exit(f"{wrong} of {len(interpreters)} failed." if wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
