"""Run the code of pages and write what it prints below it.

    python docs/run_pages.py docs/tutorials/digits.md

A block of `text` right below a block of code is its output, and is written anew. The files that a
page names are made as the tests make them.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "tools"), str(DOCS.parent / "tests")]

import pages  # noqa: E402
from helpers.snippets import write_features, write_photos  # noqa: E402

from typica.bench import digits  # noqa: E402


def main() -> None:
    """Run and write the pages that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    for path in parser.parse_args().pages:
        place = path.resolve()
        text = place.read_text(encoding="utf-8")
        blocks = pages.read(text)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            write_photos()
            write_features(digits.load())
            reader = pages.Reader(str(path))
            outputs = [reader.run(block) for block in blocks]
        place.write_text(pages.rewritten(text, blocks, outputs), encoding="utf-8")
        print(f"{path}: {len(blocks)} blocks")


if __name__ == "__main__":
    main()
