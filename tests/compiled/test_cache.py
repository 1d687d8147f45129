"""The cache of compiled code: what a change of the sources compiles anew, and what it does not.

A small package of a kernel, two likelihoods and a NumPy half is written to disk, changed, and run in processes of its
own, which say what they compiled. Of `unbounded` they have the folder `compiled` and nothing else; and they are forks
of a process that has imported Numba, and neither: to start quickly.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

import numba
import pytest
from numba.core.registry import cpu_target

import unbounded.compiled
from unbounded.compiled.cache import Cache, _compiler, _shared_folder, _temporary_folder
from unbounded.compiled.contents import _constant, contents
from unbounded.compiled.jit import jit
from unbounded.compiled.lanes import lane_exp

OPERATIONS = '''
"""The contract."""
from unbounded.compiled.jit import jit

def weigh(spec, x):
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
def total(spec, n):
    """Adds up."""
    result = 0.0
    for i in range(n):
        result += weigh(spec, shifted(float(i)))
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
def _weigh(spec, x):
    return spec.rate * helper(x)
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
for name, spec in (("gauss", Gauss(1.0)), ("counts", Counts(1.0))):
    Listener.names = []
    said[name] = [total(spec, 3), Listener.names]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def written(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    here = Path(unbounded.compiled.__file__).parent
    shutil.copytree(here, folder / "unbounded" / "compiled", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "toy").mkdir()
    for package in ("unbounded", "toy"):
        (folder / package / "__init__.py").write_text("")
    (folder / "toy" / "operations.py").write_text(OPERATIONS)
    (folder / "toy" / "kernel.py").write_text(KERNEL)
    (folder / "toy" / "gauss.py").write_text(LIKELIHOOD.format(name="Gauss", factor="2.0"))
    (folder / "toy" / "counts.py").write_text(LIKELIHOOD.format(name="Counts", factor="3.0"))
    (folder / "main.py").write_text(MAIN)
    assert run(folder) == (BEFORE, {"gauss", "counts"})
    return folder


@pytest.fixture
def toy(written):
    """The sources, once more as they were when the test is over."""
    texts = {path: path.read_text() for path in written.rglob("*.py")}
    yield written
    for path, text in texts.items():
        path.write_text(text)


BEFORE = {"gauss": 12.0, "counts": 18.0}


FORKS = """
import json, os, runpy, sys
import numba
from numba.core.registry import cpu_target

cpu_target.target_context.refresh()
for line in sys.stdin:
    folder, environment = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.update(environment)
        numba.config.reload_config()
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True  # known by second and size: that of a moment ago would pass for that of now
        runpy.run_path(folder + "/main.py")
        sys.stdout.flush()
        os._exit(0)
    print("" if os.waitpid(child, 0)[1] == 0 else "failed", flush=True)
