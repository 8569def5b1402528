"""Fits, calibrations and scores on Ray: its data sets, and files that workers read.

    import ray
    from typica.scale import ray as on_ray

    rows = ray.data.read_parquet("s3://bucket/embeddings/")
    detector = on_ray.fit(CTM(), rows, "label", features="embedding")
    on_ray.calibrate(detector, held_out, features="embedding", alpha=0.05)
    verdicts = on_ray.score(detector, rows, features="embedding", ids="id")

`Scorer` and `Extractor` are callable classes for `Dataset.map_batches`, for a pipeline of your own:
images to features by one network per actor, features to verdicts. Ray takes care of what is retried
or moved: a worker that dies does not change the result.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Unpack

from typica import store
from typica.calibration import CalibrationOptions
from typica.decide import load_detector
from typica.detectors import Detector, E, Estimator
from typica.errors import border
from typica.scale import _fit, _score
from typica.scale._columns import Wanted
from typica.scale._fit import fit_counted
from typica.scale._judge import Judge, VerdictsOf
from typica.scale._on_frames import (
    calibrate_frame,
    columns_for,
    fit_frame,
    judge_frame,
    refuse_output,
)
from typica.scale._ray_cluster import RayCluster, connect
from typica.scale._ray_dataset import RayDataset, is_dataset, judge_table
from typica.scale._ray_images import Extractor
from typica.scale._tables import field_of

__all__ = ["Extractor", "RayCluster", "Scorer", "calibrate", "connect", "fit", "score"]


@border
def fit(
    detector: Detector,
    data: Any,
    labels: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    sample: int | None = None,
    on_error: str = "stop",
) -> Detector:
    """Fit a detector on a Ray data set, or on files that workers read.

    The rows of a data set have no numbers: those of a sample, and of the provisional threshold of
    more than 2,048, differ each time. Rows of files are identified by file and row number.

    Parameters
    ----------
    detector
        An unfitted detector, which stays as it is.
    data
        A Ray data set, or files as `typica.scale.open_tables` takes them.
    labels
        A column; for files, anything that `typica.scale.fit` takes.
    features, columns, sample, on_error
        As `typica.scale.fit` takes them.
    """
    named: dict[str, Any] = {"features": features, "columns": columns, "labels": labels}
    named["on_error"] = on_error
    if is_dataset(data):
        return fit_frame(detector, RayDataset(data), Wanted(**named), sample)
    return fit_counted(detector, data, **named, sample=sample, engine=RayCluster()).detector


@border
def calibrate(
    estimator: E,
    data: Any,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    on_error: str = "stop",
    **options: Unpack[CalibrationOptions],
) -> E:
    """Calibrate a fitted detector, or a Pipeline that ends in one, on held-out rows.

    Parameters
    ----------
    estimator
        A fitted detector or Pipeline; it is changed and returned.
    data, features, columns, on_error
        As `fit` takes them.
    options
        The `alpha` or `tpr`, `confidence`, `by_class` and `groups` of `Detector.calibrate`.
    """
    named: dict[str, Any] = {"features": features, "columns": columns, "on_error": on_error}
    if is_dataset(data):
        return calibrate_frame(estimator, RayDataset(data), Wanted(**named), **options)
    return _fit.calibrate(estimator, data, **named, **options, engine=RayCluster())


@border
def score(
    estimator: Estimator,
    data: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    on_error: str = "stop",
    **options: Any,
) -> Any:
    """Return verdicts on rows as a data set, which is computed when it is needed.

    Parameters
    ----------
    estimator
        A fitted detector, or a Pipeline that ends in one.
    data, features, columns, on_error
        As `fit` takes them.
    output
        The folder for verdicts on files, as `typica.scale.score` takes it; not for data sets.
    ids
        A column to pass on.
    options
        The `alpha` or `tpr`, `confidence` and `only` of `Judge`.
    """
    named: dict[str, Any] = {"features": features, "columns": columns, "ids": ids}
    named["on_error"] = on_error
    if is_dataset(data):
        refuse_output(output, "write_parquet")
        return judge_frame(estimator, RayDataset(data), Wanted(**named), **options)
    return _score.score(estimator, data, output, **named, **options, engine=RayCluster())


class Scorer:
    """Judges batches of rows: a callable class for `Dataset.map_batches`.

        verdicts = rows.map_batches(
            Scorer,
            fn_constructor_kwargs={"detector": "ctm.safetensors", "features": "embedding"},
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=4),
        )

    Each actor reads the detector once. A batch becomes its verdicts, with the ids before them.

    Parameters
    ----------
    detector
        Its file, where the workers see it, or its bytes from `typica.store.to_bytes`.
    features, columns, ids, on_error, options
        As `score` takes them.
    """

    @border
    def __init__(
        self,
        detector: str | os.PathLike[str] | bytes,
        features: str | None = None,
        columns: Sequence[str] | None = None,
        ids: str | None = None,
        on_error: str = "stop",
        **options: Any,
    ) -> None:
        if isinstance(detector, bytes):
            self.estimator = store.from_bytes(detector)
        else:
            self.estimator = load_detector(os.fspath(detector))
        self.wanted = Wanted(features, columns, ids=ids, on_error=on_error)
        self.options = options

    @border
    def __call__(self, table: Any) -> Any:
        """Return the verdicts on an Arrow table."""
        opened = columns_for(self.estimator, table.schema, self.wanted)
        judge = Judge(self.estimator, field_of(table.schema, self.wanted.ids), **self.options)
        return judge_table(VerdictsOf(judge, opened), table)
