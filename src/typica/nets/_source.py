"""What a detector remembers of where its features came from, so that it can be shown images straight away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from typica.data import Preprocessing
from typica.errors import InputError
from typica.files import sha256
from typica.nets._models import PROGRAMS, Opened, open_model
from typica.origin import feature_layer


class Reopened(NamedTuple):
    """A model that was opened again, and the preprocessing that belongs to it."""

    opened: Opened
    transform: Preprocessing


def reopen(
    source: Mapping[str, Any] | None,
    where: str,
    *,
    model: str | None = None,
    weights: str | Path | None = None,
) -> Reopened:
    """Open the model of `source` again and check that it is the same.

    model, weights: where they are now, if they have moved. A model that is a function runs its
    owner's code; a file alone cannot ask for that, so `model` must name it.
    """
    if source is None:
        raise InputError(
            f"{where}: was fitted on features and remembers no model; fit it on a bank of `typica extract`, or pass "
            "features."
        )
    spec = model or str(source["model_file"] or source["model"])
    if model is None and ":" in spec and not Path(spec).exists():
        raise InputError(
            f"{where}: its model is the function {spec}, whose code will run; agree with --model {spec}."
        )
    if model is None and source["model_file"] and not Path(spec).is_file():
        raise InputError(
            f"{where}: its model {spec} is not there any more; say where, --model FILE."
        )
    file = weights if weights is not None else source["weights_file"]
    if file not in (None, "bundled", "random") and not Path(file).is_file():
        raise InputError(
            f"{where}: its weights {file} are not there any more; say where, --weights FILE."
        )
    other = InputError(
        f"{where}: {file or spec} holds other weights than the detector was fitted with; find those, --weights FILE, "
        "or extract and fit again."
    )
    # The fingerprint of these is the file's, so another program need not be opened to be refused.
    if (
        Path(spec).suffix.lower() in PROGRAMS
        and Path(spec).is_file()
        and sha256(Path(spec)) != source["weights"]
    ):
        raise other
    opened = open_model(
        spec,
        file,
        layer=feature_layer(source["layer"]),
        head=source.get("head"),
        reduce=source["reduce"],
    )
    if opened.identity["weights"] != source["weights"]:
        raise other
    if opened.identity.get("code") != source.get("code"):
        raise InputError(
            f"{where}: the code of {spec} is not what it was when the detector was fitted; extract and fit again."
        )
    return Reopened(opened, Preprocessing.from_dict(source["transform"]))
