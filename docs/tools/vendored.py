"""What the site takes from npm, and brings itself so that no page asks elsewhere."""

from __future__ import annotations

from pathlib import Path

MODULES = Path(__file__).parents[2] / ".docs" / "npm" / "node_modules"
KATEX = MODULES / "katex" / "dist"
# Where material's plugin `offline` would fetch it from, and where it is.
SHIM_ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
SHIM = "assets/iframe-worker.js"


def assets() -> dict[str, Path]:
    """Return the files to copy, by their place in the site."""
    found = {
        SHIM: MODULES / "iframe-worker" / "shim" / "index.js",
        "assets/katex/katex.min.css": KATEX / "katex.min.css",
    }
    for font in sorted((KATEX / "fonts").glob("*.woff2")):
        found[f"assets/katex/fonts/{font.name}"] = font
    for package in ("katex", "iframe-worker"):
        found[f"assets/licences/{package}.txt"] = MODULES / package / "LICENSE"
    return found
