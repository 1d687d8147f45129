"""The wheel and the site: what people install works where nothing can be written, and all code that they read runs.

The wheel is built and installed beside nothing but its dependencies; README and tutorials run from it, without extras,
with a home that does not exist. Then the site is built, strictly, from what they left (`tools/site`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tools" / "site")]

import links  # noqa: E402
import pages  # noqa: E402
import pythons  # noqa: E402
import setup  # noqa: E402

WRITTEN = sorted(path for path in (ROOT / "docs").rglob("*.md") if "skeletons" not in path.parts)
PLAIN = [ROOT / "README.md", *(path for path in WRITTEN if path.parent.name == "tutorials")]
EXTRAS = ("pyarrow", "zarr", "fsspec", "anndata", "ray", "mpi4py", "torch", "triton", "mkdocs")

# Imported by Python when it starts: what an environment without extras, and a read-only package, would be like.
BARE = f"""
import sys

class NoExtras:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NoExtras())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return pythons.build_wheel(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-compile", "--target", folder, wheel)
    return folder


@pytest.fixture(scope="module")
def locked(installed, tmp_path_factory) -> dict[str, str]:
    """An environment with the wheel, without extras, and without a home. Compiled code of other tests serves it."""
    bare = tmp_path_factory.mktemp("bare")
    (bare / "sitecustomize.py").write_text(BARE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return kept | {"PYTHONPATH": f"{bare}{os.pathsep}{installed}", "HOME": "/proc/nope"}


def pip(*words: object) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *map(str, words)]
    done = subprocess.run([*command, "--no-index"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def python(environment: dict[str, str], *words: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *words], env=environment, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("/METADATA"))
    for needed in ("unbounded/py.typed", "unbounded/report/report.css", "unbounded/datasets/penguins.csv"):
        assert needed in names
    assert all(name.startswith("unbounded") for name in names)
    head, _, page = metadata.partition("\n\n")
    for line in ("Author: ", "Classifier: Programming Language :: Python :: 3.14"):
        assert line in head
    named = dict(re.findall(r"Project-URL: (\w+), (.+)", head))
    assert named == setup.addresses(pages.repository()), "the package's addresses are those of pyproject.toml"
    assert page == setup.readme((ROOT / "README.md").read_text(), pages.repository())


@pytest.mark.parametrize("home", ["", "https://somewhere.example/one/two"])
def test_readme_of_the_package(home):
    """Its links lead to files beside it; where there are none, they are whole, or words while nothing is published."""
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 8
    assert [target for target in targets if not (ROOT / target).exists()] == []
    shown = re.findall(r"\]\(([^)]+)\)", setup.readme(text, home))
    assert [target.removeprefix(f"{home}/blob/main/").removeprefix(f"{home}/raw/main/") for target in shown] == (
        targets if home else []
    )
    assert all(address.startswith(home) for address in setup.addresses(home).values())
    shown = setup.readme(text, home)
    assert ("## Where to go next" in shown) == bool(home), "without addresses it would lead nowhere"
    assert "## License" in shown


def test_it_imports_and_compiles_where_nothing_can_be_written(locked, tmp_path):
    """Neither package nor home: compiled code goes to the temporary folder. And without one, a warning says so."""
    script = "from unbounded.compiled.draws import mix; import numpy as np; print(mix(np.uint64(7)))"
    script += "; from unbounded.chain.importing import arviz; arviz().InferenceData"
    nowhere = {name: value for name, value in locked.items() if name != "NUMBA_CACHE_DIR"}
    nowhere["NUMBA_CACHE_LOCATOR_CLASSES"] = "UserWideCacheLocator"  # the package is as good as read-only
    (tmp_path / "tmp").mkdir()
    python(nowhere | {"TMPDIR": str(tmp_path / "tmp")}, "-c", script, cwd=tmp_path)
    assert list((tmp_path / "tmp").glob("unbounded-*/*.nbc"))


def test_commands_of_the_wheel(locked, tmp_path):
    assert python(locked, "-m", "unbounded", "--version", cwd=tmp_path).startswith("unbounded ")
    offered = python(locked, "-m", "unbounded", "--help", cwd=tmp_path)
    assert " fit " in offered
    assert " paper " not in offered  # experiments are not installed


def test_words_make_no_page_run_again():
    """What comments and docstrings say is no code, nor are blank lines; everything else is."""

    def runs(source: str) -> list[str]:
        return [repr(part) for part in pages._what_runs(compile(source, "", "exec", optimize=2))]

    code = 'class A:\n    """One."""\n    b = 1\n    def c(self):\n        "Two."\n        return self.b in {1, 2}\n'
    assert runs(code.replace("One", "Three\n\n").replace("b = 1", "b = 1  # four\n").replace("Two", "Five")) == runs(
        code
    )
    for before, after in (("b = 1", "b = 2"), ("in", "not in"), ("{1, 2}", "{1, 3}"), (".b", ".d"), ("c(", "d(")):
        assert runs(code.replace(before, after)) != runs(code)


def test_readme_and_tutorials_run_from_the_wheel(locked, monkeypatch):
    for name, value in locked.items():
        monkeypatch.setenv(name, value)
    pages.run(PLAIN)
    for page in PLAIN:
        assert pages.known(page)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Built as `make docs` does; what pages left is there already."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_no_link_is_dead_and_nothing_is_fetched(site):
    assert links.complaints(site) == []


def test_every_picture_was_made_by_its_page(site):
    """Those of experiments that take hours are drawn from what these have measured."""
    shown = {name for name in links.pictures(site) if not name.startswith("assets/")}  # the theme's own
    assert {name for name in shown if not name.startswith("pictures/")} == set()
    runs = list((ROOT / "docs" / "paper" / "runs").glob("*/*/verdict.json"))
    assert len(runs) <= sum(name.startswith("pictures/paper-") for name in shown)
    assert len(shown) > 25


def test_every_page_is_there(site):
    for path in WRITTEN:
        name = path.relative_to(ROOT / "docs").with_suffix(".html")
        page = site / (name.with_name("index.html") if name.name == "README.html" else name)
        assert page.exists(), name
        assert "Traceback" not in page.read_text()
    theory = (site / "theory.html").read_text()
    assert theory.count("<math") > 100
    assert "arithmatex" not in theory
