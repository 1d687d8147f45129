"""What MkDocs does with a page beside its own work: its code runs, formulas become MathML, files have names.

- Python blocks run (`pages.py`), and what they leave stands below them.
- Formulas are written as MathML while the site is built: pages need no script and no network for them.
- CONTRIBUTING.md and CHANGELOG.md are pages. Links to other files lead to the repository, once it is published.
- `docs/model.md` in a docstring becomes a link.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
import struct
import sys
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

sys.path.insert(0, str(Path(__file__).parent))

import pages
import runner

ROOT = pages.ROOT
DOCS = ROOT / "docs"
WIDEST, LEGIBLE = 7, 65  # inches; pixels an inch, at which letters of ten points have nine pixels
FETCHED, WORKER = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
OF_THE_ROOT = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])</\1>', re.S)
WITHOUT_WARNINGS = "<!-- without warnings -->"  # on pages whose fits are short, and that say so
MENTION = re.compile(r"(?<![\w/])docs/([a-z]+)\.md")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Not `repo_url`: with it, pages would ask GitHub for stars, and this site asks nobody for anything."""
    if home := pages.repository():
        config.extra["social"] = [{"icon": "fontawesome/brands/git-alt", "link": home, "name": "The source"}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, uri in OF_THE_ROOT.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text()))
    files.append(File.generated(config, WORKER, abs_src_path=Path(__file__).with_name("iframe-worker.js")))
    own = [page for page in files.documentation_pages() if page.src_uri not in OF_THE_ROOT.values()]
    pages.run([DOCS / page.src_uri for page in own])
    for page in own:
        folder, left = pages.outcomes(DOCS / page.src_uri)
        for picture, _ in (picture for one in left for picture in one.pictures):
            files.append(File.generated(config, _address(page.src_uri, picture), abs_src_path=folder / picture))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    if uri not in OF_THE_ROOT.values():
        markdown = _with_outcomes(uri, config)
    return LINK.sub(lambda found: _linked(found, uri, config, files), markdown)


def _with_outcomes(uri: str, config: MkDocsConfig) -> str:
    """The page with what its blocks leave below each of them, and without those that nobody sees."""
    path = DOCS / uri
    text, shown, at = path.read_text(), [], 0
    folder, left = pages.outcomes(path)
    for block, outcome in zip(pages.blocks(text), left, strict=True):
        words = _without_warnings(outcome.text) if WITHOUT_WARNINGS in text else outcome.text
        shown.append(text[at : block.start if block.hidden else block.end])
        at = block.end
        if not block.hidden and words:
            shown.append(f"\n\n```{{.text .no-copy .output}}\n{words}\n```\n")
        if not block.hidden and outcome.table:
            shown.append(f'\n\n<div class="output" markdown="0">{outcome.table}</div>\n')
        for picture, title in outcome.pictures:
            where = posixpath.relpath(_address(uri, picture), posixpath.dirname(uri) or ".")
            shown.append(f"\n\n![{title}]({where}){{ .picture{_wide(folder / picture)} }}\n")
    body = "".join([*shown, text[at:]])
    return re.sub(r"\A---\n.*?\n---\n", "", body, flags=re.S)


def _wide(picture: Path) -> str:
    """How wide a picture has to be on a phone, if its letters would be too small where it is as wide as the page."""
    inches = struct.unpack(">I", picture.read_bytes()[16:20])[0] / runner.DOTS  # which the head of a PNG says
    return f' .wide style="--wide: {inches * LEGIBLE:.0f}px"' if inches > WIDEST else ""


def _without_warnings(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("ConvergenceWarning: "))


def _address(uri: str, picture: str) -> str:
    return f"pictures/{uri.removesuffix('.md').replace('/', '-')}-{picture}"


def _linked(found: re.Match[str], uri: str, config: MkDocsConfig, files: Files) -> str:
    """A link of a file of the repository, as the site has it: words alone where it would lead to nothing published."""
    words, target, anchor = found[1], found[2], found[3] or ""
    if "://" in target or target.startswith("mailto:") or not _is_link(target):
        return found[0]
    here = "" if uri in OF_THE_ROOT.values() else posixpath.join("docs", posixpath.dirname(uri))
    inside = posixpath.normpath(posixpath.join(here, target))
    if inside in OF_THE_ROOT:
        page = OF_THE_ROOT[inside]
    elif inside.startswith("docs/") and _is_page(files.get_file_from_path(inside.removeprefix("docs/"))):
        page = inside.removeprefix("docs/")
    elif (ROOT / inside).exists():
        home = pages.repository()
        return f"[{words}]({home}/blob/main/{inside}{anchor})" if home else words
    else:
        return found[0]  # MkDocs says what is wrong with it
    return f"[{words}]({posixpath.relpath(page, posixpath.dirname(uri) or '.')}{anchor})"


def _is_page(file: File | None) -> bool:
    return file is not None and not file.inclusion.is_excluded()


def _is_link(target: str) -> bool:
    """Not the argument of a function in brackets, as in `[f](x)` of code: files have an ending."""
    return "." in os.path.basename(target.rstrip("/"))


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    content = FORMULA.sub(_formula, content)
    if page.file.src_uri.startswith("reference/"):
        content = MENTION.sub(lambda found: _mention(found, page, files), content)
    return content


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The theme would fetch a script, with which search works in pages opened as files, from elsewhere."""
    return output.replace(FETCHED, get_relative_url(WORKER, page.url))


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """The page of what is not there names files from the root of a server, but the site may be a folder on a disk."""
    if template_name == "404.html":
        output = re.sub(r'\b(href|src)="/', r'\1="', output)
    return output.replace(FETCHED, WORKER)


def _formula(found: re.Match[str]) -> str:
    if found[1] == "div":
        return f'<div class="formula">{convert(html.unescape(found[2]), display="block")}</div>'
    return convert(html.unescape(found[2]), display="inline")


def _mention(found: re.Match[str], page: Page, files: Files) -> str:
    there = files.get_file_from_path(f"{found[1]}.md")
    return f'<a href="{there.url_relative_to(page.file)}">{found[1]}.md</a>' if there else found[0]
