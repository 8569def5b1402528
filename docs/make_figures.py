"""Draw the figures of the site into docs/figures/, from the library itself.

    python docs/make_figures.py [NAME...]

A NAME is that of a figure or of a method; without one all are drawn. Needs contourpy, which comes
with matplotlib.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS / "tools")]

import charts  # noqa: E402
import levels  # noqa: E402
from measure_methods import make  # noqa: E402
from svg import Drawing  # noqa: E402

from typica import detector_class, list_detectors, list_rectifiers, rectifier_class  # noqa: E402

FIGURES = DOCS / "figures"


def main() -> None:
    """Draw what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args().names
    for name, draw in {**charts.FIGURES, **methods()}.items():
        if not asked or Path(name).stem in asked:
            drawing = draw()
            drawing.save(FIGURES / f"{name}.svg")
            print(f"{name}.svg", len(drawing.text()), "bytes")


def methods() -> dict[str, Callable[[], Drawing]]:
    """Return how the level sets of every method are drawn, by the figure's name."""
    blobs = levels.Blobs()
    found = {}
    for name in [*list_detectors(), *list_rectifiers()]:
        found[f"levels/{name}"] = lambda name=name: _levels(name, blobs)
    return found


def _levels(name: str, blobs: levels.Blobs) -> Drawing:
    cls = detector_class(name) if name in list_detectors() else rectifier_class(name)
    _, estimator = make(name, blobs.head)
    return levels.draw(cls.__name__, estimator, blobs)


if __name__ == "__main__":
    main()
