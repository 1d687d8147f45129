"""A page that follows a run directory while a fit writes it, served to this machine alone (docs/progress.md).

It shows what is on disk, loads it again every two seconds, and neither writes anything nor disturbs the fit.
"""

from __future__ import annotations

import os
import secrets
import shlex
import threading
import time
from collections.abc import Mapping, Set
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from unbounded.chain.outlets import FILE
from unbounded.chain.progress import duration
from unbounded.chain.store import RunError, RunStore, read_json
from unbounded.report import draws, parts, tables, view
from unbounded.report.parts import charts, figure, help_, number, paragraph, section, text
from unbounded.report.view import View

HOST = "127.0.0.1"
SILENT = 15.0  # seconds without a sign of life after which the page says so
_COMMANDS = ("resume", "report")
_FRESH = 1.0  # seconds for which content is served again before it is read anew

_SCRIPT = """
const view = document.getElementById("now"), gone = document.getElementById("gone");
async function look() {
  try {
    const answer = await fetch("/now", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const read = [...view.querySelectorAll("details")].map((help) => help.open);
    view.innerHTML = await answer.text();
    view.querySelectorAll("details").forEach((help, i) => { help.open = read[i] ?? false; });
    gone.hidden = true;
  } catch { gone.hidden = false; }
  setTimeout(look, 2000);
}
setTimeout(look, 2000);
"""


def server(run: str | os.PathLike[str], port: int = 0) -> ThreadingHTTPServer:
    """A server of the page of a run, at `address(server)`; port 0: any that is free."""
    RunStore(run).config()  # raises where there is no run
    live = _Live(Path(run))
    handler = type("Handler", (_Handler,), {"live": live})
    try:
        return ThreadingHTTPServer((HOST, port), handler)
    except OSError as error:
        raise RunError(f"port {port} cannot be used: {error.strerror or error}; choose another --port.") from error


def address(at: ThreadingHTTPServer) -> str:
    return f"http://{HOST}:{at.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    """Serves two pages, and accepts no input."""

    live: _Live
    server_version, sys_version = "unbounded", ""

    def do_GET(self) -> None:
        port = self.connection.getsockname()[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):  # under the name of another site
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path == "/":
            nonce = secrets.token_urlsafe(16)
            self._send(self.live.page(nonce), f"script-src 'nonce-{nonce}'; connect-src 'self'")
        elif self.path == "/now":
            self._send(self.live.now(), "")
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send(self, content: str, allowed: str) -> None:
        body = content.encode()
        self.send_response(HTTPStatus.OK)
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
        for name, value in {
            "Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(body)), "Cache-Control": "no-store",
            "Content-Security-Policy": policy + allowed, "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY",
        }.items():  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal shows the address."""


class _Live:
    """A run directory, which is read again when the page is requested."""

    def __init__(self, run: Path):
        self._run, self._lock = run, threading.Lock()
        self._made, self._content = -np.inf, ""
        self._checked: Set[str] = frozenset()  # digests of what was checked

    def page(self, nonce: str) -> str:
        return parts.document(
            f"{self._run.resolve().name}: live",
            '<p id="gone" class="warn" hidden>The view was closed, or this machine cannot be reached. Start it again '
            f'with "unbounded watch".</p><main id="now">{self.now()}</main>'
            '<noscript><p class="warn">Without scripts the page does not follow the run; load it again.</p></noscript>'
            f'<script nonce="{nonce}">{_SCRIPT}</script>',
        )

    def now(self) -> str:
        with self._lock:
            if time.monotonic() - self._made > _FRESH:
                try:
                    self._content = self._render()
                except (RunError, OSError) as error:
                    self._content = f'<p class="warn">{text(error)}</p>'
                self._made = time.monotonic()
            return self._content

    def _render(self) -> str:
        try:
            content = render(self._run)
        except (LookupError, ArithmeticError, AttributeError, TypeError, ValueError) as error:  # a file was edited
            content = f'<p class="warn">The run directory is damaged: {FILE}: {text(error)}.</p>'
        self._checked = view.check_files(self._run, self._checked)
        return content


