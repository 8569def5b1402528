"""What mkdocs calls while it builds the site (`hooks` in mkdocs.yml).

Adds the pages that are generated, puts pages that the navigation does not name into it, typesets
formulas and shows figures inside the page, where they follow its light or dark colours.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import api
import figure
import formula
import navigation
import vendored
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[2]
COPIED = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def on_config(config: Any) -> Any:
    """Complete the navigation."""
    docs = Path(config.docs_dir)
    config.nav = navigation.complete(config.nav, docs, list(api.pages()))
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what is generated, what lies outside docs/, and what comes from npm."""
    for name, text in api.pages().items():
        files.append(File.generated(config, name, content=text))
    for name, source in COPIED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=navigation.from_docs(text)))
    files.append(File.generated(config, "llms.txt", abs_src_path=str(ROOT / "llms.txt")))
    for name, path in vendored.assets().items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_content(html: str, page: Page, config: Any, **_: Any) -> str:
    """Typeset the formulas of a page and show its figures."""
    where = page.file.src_uri
    shown = figure.inline(html, Path(config.docs_dir), where)
    if where.startswith("moving/"):
        shown = f'<div class="moving">{breakable(shown)}</div>'
    return formula.typeset(shown, where)


def breakable(html: str) -> str:
    """Return a page whose tables of code may break lines before a dot and after a bracket.

    >>> breakable("<td><code>a.b(c)</code></td>")
    '<td><code>a<wbr>.b(<wbr>c)</code></td>'
    """

    def one(found: re.Match[str]) -> str:
        return re.sub(r"\.(?=[a-z_])", "<wbr>.", found[0]).replace("(", "(<wbr>")

    return re.sub(r"(?<=<td><code>).*?(?=</code>)", one, html, flags=re.DOTALL)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Take from the site itself what a plugin would have fetched from elsewhere."""
    return output.replace(vendored.SHIM_ELSEWHERE, get_relative_url(vendored.SHIM, page.url))


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    """Do the same for pages that are not written by anybody, such as 404.html."""
    return output.replace(vendored.SHIM_ELSEWHERE, f"/{vendored.SHIM}")
