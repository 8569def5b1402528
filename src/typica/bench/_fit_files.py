"""Fit and calibrate a detector from files: features, banks, or images and a network."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from typica.arrays import AnyArray, Labels
from typica.bench._fit_tables import Held, fit_tables, say_provisional, threshold_to_come
from typica.checks import FromFile, check_parameters
from typica.data import (
    FeatureFile,
    Features,
    Images,
    are_images,
    find_head,
    holds_images,
    open_features,
    read_classes,
    read_features,
    read_head,
    read_labelled,
)
from typica.detectors import (
    Detector,
    detector_class,
    make_detector,
    reads_layers,
    reads_logits,
    takes_head,
)
from typica.errors import InputError, LogitsWarning, about, argument, border, given
from typica.files import is_same_file
from typica.head import Head
from typica.nets import InputReader, check_no_network
from typica.origin import Origin
from typica.progress import note, work
from typica.scale import On, are_tables
from typica.written_numbers import Level


class Fitted(NamedTuple):
    """What `fit_files` returns: a detector, and the number of rows in the files."""

    detector: Detector
    n: int


@border
def fit_files(
    features: str | Path,
    name: str = "ctm",
    *,
    params: Mapping[str, Any] | None = None,
    labels: str | Path | None = None,
    head: str | Path | None = None,
    calibrate: Sequence[str | Path] = (),
    alpha: Level | None = None,
    tpr: Level | None = None,
    classes: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
    engine: str | None = None,
    address: str | None = None,
    **network: Any,
) -> Fitted:
    """Fit a detector on a file of features, a bank, tables, or images that go through a network.

    Parameters
    ----------
    features
        The inputs to fit on. Tables are a folder or a pattern of files, an address, or a file whose
        columns are named with `columns`.
    name, params
        As `make_detector` takes them. A parameter that is a matrix or a list of names may be the
        path of a file that holds it; the labels in a file of prototypes name their classes.
    labels
        A file, or the name of a column beside the features, if no column is called 'label'.
    head
        A file with the last layer, if the features have none of their own.
    calibrate
        Held-out inputs that set the threshold. Without them the threshold is the provisional one of
        the fit.
    alpha, tpr
        The level of the threshold, as `Detector.calibrate` takes it.
    classes
        For images: the names of the network's outputs, in their order.
    columns
        For tables: features, columns and sample, as `typica.scale.fit` takes them.
    engine, address
        For tables: as `typica.scale.fit` takes them.
    network
        For images: model, weights, transform, trust and settings, as `typica.nets.extract` takes
        them.
    """
    _check_levels(calibrate, {"alpha": alpha, "tpr": tpr})
    _say_if_seen(features, calibrate)
    read = _read_params(name, params or {})
    held_out = Held(calibrate, alpha, tpr)
    on_error = getattr(network.get("settings"), "on_error", "stop")
    asked = {**(columns or {}), "engine": engine, "address": address}
    if are_tables([features], on_error, **asked):
        check_no_network({**network, "classes": classes}, "these are tables")
        made = _with_head(name, read, head)
        held = held_out if calibrate else None
        on = On(engine, address)
        named = {**(columns or {}), "on_error": on_error}
        return Fitted(*fit_tables(features, made, named, labels, held, on=on))
    if holds_images(features):
        opened = open_inputs(features, classes=classes, **network).features
    else:
        held_images = bool(calibrate) and are_images(list(calibrate))
        check_no_network({"classes": classes}, f"{features} holds none")
        check_no_network({} if held_images else network, f"{features} holds none")
        opened = open_features(features)
    made = _make(name, read, head, opened)
    uses_outputs = reads_logits(made) or getattr(made, "head", None) is not None
    if opened.bank is not None and holds_images(features) and classes is None and uses_outputs:
        # Needs torch, which is an extra.
        from typica.nets import check_class_order  # noqa: PLC0415

        with about(str(features)):
            check_class_order(opened.bank)
    check_parameters(made.params, made)  # first: no file is to blame for them
    reader = InputReader(opened.origin, reads_logits(made), whose=str(opened.path), **network)
    n = _fit_and_calibrate(made, opened, labels, held_out, reader=reader, head=head)
    return Fitted(made, n)


class OpenedInputs(NamedTuple):
    """What fits and choices from files work on: features, and their images if those were given."""

    features: FeatureFile
    images: Images | None = None


def open_inputs(path: str | Path, origin: Origin | None = None, **network: Any) -> OpenedInputs:
    """Open features, or images and the bank made of them.

    Parameters
    ----------
    path
        Features, or images.
    origin, network
        As `banked` of `_image_banks` takes them.
    """
    if holds_images(path):
        # Needs torch, which is an extra.
        from typica.bench._image_banks import banked  # noqa: PLC0415

        made = banked(Path(path), origin, **network)
        if made is not None:
            return OpenedInputs(FeatureFile(made.bank.path, made.bank), made.images)
    return OpenedInputs(open_features(path))


def _check_levels(calibrate: Sequence[str | Path], levels: Mapping[str, Any]) -> None:
    """Raise for a level without held-out rows to set it on."""
    for name, level in levels.items():
        if level is not None and not calibrate:
            raise InputError(
                f"{given(name, level)}: needs held-out rows: training rows cannot "
                f"guarantee it; pass {argument('calibrate', 'HELD_OUT')}, "
                f"or leave {argument(name)} out."
            )


def _say_if_seen(features: str | Path, calibrate: Sequence[str | Path]) -> None:
    """Say so if the held-out inputs are those that the detector is fitted on."""
    for path in calibrate:
        if is_same_file(features, path):
            note(
                f"{path}: was used for the fit, so a threshold from it is optimistic; pass "
                f"{argument('calibrate', 'HELD_OUT')}, inputs that are held out"
            )


def _read_params(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with the contents of files in place of their paths."""
    declared = detector_class(name).params
    read: dict[str, Any] = {}
    for key, value in params.items():
        parameter = declared.get(key)
        if not isinstance(parameter, FromFile) or not isinstance(value, str | Path):
            read[key] = value
        elif parameter.holds == "names":
            read[key] = read_classes(value)
        else:
            rows = read_features(value)
            read[key] = np.asarray(rows.features)
            if key == "positive" and rows.labels is not None:
                read.setdefault("classes", rows.labels)
    return read