def render(run: Path) -> str:
    """The content of the page now."""
    progress = read_json(run / FILE)
    seen = view.read_traces(run, _has_ended(progress))
    config = RunStore(run).config()
    head = f"<header><h1>{text(draws.title(config))}</h1><p class=quiet>run {text(run.resolve().name)}</p></header>"
    body = [head, _status(progress, run), _numbers(progress, seen)]
    if seen is None:
        return "".join(body) + paragraph(
            "No draw has been made yet: the chains are warming up. Traces and R-hat come after the first "
            f"{config.get('n_warmup', 0):,} rounds of a chain.", quiet=True,
        )  # fmt: skip
    return "".join([*body, _traces(seen), tables.scalars(seen)])


def _status(progress: Mapping[str, Any], run: Path) -> str:
    if not progress:
        return paragraph("The fit has not reported anything yet.")
    done, total = int(progress.get("done") or 0), max(int(progress.get("total") or 0), 1)
    bar = f'<progress value="{done}" max="{total}" aria-label="rounds"></progress>'
    words = f'<p class="now">{text(progress.get("text", ""))}</p>'
    silent = time.time() - float(progress.get("at") or 0)
    if _has_ended(progress):
        resume, report = (f"<code>unbounded {command} {text(shlex.quote(str(run)))}</code>" for command in _COMMANDS)
        go_on = f"The fit was stopped. {resume} goes on with it, as the same call of fit does in Python."
        end = "The fit has ended." if progress["phase"] == "done" else go_on
        return f"{words}{bar}<p>{end} {report} writes what was found.</p>"
    if silent > SILENT:
        return f'{words}{bar}<p class="warn">No sign of life for {duration(silent)}: the fit may have been killed.</p>'
    return words + bar


def _has_ended(progress: Mapping[str, Any]) -> bool:
    return progress.get("phase") in ("done", "stopped")


def _numbers(progress: Mapping[str, Any], seen: View | None) -> str:
    listed: list[tuple[str, str, str]] = []
    scalars = progress.get("scalars") or {}
    atoms = str(progress.get("atoms", "atoms"))
    if f"n_{atoms}" in scalars:
        large = f"{scalars['above_1%']:.0f} above 1%" if scalars.get("above_1%") is not None else ""
        listed.append((atoms, f"{scalars[f'n_{atoms}']:.0f}", large))
    if scalars.get("holdout") is not None:
        listed.append(("held-out score", number(scalars["holdout"], 5), "last draw; higher is better"))
    if progress.get("rows_per_second"):
        listed.append(("speed", f"{progress['rows_per_second']:,.0f}", f"{progress.get('unit', 'rows')} per second"))
    if progress.get("seconds_left") is not None and not _has_ended(progress):
        listed.append(("time left", duration(progress["seconds_left"]), f"{duration(progress['seconds'])} so far"))
    if seen is not None:
        listed.append(_worst(seen))
    return parts.cards(listed)


def _worst(seen: View) -> tuple[str, str, str]:
    """The largest R-hat so far."""
    found = seen.convergence
    measured = {name: d.r_hat for name, d in found.scalars.items() if np.isfinite(d.r_hat) and not d.constant}
    if not measured:
        return "R-hat so far", parts.NOTHING, "too few draws"
    name = max(measured, key=measured.__getitem__)
    return "R-hat so far", f"{measured[name]:.3f}", f"the largest, of {name}, after {found.n_draws:,} draws"


def _traces(seen: View) -> str:
    """The number of atoms and the score first."""
    first = [name for name in (seen.family.counted, "holdout") if name in seen.names]
    names = first + [name for name in seen.names if name not in first]
    explained = help_(draws.NAMES, draws.meanings(seen))
    return section("Traces", draws.legend(seen), charts([figure(draws.trace(seen, name)) for name in names]), explained)
