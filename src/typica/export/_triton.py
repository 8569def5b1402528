"""A folder that Triton Inference Server loads: the model, and its config.pbtxt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typica.errors import InputError, border
from typica.export._describe import describe_onnx
from typica.files import atomic_path

if TYPE_CHECKING:
    import onnx

VERSION = "1"
MOST = 64  # rows that the server joins into one batch
_TYPES = {
    "bool": "TYPE_BOOL",
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
    "int64": "TYPE_INT64",
    "uint8": "TYPE_UINT8",
}


@border
def write_triton(model: onnx.ModelProto, folder: str | Path, name: str | None = None) -> Path:
    """Write an exported model as an entry of a Triton model repository; return its folder.

        model_repository/ctm/config.pbtxt
        model_repository/ctm/1/model.onnx

    folder: the entry, model_repository/ctm. name: of the model; the folder's own if None.
    """
    entry = Path(folder)
    config = triton_config(model, name or entry.resolve().name)
    try:
        (entry / VERSION).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{entry}: cannot make a folder there ({error.strerror}); choose another."
        ) from None
    with atomic_path(entry / VERSION / "model.onnx") as file:
        file.write_bytes(model.SerializeToString())
    with atomic_path(entry / "config.pbtxt") as file:
        file.write_text(config, encoding="utf-8")
    return entry


def triton_config(model: onnx.ModelProto, name: str) -> str:
    """Return the config.pbtxt of an exported model.

    Triton joins requests along the batch axis, which a threshold does not have: it is left out, so
    that the server uses the one in the file.
    """
    told = describe_onnx(model)
    inputs = {key: value for key, value in told["inputs"].items() if key != "threshold"}
    parts = [
        f"name: {json.dumps(name)}",
        'backend: "onnxruntime"',
        f"max_batch_size: {MOST}",
        _values("input", inputs),
        _values("output", told["outputs"]),
        "dynamic_batching { }",
    ]
    return "\n".join(parts) + "\n"


def _values(role: str, values: dict[str, Any]) -> str:
    entries = []
    for name, value in values.items():
        sizes = [size if isinstance(size, int) else -1 for size in value["shape"][1:]]
        shape = f"dims: {sizes}" if sizes else "dims: [ 1 ] reshape: { shape: [ ] }"
        entries.append(f'  {{ name: "{name}" data_type: {_TYPES[value["type"]]} {shape} }}')
    return f"{role} [\n" + ",\n".join(entries) + "\n]"
