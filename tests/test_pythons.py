"""Interpreters for `make test-pythons`: which are promised, found, fetched from Debian, or said to be missing."""

from __future__ import annotations

import hashlib
import io
import lzma
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.error import URLError

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import debian
import pythons

OTHER = "9.7"  # a version that no machine has


def package(files: dict[str, str]) -> bytes:
    """A .deb: an archive of ar, with members of odd length before the one that matters."""
    inside = io.BytesIO()
    with tarfile.open(fileobj=inside, mode="w:xz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    whole = b"!<arch>\n"
    for name, content in (("debian-binary", b"2.0"), ("data.tar.xz", inside.getvalue())):
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        whole += head + content + b"\n" * (len(content) % 2)
    return whole


@pytest.fixture
def archive(monkeypatch, tmp_path):
    """An archive of Debian in which an interpreter and its C library are scripts; its files, to be changed."""
    library = f"{debian.LIBRARIES}/ld-linux-x86-64.so.2"
    loads = '#!/bin/sh\n[ "$1" = --library-path ] && [ "$3" = --argv0 ] && echo "$4" "$6"\n'
    files = {
        "pool/python.deb": package({f"usr/bin/python{OTHER}": "", f"usr/lib/python{OTHER}/os.py": ""}),
        "pool/libc.deb": package({library: loads}),
    }
    entries = {f"python{OTHER}": ("pool/python.deb", "Depends: libc6 (>= 2.4), nowhere | libc6"),
               "libc6": ("pool/libc.deb", "Pre-Depends: libc6")}  # fmt: skip
    listed = "\n\n".join(
        f"Package: {name}\nFilename: {path}\nSHA256: {hashlib.sha256(files[path]).hexdigest()}\n{needs}"
        for name, (path, needs) in entries.items()
    )
    packed = lzma.compress(listed.encode())
    release = f"SHA256:\n {hashlib.sha256(packed).hexdigest()} {len(packed):8} {debian.LISTED}\n"
    files |= {f"dists/{debian.SUITE}/{debian.LISTED}": packed, f"dists/{debian.SUITE}/InRelease": release.encode()}
    monkeypatch.setattr(debian, "HOME", tmp_path / "pythons")
    monkeypatch.setattr(debian, "_fetched", files.__getitem__)
    monkeypatch.setattr(debian, "_signed", bytes.decode)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return files


@pytest.mark.skipif(sys.platform != "linux", reason="a script of the shell")
def test_an_interpreter_is_fetched_with_all_that_it_needs(archive):
    there = debian.interpreter(OTHER)
    assert there == debian.HOME / OTHER / "usr" / "bin" / f"python{OTHER}"
    said = subprocess.run([there, "-c"], capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(there), "-c"]  # it is started with its own C library, and knows its own name
    archive.clear()
    assert debian.interpreter(OTHER) == there  # and is fetched once


def test_what_cannot_be_had_is_said_in_one_sentence(archive, monkeypatch, capsys):
    def said(version: str) -> str:
        assert pythons.fetched(version) is None
        assert not list(debian.HOME.iterdir())  # and nothing is left
        return capsys.readouterr().out.removeprefix(f"Python {version}: not tried. This machine has none, and ")

    assert said("9.8") == "Debian's forky has none.\n"
    archive["pool/libc.deb"] += b"x"
    assert said(OTHER) == "pool/libc.deb is not what forky says it is.\n"

    def offline(path: str) -> bytes:
        raise URLError("no network")

    monkeypatch.setattr(debian, "_fetched", offline)
    assert said(OTHER) == "it cannot be fetched from Debian: <urlopen error no network>.\n"
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert said(OTHER) == "it is fetched for Linux on x86-64 only.\n"


@pytest.mark.skipif(
    shutil.which("gpgv") is None or not Path(debian.SIGNERS).exists(), reason="Debian's keys are not here"
)
def test_what_nobody_has_signed_is_refused():
    with pytest.raises(subprocess.CalledProcessError):
        debian._signed(b"SHA256:\n")


def test_versions_that_are_promised():
    assert pythons.promised()[0] == "3.11"
    here = "{}.{}".format(*sys.version_info)
    assert here in pythons.promised()
    assert pythons.found(here).version == here
    assert pythons.found(OTHER) is None
    assert pythons.chosen([sys.executable])[0].full == sys.version.split()[0]
    with pytest.raises(SystemExit, match="does not start; give the path of an interpreter"):
        pythons.chosen(["/nowhere/python"])


def test_all_tutorials_are_read():
    assert [page.stem for page in pythons.TUTORIALS] == ["cells", "crash", "images", "news", "penguins"]