"""


@pytest.fixture(scope="module")
def forks():
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture(scope="module")
def run(forks):
    def run(folder: Path, **settings: str) -> tuple[dict[str, float], set[str]]:
        """What the kernel returns for each likelihood, and for which of them something was compiled."""
        environment = {"NUMBA_CACHE_DIR": str(folder / "cache"), **settings}
        print(json.dumps([str(folder), environment]), file=forks.stdin, flush=True)
        said = json.loads(forks.stdout.readline())
        assert forks.stdout.readline() == "\n"
        results = {name: result for name, (result, _) in said.items()}
        return results, {name for name, (_, names) in said.items() if names}

    return run


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_is_not_compiled_compiles_nothing(toy, run):
    edit(toy / "toy" / "kernel.py", "SHIFT = 1.0", "# A comment,\n# of two lines.\n\nSHIFT = 1.0\nUNUSED = 2.0")
    edit(toy / "toy" / "kernel.py", "Adds up.", "Adds up all of them.")
    edit(toy / "toy" / "operations.py", "A stub.", "What is chosen by type.")
    edit(toy / "toy" / "gauss.py", "return 0", "return 1")
    edit(toy / "main.py", "said = {}", "said = dict()")
    edit(toy / "unbounded" / "compiled" / "pipeline.py", "class Part(", "# A comment.\nclass Part(")
    edit(toy / "unbounded" / "compiled" / "jit.py", "Compile; a call from", "A call from")
    assert run(toy) == (BEFORE, set())


def test_what_changed_is_compiled_and_nothing_else(toy, run):
    """One change after the other; old code never runs, and a likelihood is compiled alone."""
    both = {"gauss", "counts"}
    changes = [
        ("gauss", "spec.rate *", "3.5 *", {"gauss": 42.0, "counts": 18.0}, {"gauss"}),  # code chosen by type
        ("counts", "3.0 * x", "4.0 * x", {"gauss": 42.0, "counts": 24.0}, {"counts"}),  # what such code calls
        ("kernel", "result += ", "result -= ", {"gauss": -42.0, "counts": -24.0}, both),  # the kernel itself
        ("kernel", "SHIFT = 1.0", "SHIFT = 2.0", {"gauss": -63.0, "counts": -36.0}, both),  # a constant
        ("kernel", "x + SHIFT", "x - SHIFT", {"gauss": 21.0, "counts": 12.0}, both),  # a function that is inlined
    ]
    for file, old, new, results, compiled in changes:
        edit(toy / "toy" / f"{file}.py", old, new)
        assert run(toy) == (results, compiled), new
    for file, old, new, _, _ in reversed(changes):
        edit(toy / "toy" / f"{file}.py", new, old)
    assert run(toy) == (BEFORE, set()), "what was compiled before is still there"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("jit", '"contract", ', ""),  # an option
        ("pipeline", "if isinstance(kind, types.BaseTuple):", "if isinstance(kind, types.BaseTuple) and True:"),
    ],
    ids=["option", "pipeline"],
)
def test_how_code_is_compiled_counts(toy, run, file, old, new):
    """Functions of the module `pipeline`, not only its classes: `_counted` decides whether references are counted."""
    edit(toy / "unbounded" / "compiled" / f"{file}.py", old, new)
    assert run(toy) == (BEFORE, {"gauss", "counts"})


@jit
def _alone(x):
    return x + 1.0


@jit
def _chosen(x):
    return lane_exp(x)


OPTIONS = [("fastmath", False), ("error_model", "python"), ("boundscheck", True), ("nogil", False)]


@pytest.mark.parametrize(("name", "value"), OPTIONS, ids=[name for name, _ in OPTIONS])
def test_every_option_counts(monkeypatch, name, value):
    """Of a function that calls nothing, and of code that is chosen by the type of an argument."""
    alone, chosen = contents(_alone, ()), contents(_chosen, ())
    (template,) = cpu_target.typing_context._lookup_global(lane_exp).templates
    monkeypatch.setitem(template._jit_options, name, value)
    assert contents(_chosen, ()) != chosen
    assert contents(_alone, ()) == alone
    monkeypatch.setitem(unbounded.compiled.jit._OPTIONS, name, value)
    assert contents(jit(_alone.py_func), ()) != alone


def test_settings_of_numba_count(monkeypatch):
    before = _compiler(type(_alone))
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 1)
    assert _compiler(type(_alone)) != before


def test_constants_of_a_class_count(monkeypatch):
    """Code is chosen by them."""
    before = contents(_alone, (numba.typeof(_Settled(1.0)),))
    monkeypatch.setattr(_Settled, "fast", False)
    assert contents(_alone, (numba.typeof(_Settled(1.0)),)) != before


class _Settled(NamedTuple):
    rate: float
    fast = True


def test_a_file_that_cannot_be_read_is_compiled_again(toy, run):
    for path in (toy / "cache").rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    assert run(toy) == (BEFORE, {"gauss", "counts"})


def test_folders_are_tried_in_the_order_that_the_page_says(monkeypatch, tmp_path):
    """docs/start/install.md. A file in the place of a folder cannot be written to, even by root."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("def function():\n    return 1\n")
    function = runpy.run_path(str(tmp_path / "package" / "module.py"))["function"]

    def chosen() -> Path:
        _shared_folder.cache_clear()
        _temporary_folder.cache_clear()
        return Path(Cache(jit(function)).cache_path).relative_to(tmp_path)

    assert chosen() == Path("chosen/unbounded")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    assert chosen() == Path("package/__pycache__")
    (tmp_path / "package" / "__pycache__").rmdir()
    (tmp_path / "package" / "__pycache__").write_text("")
    assert chosen().parts[0] == "home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "package" / "module.py"))
    assert chosen().name.startswith("unbounded")
    _temporary_folder.cache_clear()


