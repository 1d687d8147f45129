"""Looks for what is dead in a built site: links, anchors, pictures, and what a page would fetch from elsewhere.

python tools/site/links.py build/site
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
NOT_FETCHED = {"canonical", "next", "prev", "edit"}  # links in a page's head that only say where something is


class Found(HTMLParser):
    """Everything that a page links to or fetches, and all its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        for name, value in given.items():
            if (tag, name) in FETCHED and given.get("rel") not in NOT_FETCHED:
                self.fetched.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


@cache
def read(page: Path) -> Found:
    found = Found()
    found.feed(page.read_text())
    return found


def complaints(site: Path) -> list[str]:
    """One sentence for everything that is wrong."""
    wrong = []
    for page in sorted(site.rglob("*.html")):
        found, name = read(page), page.relative_to(site).as_posix()
        wrong += [f"{name} fetches {url} from elsewhere." for url in found.fetched if urlsplit(url).netloc]
        inside = [
            url for url in [*found.links, *found.fetched] if not urlsplit(url).scheme and not urlsplit(url).netloc
        ]
        wrong += [f"{name} has a dead link: {url}" for url in inside if not _alive(url, page, site)]
    return wrong


def pictures(site: Path) -> set[str]:
    """All pictures that pages show, by their paths in the site."""
    shown = {
        _target(urlsplit(url).path, page, site).resolve()
        for page in site.rglob("*.html")
        for url in read(page).fetched
        if urlsplit(url).path.endswith((".png", ".svg", ".jpg")) and not urlsplit(url).netloc
    }
    return {path.relative_to(site.resolve()).as_posix() for path in shown}


def _alive(url: str, page: Path, site: Path) -> bool:
    parts = urlsplit(url)
    target = _target(parts.path, page, site)
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return False
    return target.suffix != ".html" or unquote(parts.fragment) in read(target.resolve()).anchors or _tab(parts.fragment)


def _target(path: str, page: Path, site: Path) -> Path:
    """What a path on a page leads to; the page that stands for missing ones counts from the root of the site."""
    if page.name == "404.html" and path.startswith("/"):
        return site / unquote(path).lstrip("/")
    return page.parent / unquote(path) if path else page


def _tab(fragment: str) -> bool:
    """Anchors that the theme's own script makes."""
    return fragment.startswith("__")


if __name__ == "__main__":
    dead = complaints(Path(sys.argv[1]))
    print("\n".join(dead) or "no dead link")
    sys.exit(bool(dead))