def _with_head(name: str, params: Mapping[str, Any], head: str | Path | None) -> Detector:
    if head is None:
        return make_detector(name, **params)
    return make_detector(name, **params, head=read_head(head))


def _make(
    name: str, params: Mapping[str, Any], head: str | Path | None, features: FeatureFile
) -> Detector:
    """Make the detector, with the head that was given or, where it takes one, the bank's own."""
    found = find_head(head, features)
    made = make_detector(name, **params)
    if found is None or (head is None and not takes_head(made)):
        return made
    return make_detector(name, **params, head=found)


def _fit_and_calibrate(
    detector: Detector,
    features: FeatureFile,
    labels: str | Path | None,
    held_out: Held,
    *,
    reader: InputReader,
    head: str | Path | None,
) -> int:
    """Fit on a file of features, set the threshold, and return how many rows were fitted on.

    reader: reads the held-out inputs in the way the detector was fitted. head: the file that the
    detector's head was read from, if any.
    """
    calibrated = bool(held_out.inputs)
    if detector.tags.reads == "layers":
        with threshold_to_come(calibrated):
            n = _fit_layers(detector, features, labels)
        reader.layers = reads_layers(detector)  # which ones is known by now
        rows = _read_held_out(reader, held_out)
    else:
        train = read_labelled(features, labels, logits=reads_logits(detector))
        reader.columns = train.names
        reader.width = train.features.shape[1]
        check_head(getattr(detector, "head", None), head, features, reader.width)
        rows = _read_held_out(reader, held_out)  # before the fit, so that errors show early
        with threshold_to_come(calibrated):
            n = _fit_rows(detector, features, train)
    if reader.columns is not None:
        detector.name_columns(reader.columns)
    if reader.opened_origin is not None:
        detector.origin_ = features.origin or reader.opened_origin
    _set_threshold(detector, rows, held_out)  # last: its scores are those of all that was set
    return n


def check_head(
    head: Head | None, path: str | Path | None, features: FeatureFile, width: int
) -> None:
    """Refuse the head of a file, at this path, where features to fit on have another width."""
    if head is not None and path is not None and head.n_features != width:
        raise InputError(
            f"{path}: a head for {head.n_features} features, and the rows of {features.path} have "
            f"{width}; take both from the same network."
        )


def _read_held_out(reader: InputReader, held_out: Held) -> AnyArray | None:
    return reader.rows(list(map(Path, held_out.inputs))) if held_out.inputs else None


def _fit_layers(detector: Detector, features: FeatureFile, labels: str | Path | None) -> int:
    """Fit on the layers of a bank, and return how many rows it has."""
    rows = read_labelled(features, labels)
    say_if_one_class([detector], rows.labels)
    with work("fitting", len(rows.features)), about(str(features.path)):
        detector.fit(rows.features if features.bank is None else features.bank, rows.labels)
    return len(rows.features)


def _fit_rows(detector: Detector, features: FeatureFile, train: Features) -> int:
    """Fit on features or logits with their labels, and return how many rows there were."""
    targets = train.labels
    if reads_logits(detector):
        _say_what_are_logits(features)
        targets = _to_check_by(detector, features, targets)
    say_if_one_class([detector], targets)
    with (
        work("fitting", len(train.features)),
        about(str(features.path)),
        warnings.catch_warnings(),
    ):
        # It was just said which rows are logits.
        warnings.simplefilter("ignore", LogitsWarning)
        detector.fit(train.features, targets)
    return len(train.features)


def say_if_one_class(detectors: Iterable[Detector], targets: Labels | None) -> None:
    """Say so if a detector treats all rows as one class because there are no labels."""
    tags = [detector.tags for detector in detectors]
    if targets is None and any(tag.uses_labels and not tag.needs_labels for tag in tags):
        wanted = argument("labels")
        note(f"no labels: all rows count as one class (pass {wanted} for one mean per class)")


def _say_what_are_logits(features: FeatureFile) -> None:
    rows = "bank's logits are read" if features.has_logits else "rows are taken as logits"
    note(f"no head: the {rows} (pass {argument('head')} for features)")


def _to_check_by(
    detector: Detector, features: FeatureFile, labels: AnyArray | None
) -> AnyArray | None:
    """Return the labels, unless nobody needs them: a bank's logits are known to be logits."""
    known = features.has_logits and not detector.tags.uses_labels
    return None if known else labels


def _set_threshold(detector: Detector, rows: AnyArray | None, held_out: Held) -> None:
    """Calibrate on held-out rows; say what the threshold of the fit is worth without them."""
    if rows is None:
        say_provisional()
        return
    with work("calibrating", len(rows)):
        detector.calibrate(rows, alpha=held_out.alpha, tpr=held_out.tpr)
