"""Pictures side by side, as one: for the README, which has no styles.

python tools/site/beside.py build/pages/docs-index/1-*.png docs/first-model.png
"""

from __future__ import annotations

import sys

from PIL import Image


def main(*given: str, out: str) -> None:
    pictures = [Image.open(name).convert("RGB") for name in given]
    height = min(picture.height for picture in pictures)
    scaled = [picture.resize((round(picture.width * height / picture.height), height)) for picture in pictures]
    whole = Image.new("RGB", (sum(picture.width for picture in scaled), height), "white")
    at = 0
    for picture in scaled:
        whole.paste(picture, (at, 0))
        at += picture.width
    whole.save(out, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:-1], out=sys.argv[-1])
