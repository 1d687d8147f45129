"""Are the page's quotations in the paper, word for word, where the page says? The paper's text is given by its reader.

    python -m experiments.quotations docs/paper.md TEXT

TEXT is LaTeX or plain text. Quotations are what stands between “ and ” on the page, followed by the section in
brackets. Mark-up, line breaks, references, footnotes and the kind of quotation marks and dashes do not matter; case,
words and their order do. "…" in a quotation stands for words left out, all of one section. Of plain text without
headings only the words are compared. Exit status 1 if one is not found.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

QUOTATION = re.compile(r"“([^”]+)”(?:\s*\(([^)]*)\))?")
HEADING = re.compile(r"\\(section|subsection|subsubsection)\*?\{")
DROPPED = re.compile(r"\\(?:citep?|citet|citealt|footnote|footnoteref|label|ref|eqref|blfootnote|vspace|caption)\b\*?")
KEYS = {0x201C: '"', 0x201D: '"', 0x2019: "'", 0x2014: "-", 0x2013: "-", ord("~"): " "}  # typographic -> of a keyboard
SECTION = re.compile(r"Section ([\w.]+)|(Abstract)")


class Quotation(NamedTuple):
    words: str
    section: str | None


def quotations(page: str) -> list[Quotation]:
    """Those of a page, with the sections that it gives."""
    found = []
    for words, where in QUOTATION.findall(page.replace("\n> ", "\n")):
        section = SECTION.search(where)
        found.append(Quotation(words, (section[1] or section[2]) if section else None))
    return found


def sections(text: str) -> Iterator[tuple[str, str]]:
    """(number, plain words) of each section of a text; all of it, as "", where there are no headings."""
    if abstract := re.search(r"\\begin\{abstract\}(.*?)\\end\{abstract\}", text, re.DOTALL):
        yield "Abstract", plain(abstract[1])
    places = list(HEADING.finditer(text))
    appendix = text.find(r"\appendix")
    if not places:
        yield "", plain(text)
        return
    numbers = [0, 0, 0]
    lettered = False
    for this, following in zip(places, [*places[1:], None], strict=True):
        if not lettered and 0 <= appendix < this.start():
            numbers, lettered = [0, 0, 0], True
        level = {"section": 0, "subsection": 1, "subsubsection": 2}[this[1]]
        numbers = [*numbers[:level], numbers[level] + 1, *[0] * (2 - level)]
        first = chr(ord("A") + numbers[0] - 1) if lettered else str(numbers[0])
        end = following.start() if following else len(text)
        yield ".".join([first, *(str(n) for n in numbers[1:] if n)]), plain(text[this.end() : end])


def plain(text: str) -> str:
    """Words alone: no mark-up, one blank between any two, plain quotation marks and dashes."""
    text = re.sub(r"(?<!\\)%.*", "", text)
    text = _without_arguments(text)
    text = re.sub(r"\\begin\{[^}]*\}|\\end\{[^}]*\}", " ", text)
    text = re.sub(r"\\[a-zA-Z]+\*?\s?|\\(?=[^a-zA-Z])", "", text)  # commands go, their arguments stay
    text = text.translate(KEYS).replace("``", '"').replace("''", '"')
    text = re.sub(r"[{}$]", "", text)
    return re.sub(r"\s+", " ", re.sub(r"-+", "-", text)).strip()


def _without_arguments(text: str) -> str:
    """The text without references and footnotes, whose arguments are no part of a sentence."""
    while found := DROPPED.search(text):
        end = found.end()
        while end < len(text) and text[end] in "[{":
            end = _closed(text, end)
        text = text[: found.start()] + text[end:]
    return text


def _closed(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in "[{") - (text[place] in "]}")
        if depth == 0:
            return place + 1
    return len(text)


def is_in(words: str, text: str) -> bool:
    """Whether the pieces of a quotation stand in this order in a text."""
    place = 0
    for piece in words.split("…"):
        wanted = plain(piece).strip()
        place = text.find(wanted, place)
        if place < 0:
            return False
        place += len(wanted)
    return True


def problems(page: str, text: str) -> list[str]:
    """One sentence for each quotation that is not in the text, or not where the page says."""
    parts = list(sections(text))
    headed = [number for number, _ in parts] != [""]
    out = []
    for words, section in quotations(page):
        where = [number for number, part in parts if is_in(words, part)]
        if not where:
            out.append(f"not in the text: “{words}”")
        elif headed and section is None:
            out.append(f"without a section: “{words}” (it is in {', '.join(filter(None, where))})")
        elif headed and section not in where:
            out.append(f"not in section {section} but in {', '.join(filter(None, where))}: “{words}”")
    return out


def main(page: Path, text: Path) -> int:
    there = quotations(page.read_text())
    wrong = problems(page.read_text(), text.read_text())
    print("\n".join([*wrong, f"{len(there) - len(wrong)} of {len(there)} quotations are as the text has them."]))
    return 1 if wrong or not there else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m experiments.quotations PAGE TEXT")
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
