"""A Python that this machine lacks: Debian's, unpacked beside the sources, with nothing installed and nobody's rights.

    python tools/debian.py 3.14        # prints the path of the interpreter

It comes from the archive that apt is set up for on this machine, and every file of it is what Debian has signed. It
brings the C library that it was built for, and a script starts it with that one; any Debian on x86-64 will do.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SUITE, LISTED = "forky", "main/binary-amd64/Packages.xz"
SIGNERS = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
HOME = Path(__file__).resolve().parents[1] / ".pythons"
PATIENCE = 60  # seconds without a byte
STARTED_WITH = """#!/bin/sh
exec {root}/{libraries}/ld-linux-x86-64.so.2 --library-path {root}/{libraries} --argv0 "$0" {program} "$@"
"""

Package = dict[str, str]


class NotThereError(RuntimeError):
    """There is none to be had; the message says why."""


def interpreter(version: str) -> Path:
    """The path of python3.x, fetched if need be."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise NotThereError("it is fetched for Linux on x86-64 only")
    root = HOME / version
    if not root.exists():
        HOME.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as scratch:
            try:
                _unpack(version, Path(scratch) / "new", root)
            except (OSError, subprocess.SubprocessError, lzma.LZMAError, tarfile.TarError) as error:
                raise NotThereError(f"it cannot be fetched from Debian: {error}") from error
            (Path(scratch) / "new").rename(root)
    return root / "usr" / "bin" / f"python{version}"


def _unpack(version: str, folder: Path, root: Path) -> None:
    """All that the interpreter needs, and a script in its place; root: where the folder will be."""
    known = _packages()
    if f"python{version}" not in known:
        raise NotThereError(f"Debian's {SUITE} has none")
    for package in _with_needs([f"python{version}", "libstdc++6"], known):
        with tarfile.open(fileobj=io.BytesIO(_data(_as_said(package["Filename"], package["SHA256"])))) as files:
            files.extractall(folder, filter="tar")
    program = f"usr/lib/python{version}/python{version}"
    script = folder / "usr" / "bin" / f"python{version}"
    script.rename(folder / program)
    script.write_text(STARTED_WITH.format(root=root, libraries=LIBRARIES, program=root / program))
    script.chmod(0o755)


def _packages() -> dict[str, Package]:
    release = _signed(_fetched(f"dists/{SUITE}/InRelease"))
    digest = re.search(rf"^ ([0-9a-f]{{64}}) +\d+ {LISTED}$", release, re.M)
    if digest is None:
        raise NotThereError(f"Debian's {SUITE} has no list of packages")
    listed = lzma.decompress(_as_said(f"dists/{SUITE}/{LISTED}", digest[1])).decode()
    fields = (dict(re.findall(r"^([A-Z]\S*): (.*)$", entry, re.M)) for entry in listed.split("\n\n"))
    return {entry["Package"]: entry for entry in fields if entry}


def _with_needs(names: list[str], known: dict[str, Package]) -> Iterator[Package]:
    """The first choice of everything that is needed, and each of it once."""
    due, seen = list(names), set[str]()
    while due:
        name = due.pop()
        if name in seen or name not in known:  # what is not there is another name of something else
            continue
        seen.add(name)
        yield known[name]
        needs = ", ".join(known[name].get(field, "") for field in ("Depends", "Pre-Depends"))
        due += [found[0] for need in needs.split(",") if (found := re.match(r"[a-z0-9][a-z0-9+.-]+", need.strip()))]


def _data(package: bytes) -> bytes:
    """The files of a .deb, which is an archive of `ar` with an archive of `tar` in it."""
    at = len(b"!<arch>\n")
    while at < len(package):
        name, size = package[at : at + 16].decode().strip(" /"), int(package[at + 48 : at + 58])
        if name == "data.tar.xz":
            return lzma.decompress(package[at + 60 : at + 60 + size])
        at += 60 + size + size % 2
    raise NotThereError("a package of Debian has no data.tar.xz")


def _signed(release: bytes) -> str:
    """What of it has been signed by Debian."""
    verify = ["gpgv", "--quiet", "--keyring", SIGNERS, "--output", "-"]
    return subprocess.run(verify, input=release, capture_output=True, check=True, timeout=PATIENCE).stdout.decode()


def _as_said(path: str, digest: str) -> bytes:
    content = _fetched(path)
    if hashlib.sha256(content).hexdigest() != digest:
        raise NotThereError(f"{path} is not what {SUITE} says it is")
    return content


@cache
def _archive() -> str:
    """Where apt gets packages from on this machine."""
    ask = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    sites = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.split()
    if not sites:
        raise NotThereError("apt knows no archive; apt-get update would tell it")
    return min(sites, key=len)  # others are for updates


def _fetched(path: str) -> bytes:
    with urllib.request.urlopen(f"{_archive()}/{path}", timeout=PATIENCE) as answer:
        content: bytes = answer.read()
    return content


if __name__ == "__main__":
    try:
        print(interpreter(sys.argv[1]))
    except NotThereError as error:
        sys.exit(f"Python {sys.argv[1]}: {error}.")
