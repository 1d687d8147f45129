"""The cache of compiled code: what a change of the sources compiles anew, and what it does not.

A small package of a kernel, two likelihoods and a NumPy half is written to disk, changed, and run in processes of its
own, which say what they compiled. Of `unbounded` they have the folder `compiled` and nothing else, to start quickly.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unbounded.compiled
from unbounded.compiled.cache import Cache

OPERATIONS = '''
"""The contract."""
from unbounded.compiled.jit import jit

def weigh(family, x):
    """A stub."""
'''

KERNEL = '''
from unbounded.compiled.jit import inline, jit
from toy.operations import weigh

SHIFT = 1.0

@inline
def shifted(x):
    return x + SHIFT

@jit
def total(family, n):
    """Adds up."""
    result = 0.0
    for i in range(n):
        result += weigh(family, shifted(float(i)))
    return result
'''

LIKELIHOOD = """
from typing import NamedTuple
from unbounded.compiled.jit import implements, jit
from toy.operations import weigh

def numpy_half():
    return 0

class {name}(NamedTuple):
    rate: float

@jit
def helper(x):
    return {factor} * x

@implements(weigh, {name})
def _weigh(family, x):
    return family.rate * helper(x)
"""

MAIN = """
import json
from numba.core import event
from toy.kernel import total
from toy.gauss import Gauss
from toy.counts import Counts

class Listener(event.Listener):
    names = []
    def on_start(self, e):
        self.names.append(f"{e.data['dispatcher'].py_func.__name__}")
    def on_end(self, e):
        pass

event.register("numba:compile", Listener())
said = {}
for name, family in (("gauss", Gauss(1.0)), ("counts", Counts(1.0))):
    Listener.names = []
    said[name] = [total(family, 3), Listener.names]
print(json.dumps(said))
"""


@pytest.fixture
def toy(tmp_path):
    package = tmp_path / "toy"
    package.mkdir()
    here = Path(unbounded.compiled.__file__).parent
    shutil.copytree(here, tmp_path / "unbounded" / "compiled", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "unbounded" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "operations.py").write_text(OPERATIONS)
    (package / "kernel.py").write_text(KERNEL)
    (package / "gauss.py").write_text(LIKELIHOOD.format(name="Gauss", factor="2.0"))
    (package / "counts.py").write_text(LIKELIHOOD.format(name="Counts", factor="3.0"))
    (tmp_path / "main.py").write_text(MAIN)
    assert results(tmp_path) == {"gauss": 12.0, "counts": 18.0}
    return tmp_path


def run(folder: Path, **settings: str) -> dict[str, list]:
    """{likelihood: (what the kernel returned, the functions that were compiled)}."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"), **settings}
    done = subprocess.run(
        [sys.executable, str(folder / "main.py")], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def results(folder: Path) -> dict[str, float]:
    return {name: result for name, (result, _) in run(folder).items()}


def compiled(folder: Path) -> set[str]:
    """For which likelihoods the kernel was compiled."""
    return {name for name, (_, names) in run(folder).items() if names}


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_is_not_compiled_compiles_nothing(toy):
    edit(toy / "toy" / "kernel.py", "SHIFT = 1.0", "# A comment,\n# of two lines.\n\nSHIFT = 1.0\nUNUSED = 2.0")
    edit(toy / "toy" / "kernel.py", "Adds up.", "Adds up all of them.")
    edit(toy / "toy" / "operations.py", "A stub.", "What is chosen by type.")
    edit(toy / "toy" / "gauss.py", "return 0", "return 1")
    edit(toy / "main.py", "said = {}", "said = dict()")
    assert compiled(toy) == set()


def test_a_likelihood_is_compiled_alone(toy):
    """Its own code, and what its code calls."""
    edit(toy / "toy" / "counts.py", "family.rate * helper(x)", "1.0 + family.rate * helper(x)")
    assert compiled(toy) == {"counts"}
    edit(toy / "toy" / "counts.py", "3.0 * x", "4.0 * x")
    assert compiled(toy) == {"counts"}
    assert results(toy) == {"gauss": 12.0, "counts": 27.0}


@pytest.mark.parametrize(
    ("file", "old", "new", "result"),
    [
        ("kernel", "SHIFT = 1.0", "SHIFT = 2.0", 18.0),  # a constant
        ("kernel", "return x + SHIFT", "return x - SHIFT", 0.0),  # a function that is inlined
        ("kernel", "result += ", "result -= ", -12.0),  # the kernel itself
        ("gauss", "family.rate *", "2.0 *", 24.0),  # code that is chosen by type
        ("gauss", "2.0 * x", "5.0 * x", 30.0),  # what that calls
    ],
)
def test_old_code_never_runs(toy, file, old, new, result):
    edit(toy / "toy" / f"{file}.py", old, new)
    assert results(toy)["gauss"] == result
    edit(toy / "toy" / f"{file}.py", new, old)
    assert compiled(toy) == set(), "what was compiled before is still there"


def test_a_file_that_cannot_be_read_is_compiled_again(toy):
    for path in (toy / "cache").rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    assert results(toy) == {"gauss": 12.0, "counts": 18.0}


def test_where_nothing_can_be_written_a_temporary_folder_serves(toy):
    """No package folder, no home: as if Numba knew no place."""
    (toy / "temporary").mkdir()
    settings = {"NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator", "TMPDIR": str(toy / "temporary")}
    assert run(toy, **settings)["gauss"][1], "compiled"
    assert not run(toy, **settings)["gauss"][1], "found again"
    (folder,) = (toy / "temporary").glob("unbounded-*")
    folder.chmod(0o777)
    assert run(toy, **settings)["gauss"][1], "a folder that others can write to is not trusted"


def test_files_that_nobody_uses_go(tmp_path):
    def function():
        return 1

    cache = Cache(function)
    old, new = tmp_path / f"{cache._stem}-old.nbc", tmp_path / f"{cache._stem}-new.nbc"
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    cache._forget_unused(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [new.name]
