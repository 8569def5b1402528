"""What a person wants to know about a benchmark set before getting it."""

from __future__ import annotations

import os
from typing import Any

from typica.data.sets._find import benchmark_set, find_set
from typica.errors import border


@border
def describe_set(name: str, root: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Return what a set is, where its files come from and where it lies, as JSON values."""
    described = benchmark_set(name)
    path = find_set(name, root)
    files = []
    for file in described.files:
        entry = {"name": file.name, "addresses": list(file.addresses), "bytes": file.size}
        files.append(entry | file.digests._asdict())
    return {
        "title": described.title,
        "page": described.page,
        "licence": described.licence,
        "images": described.images,
        "bytes": described.size,
        "files": files,
        "path": None if path is None else str(path),
    }
