"""Every public door through which a file comes in, by what the path looks like."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.exceptions import NotFittedError

import typica
from typica.bank import Bank, describe_bank
from typica.bench import load_suite, read_result, read_result_scores, write_report
from typica.cli.info import pairs
from typica.data import (
    find_head,
    has_logits,
    holds_images,
    open_images,
    read_features,
    read_head,
    read_labels,
    read_origin,
    read_rows,
    unpack,
)
from typica.data.sets._idx import read_idx
from typica.decide import describe_file, read_scores
from typica.errors import InputError
from typica.nets import open_model
from typica.scale import open_tables

Door = Callable[[Path], Any]

ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz")
FEATURES = (".npy", ".npz", ".parquet", ".csv", ".safetensors")
CHECKPOINTS = (".pth", ".pt")


def enter(path: Path) -> int:
    """Take a path through every door that is meant for its kind; return how many let it in.

    What a door refuses with an InputError is well; anything else that it raises is a finding.
    """
    passed = 0
    for door in doors(path):
        with suppress(InputError):
            door(path)
            passed += 1
    return passed


def doors(path: Path) -> Iterator[Door]:
    """Yield the doors for a path."""
    if path.is_dir():
        yield from _folder_doors(path)
        return
    name = path.name.lower()
    for endings, found in FILE_DOORS:
        if name.endswith(endings):
            yield from found
    yield from (holds_images, look_at_images)


def _folder_doors(path: Path) -> Iterator[Door]:
    if (path / "manifest.json").exists():
        yield use_bank
        yield from (read_features, read_labels, read_head, read_origin)
    if (path / "result.json").exists():
        yield read_result
        yield read_result_scores
        yield write_report_somewhere
    yield look_at_images


def use_detector(path: Path) -> None:
    """Load a detector, and use it in every way on rows of the width that it asks for."""
    found = typica.load(path)
    uses: list[Callable[[], Any]] = [
        lambda: shown_in_shell(describe_file(path)),
        lambda: repr(found),
    ]
    if hasattr(found, "update"):
        uses += [lambda: found.update(np.array([0.5, 0.25])), found.to_dict]
    first = found.steps[0][1] if hasattr(found, "steps") else found
    width = getattr(first, "n_features", None)
    width = getattr(first, "n_features_in_", 4) if width is None else width
    for dtype in (np.float32, np.float64):
        uses += _uses_on(found, np.linspace(-2, 1, 5 * width, dtype=dtype).reshape(5, width))
    uses += [lambda: saved_again(found)]
    for use in uses:
        with suppress(InputError, NotFittedError):
            use()


def _uses_on(found: Any, rows: Any) -> list[Callable[[], Any]]:
    """Return the uses of what a file held on rows."""
    if hasattr(found, "transform"):
        return [lambda: found.transform(rows)]
    if not hasattr(found, "score_samples"):
        return []
    return [
        lambda: found.score_samples(rows),
        lambda: found.predict(rows),
        lambda: found.decision_function(rows),
        lambda: show(typica.judge(found, rows)),
        lambda: show(typica.judge(found, rows[:1])),
        lambda: [show(one) for one in typica.explain(found, rows)],
        lambda: typica.p_values(found, rows),
        lambda: typica.discoveries(found, rows),
    ]


def show(said: Any) -> None:
    """Show verdicts or an explanation in every way."""
    str(said), repr(said), said._repr_html_(), said.to_dict()


def saved_again(found: Any) -> None:
    """Write what was loaded to a file that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        typica.save(found, Path(folder) / "again.safetensors")


def use_bank(path: Path) -> None:
    """Open a bank and read all that it holds."""
    bank = Bank.open(path)
    uses: list[Callable[[], Any]] = [
        lambda: bank.head,
        lambda: bank.origin,
        lambda: bank.accuracy,
        lambda: list(bank.names or ()),
        bank.__repr__,
        bank._repr_html_,
        lambda: shown_in_shell(describe_bank(bank)),
        bank.fingerprint,
        bank.verify,
    ]
    for use in uses:
        with suppress(InputError):
            use()


def shown_in_shell(description: Any) -> None:
    """Show a description as `typica info` does."""
    Console(file=io.StringIO()).print(pairs("it", description))


def look_at_images(path: Path) -> None:
    """Open images, and read the first few and the fingerprint of all."""
    images = open_images(path)
    for i in range(min(len(images), 5)):
        with suppress(InputError):
            images.read(i)
    images.fingerprint()


def unpack_somewhere(path: Path) -> None:
    """Unpack an archive to a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(path, Path(folder) / "out")


def write_report_somewhere(path: Path) -> None:
    """Write the report of a result to a file that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        write_report(path, Path(folder) / "report.html")


def read_lines_of_scores(path: Path) -> None:
    """Read a stream of scores."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        list(read_scores(lines))


def use_weights(path: Path) -> None:
    """Read a checkpoint into a network of the zoo."""
    open_model("densenet-bc-100", path)


def bank_head(path: Path) -> None:
    """Look for the head of a bank among features."""
    find_head(None, path)


FILE_DOORS: tuple[tuple[tuple[str, ...], tuple[Door, ...]], ...] = (
    (
        FEATURES,
        (read_features, read_rows, read_labels, read_head, has_logits, read_origin, bank_head),
    ),
    ((".parquet",), (open_tables,)),
    ((".txt",), (read_labels,)),
    ((".safetensors",), (use_detector,)),
    ((".jsonl",), (read_lines_of_scores,)),
    ((".toml",), (load_suite,)),
    (ARCHIVES, (unpack_somewhere,)),
    (("ubyte.gz", "f.gz"), (read_idx,)),
    ((".onnx", *CHECKPOINTS), (open_model,)),
    (CHECKPOINTS, (use_weights,)),
)
