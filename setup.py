"""What of the package's page depends on where the sources are published: its addresses, and the links of README.md.

pyproject.toml says where, in one line. There the links of the README, which lead to files beside it, become whole; as
long as nothing is published, their words stay, the section that is nothing without links goes, and nothing is made up.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:)([^)]+)\)")
LEADS_ON = re.compile(r"^## Where to go next\n.*?(?=^## |\Z)", re.M | re.S)


def repository() -> str:
    address: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["unbounded"]["repository"]
    return address.rstrip("/")


def addresses(home: str) -> dict[str, str]:
    pages = {"Documentation": "tree/main/docs", "Changelog": "blob/main/CHANGELOG.md", "Issues": "issues"}
    return {"Homepage": home} | {name: f"{home}/{page}" for name, page in pages.items()} if home else {}


def readme(text: str, home: str) -> str:
    """As the package's page shows it, where there are no files beside it."""

    def whole(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if not home:
            return "" if picture else words
        return f"{picture}[{words}]({home}/{'raw' if picture else 'blob'}/main/{target})"

    return LINK.sub(whole, text if home else LEADS_ON.sub("", text))


if __name__ == "__main__":
    setup(
        long_description=readme((ROOT / "README.md").read_text("utf-8"), repository()),
        long_description_content_type="text/markdown",
        project_urls=addresses(repository()),
    )
