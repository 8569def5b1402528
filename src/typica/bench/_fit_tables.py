"""Fit and calibrate a detector from tables of any size."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from typica import scale
from typica.detectors import Detector, reads_layers
from typica.errors import CalibrationWarning, InputError, argument
from typica.nets import InputReader
from typica.progress import note
from typica.written_numbers import Level


class Held(NamedTuple):
    """Held-out inputs, and the levels to reject at."""

    inputs: Sequence[str | Path]
    alpha: Level | None = None
    tpr: Level | None = None


@contextmanager
def threshold_to_come(calibrated: bool) -> Iterator[None]:
    """Keep `fit_files` from warning about a provisional threshold if it calibrates next."""
    with warnings.catch_warnings():
        if calibrated:
            warnings.simplefilter("ignore", CalibrationWarning)
        yield


def say_provisional() -> None:
    """Say, after a fit from files, what its threshold is worth without calibration."""
    wanted = argument("calibrate", "HELD_OUT")
    note(f"threshold from training rows, which is optimistic; pass {wanted}")


def fit_tables(
    data: str | Path,
    detector: Detector,
    columns: Mapping[str, Any],
    labels: str | Path | None = None,
    held_out: Held | None = None,
    *,
    on: scale.On = scale.HERE,
) -> tuple[Detector, int]:
    """Fit a detector on tables; return it, and how many rows it was fitted on.

    columns: features, columns, sample and on_error, as `typica.scale.fit` takes them. held_out:
    tables with the same columns, or a file of features, for the threshold.
    """
    if reads_layers(detector) is not None:
        raise InputError(f"{type(detector).__name__} reads several layers; pass a bank.")
    scale.check_engine(*on)
    named: dict[str, Any] = {name: columns.get(name) for name in ("features", "columns")}
    named["on_error"] = columns.get("on_error", "stop")
    if held_out is not None:  # before the fit, so that errors show early
        _open_held_out(held_out, named)
    with _opened(on) as engine:
        where: dict[str, Any] = {**named, "engine": engine}
        sample = columns.get("sample")
        with threshold_to_come(held_out is not None):
            fitted = scale.fit_counted(detector, data, **where, labels=labels, sample=sample)
        made = fitted.detector
        if held_out is None:
            say_provisional()
        else:
            _calibrate(made, held_out, where)
    return made, fitted.n


def _opened(on: scale.On) -> AbstractContextManager[scale.Cluster | None]:
    """Return one cluster for the fit and its calibration, or none."""
    if on.engine is None:
        return nullcontext()
    return scale.open_engine(on.engine, on.address)


def _open_held_out(held_out: Held, columns: Mapping[str, Any]) -> None:
    if _as_tables(held_out):
        scale.open_tables(list(map(str, held_out.inputs)), **columns)


def _as_tables(held_out: Held) -> bool:
    endings = {Path(path).suffix.lower() for path in held_out.inputs}
    return any(map(scale.is_tables, held_out.inputs)) or endings == {".parquet"}


def _calibrate(detector: Detector, held_out: Held, where: Mapping[str, Any]) -> None:
    alpha, tpr = held_out.alpha, held_out.tpr
    if _as_tables(held_out):
        tables = list(map(str, held_out.inputs))
        scale.calibrate(detector, tables, **where, alpha=alpha, tpr=tpr)
        return
    rows = InputReader.of(detector).rows(list(map(Path, held_out.inputs)))
    detector.calibrate(rows, alpha=alpha, tpr=tpr)
