"""Run an extractor over many images by whatever is quickest here and gives the same numbers.

`typica.nets._trials` finds out which that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.checks import count
from typica.errors import InputError, border, given
from typica.nets._extracted_batch import run_directly
from typica.nets._runner import Runner
from typica.nets._settings import BACKENDS
from typica.nets._trials import Trials, is_elsewhere
from typica.nets.extractors.dense import Perceptron
from typica.nets.extractors.onnx import OnnxExtractor
from typica.nets.runtimes.plain import NUMPY, NumpyEngine

_TAKE_ONNX = ("onnx", "openvino", "mnn")  # ONNX files too; on the CPU in single precision


@border
def make_runner(
    extractor: Any,
    backend: str = "auto",
    *,
    sample: NDArray[np.float32],
    batch: int | None = None,
    threads: int | None = None,
    device: Any = None,
    autocast: bool = False,
    images: int | None = None,
) -> Runner:
    """Return a Runner over a FeatureExtractor, GraphExtractor, OnnxExtractor or Perceptron.

    Every backend must agree with the reference, which is PyTorch itself, or ONNX Runtime for an
    ONNX file: its features and logits may differ by at most 1e-3 of the largest. A Perceptron is
    run by NumPy alone.

    Parameters
    ----------
    extractor
        What gives the features.
    backend
        "torch" (as it is), "compile" (torch.compile), "onnx" (ONNX Runtime, extra `onnx`),
        "openvino" (OpenVINO, extra `openvino`), "mnn" (MNN, extra `mnn`), or "auto", which tries
        all but "compile" on the sample and takes the quickest.
    sample
        Some of the images (n, ...), 16 or more, as the network takes them.
    batch, threads
        Images at once, and threads; None measures which are quickest.
    device
        The PyTorch device that the network is moved to; None leaves it where it is.
    autocast
        Whether PyTorch may compute in half precision, which is not compared with the reference.
    images
        How many there are to run, if known: for few, not everything is tried.

    >>> from typica.nets import FeatureExtractor
    >>> from torch import nn
    >>> extractor = FeatureExtractor(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    >>> images = np.ones((20, 4), dtype=np.float32)
    >>> runner = make_runner(extractor, "torch", sample=images, batch=8, threads=1)
    >>> [found.features.shape for found in runner([images, images[:3]])]
    [(20, 3), (3, 3)]
    >>> runner
    Runner('torch', batch=8, threads=1)
    """
    sample = _checked(sample)
    _check_counts(batch=batch, threads=threads)
    if isinstance(extractor, Perceptron):
        return _by_numpy(NumpyEngine(extractor, batch, threads), backend, sample, device)
    extractor, home = moved(extractor, device)
    known = _TAKE_ONNX if home is None else BACKENDS[1:]
    _check_backend(backend, known, elsewhere=is_elsewhere(home, autocast))
    trials = Trials(extractor, sample, home, autocast, one_by_one=batch == 1)
    if backend != "auto":
        return trials.named(backend, batch, threads)
    return trials.quickest([name for name in known if name != "compile"], batch, threads, images)


def _check_counts(**counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and not count().accepts(value):
            raise InputError(f"{name}={value!r}; pass 1 or more, or None to measure.")


def _check_backend(backend: str, known: Sequence[str], *, elsewhere: bool) -> None:
    """Raise for a backend that cannot run the model, or not on this device or in this precision."""
    if backend not in ("auto", *known):
        raise InputError(
            f"backend {backend!r} cannot run this model; choose auto, {', '.join(known)}."
        )
    if elsewhere and backend in _TAKE_ONNX:
        raise InputError(
            f"backend {backend!r} runs on the CPU in single precision; "
            "leave device and autocast out."
        )


def _by_numpy(engine: NumpyEngine, backend: str, sample: AnyArray, device: Any) -> Runner:
    """Return the one way to run a Perceptron."""
    if backend not in ("auto", NUMPY):
        raise InputError(f"backend {backend!r} cannot run this model; choose auto.")
    if device is not None and str(device) != "cpu":
        raise InputError(
            f"{given('device', str(device))}, but NumPy runs on the CPU; leave it out."
        )
    more = {"device": "cpu", "autocast": False}
    example = run_directly(engine.extractor, sample[:1])
    return Runner(NUMPY, engine, example, sample.shape[1:], more)


def _checked(sample: Any) -> AnyArray:
    if not isinstance(sample, np.ndarray) or sample.ndim < 2 or not len(sample):
        found = sample.shape if isinstance(sample, np.ndarray) else type(sample).__name__
        raise InputError(f"a sample of {found}; pass some images as an array (n, ...).")
    if sample.dtype.kind == "f":
        return sample.astype(np.float32, copy=False)
    return sample


def moved(extractor: Any, device: Any) -> tuple[Any, Any]:
    """Return the extractor on the device, and the device; None as the device of an ONNX model."""
    if isinstance(extractor, OnnxExtractor):
        if device is not None and str(device) != "cpu":
            raise InputError(
                f"{given('device', str(device))}, but ONNX models run on the CPU here; "
                "leave it out."
            )
        return extractor, None
    # Need torch, which is an extra.
    from typica.nets._torch import check_device, torch  # noqa: PLC0415
    from typica.nets.extractors.program import GraphExtractor  # noqa: PLC0415
    from typica.nets.extractors.torch import FeatureExtractor  # noqa: PLC0415

    if device is not None:
        check_device(device)
    if isinstance(extractor, GraphExtractor):
        extractor = extractor if device is None else extractor.to(device)
        return extractor, extractor.device
    if not isinstance(extractor, FeatureExtractor):
        raise InputError(
            f"got {type(extractor).__name__}; "
            "pass a FeatureExtractor, GraphExtractor, OnnxExtractor or Perceptron."
        )
    if device is not None:
        extractor.model.to(device)
    weight = next(iter(extractor.model.parameters()), None)
    return extractor, torch.device("cpu") if weight is None else weight.device