def test_where_nothing_can_be_written_a_temporary_folder_serves(toy, run, tmp_path):
    """No package folder, no home: as if Numba knew no place."""
    settings = {"NUMBA_CACHE_DIR": "", "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator", "TMPDIR": str(tmp_path)}
    assert run(toy, **settings) == (BEFORE, {"gauss", "counts"})
    (folder,) = tmp_path.glob("unbounded-*")
    assert len(list(folder.glob("*.nbc"))) == 2
    folder.chmod(0o777)
    assert run(toy, **settings) == (BEFORE, {"gauss", "counts"}), "a folder that others can write to is not trusted"


def test_without_any_folder_to_write_to_code_runs_and_one_warning_says_so(toy, run, monkeypatch):
    """As in a container all of whose file systems are read-only: there is no temporary folder either."""
    nowhere = "def nowhere():\n    raise FileNotFoundError(2, 'No usable temporary directory found')\n"
    edit(toy / "main.py", "import json\n", f"import json, tempfile\n{nowhere}tempfile.gettempdir = nowhere\n")
    settings = {"NUMBA_CACHE_DIR": "", "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator"}
    assert run(toy, **settings) == (BEFORE, {"gauss", "counts"})

    def nowhere_to_write() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere_to_write)
    _temporary_folder.cache_clear()
    with pytest.warns(UserWarning, match="nor a temporary folder can be written") as caught:
        assert [_temporary_folder(), _temporary_folder()] == [None, None]
    assert len(caught) == 1
    _temporary_folder.cache_clear()


def test_copies_of_the_package_share_the_folder_that_the_user_named(toy, run, tmp_path):
    """A wheel, a checkout, a copy with a planted mistake: what is the same in them is compiled once."""
    for package in ("unbounded", "toy"):
        shutil.copytree(toy / package, tmp_path / package)
    shutil.copy(toy / "main.py", tmp_path)
    edit(tmp_path / "toy" / "gauss.py", "2.0", "5.0")
    assert run(tmp_path, NUMBA_CACHE_DIR=str(toy / "cache")) == (BEFORE | {"gauss": 30.0}, {"gauss"})


def test_files_that_nobody_uses_go(tmp_path):
    cache = Cache(_alone)
    old, new = tmp_path / f"{cache._stem}-old.nbc", tmp_path / f"{cache._stem}-new.nbc"
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    cache._forget_unused(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [new.name]


def test_processes_take_turns():
    """A lock belongs to an open file, so threads wait for each other as processes do."""
    cache, order = Cache(_alone), []

    def second():
        with cache.turn():
            order.append("second")

    with cache.turn():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_slices_are_constants():
    """Since Python 3.14 the code of `a[:]` contains one."""
    texts = {_constant((slice(None),)), _constant((slice(1, None),)), _constant((slice(None, 1),)), _constant((None,))}
    assert len(texts) == 4


DIGESTS = """
import json
import numpy as np
from numba import typeof
from unbounded import Gaussian, Poisson
from unbounded.columns import describe
from unbounded.compiled.contents import contents
from unbounded.models.mixtures.kernel import local_step

columns = describe(np.arange(12.0).reshape(6, 2))
bounds = {"gaussian": Gaussian().bind(columns), "poisson": Poisson().bind(columns)}
kinds = {name: (typeof(bound.spec()), typeof(bound.tail(2, 8))) for name, bound in bounds.items()}
print(json.dumps({name: contents(local_step, own) for name, own in kinds.items()}))
"""


def test_of_the_package_itself_comments_compile_nothing_and_a_likelihood_only_itself(tmp_path):
    """The digests that name what is on disk, of the package and of copies of it."""
    package = tmp_path / "unbounded"
    shutil.copytree(Path(unbounded.compiled.__file__).parents[1], package, ignore=shutil.ignore_patterns("__pycache__"))

    def digests() -> dict[str, str]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
        )
        return json.loads(done.stdout)

    before = digests()
    for path in package.rglob("*.py"):
        path.write_text("# A comment.\n" + path.read_text() + "\n# And another one.\n")  # in progress.py, too
    assert digests() == before
    edit(package / "likelihoods" / "poisson.py", "- x * log_next", "- 2.0 * x * log_next")
    after = digests()
    assert after["gaussian"] == before["gaussian"]
    assert after["poisson"] != before["poisson"]
