"""What `import typica` costs against scikit-learn's own import."""

from __future__ import annotations

import subprocess
import sys

from timing import ratio


def python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def run() -> list[tuple[str, float, float, str]]:
    plain, _, _ = ratio(lambda: python("import typica"), lambda: python("import sklearn"))
    ready, _, _ = ratio(lambda: python("from typica import CTM"), lambda: python("import sklearn"))
    return [
        ("import typica / import sklearn", plain, 1.1, "at most"),
        ("from typica import CTM / import sklearn", ready, 1.25, "at most"),
    ]
