"""The model that MLServer runs: a detector's file, which is watched, and judges in batches."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from mlserver import MLModel
from mlserver.errors import MLServerError
from mlserver.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    ResponseOutput,
)

from typica.arrays import AnyArray
from typica.bank import Bank
from typica.errors import InputError
from typica.machine import cores
from typica.serve import _metrics
from typica.serve._batcher import Batcher, BusyError, Job
from typica.serve._gallery import Gallery
from typica.serve._live import Live
from typica.serve._logs import log
from typica.serve._reload import Watch, reread
from typica.serve._served import Served, read_served
from typica.serve._settings import read_settings
from typica.serve._tensors import from_values
from typica.serve._threads import Crew
from typica.serve._verdict_tensors import (
    DATATYPES,
    answer,
    check_outputs,
    joined_batches,
    known_outputs,
)
from typica.verdicts import Verdicts

IMAGES = "images"
NAMES = ("features", "logits", IMAGES)


class Judged(NamedTuple):
    """What a runtime has judged for one request: verdicts, by which detector, the rows it read."""

    served: Served
    verdicts: Verdicts
    rows: AnyArray


class TryAgainError(MLServerError):
    """What MLServer is told if the queue is full; seconds: after which to try again."""

    def __init__(self, busy: BusyError) -> None:
        super().__init__(str(busy), 503)
        self.seconds = busy.seconds


class Runtime(MLModel):
    """Judges features, or images if the detector knows the network that it was fitted for.

    Its `parameters.uri` is a file that `typica fit` wrote. `parameters.extra` may hold limits
    (`queue`, `batch`, `pixels`, `images`); `model`, `weights` and `trust` for the network; `bank`
    for examples and `bank_images` for their images, if they have moved; and `watch`, the seconds
    between two looks at the file, 0 for none. A path that begins with ./ is relative to the
    settings file.
    """

    served: Served
    live: Live
    gallery: Gallery | None
    _loaded = False

    async def load(self) -> bool:
        """Read the detector, and begin to watch its file."""
        settings = read_settings(self.settings)
        self._network, self.limits = settings.network, settings.limits
        self.gallery = None
        if settings.bank is not None:
            self.gallery = Gallery(Bank.open(settings.bank), settings.bank_images)
        self._watch = Watch(settings.path, self._reload, settings.watch)
        self.served = await asyncio.to_thread(
            read_served, self.name, settings.path, settings.network
        )
        self._tell()
        self.live = Live(self.served)
        self._crew = Crew(self.name, threads=cores(), parts=self.limits.images)
        self._batcher = Batcher(self.name, self._work, queue=self.limits.queue)
        self._decoders = ThreadPoolExecutor(min(4, cores()), f"typica-{self.name}-decode")
        self._watch.start()
        self._loaded = True
        return True

    async def unload(self) -> bool:
        """Judge what is waiting, and end."""
        if not self._loaded:
            return True  # for example, its file could not be read
        await asyncio.to_thread(self._watch.stop)
        await asyncio.to_thread(self._batcher.close)
        self._crew.close()
        self._decoders.shutdown()
        self.live.end()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer a request of the Open Inference Protocol."""
        try:
            wanted = None if not payload.outputs else [output.name for output in payload.outputs]
            check_outputs(wanted)
            judged = await self._judged(payload)
            columns = answer(judged.verdicts, wanted)
        except InputError as error:
            raise MLServerError(str(error), 400) from None
        except BusyError as error:
            raise TryAgainError(error) from None
        outputs = []
        for column in columns:
            count = len(column.values)
            made = ResponseOutput(
                name=column.name, shape=[count], datatype=column.datatype, data=column.values
            )
            outputs.append(made)
        return InferenceResponse(model_name=self.name, outputs=outputs)

    async def _judged(self, payload: InferenceRequest) -> Judged:
        if len(payload.inputs) != 1:
            raise InputError(f"{len(payload.inputs)} inputs; pass one, features or images.")
        given = payload.inputs[0]
        if given.name not in NAMES:
            raise InputError(f"input {given.name[:80]!r} is unknown; pass {' or '.join(NAMES)}.")
        datatype = getattr(given.datatype, "value", given.datatype)
        data = getattr(given.data, "root", given.data)
        values = from_values(data, given.name, datatype, given.shape)
        if given.name == IMAGES:
            return await self.judge_images(split_images(values))
        return await self.judge(values)

    @property
    def bank(self) -> Bank | None:
        """Known inputs, None if there are none."""
        return None if self.gallery is None else self.gallery.bank

    async def judge(self, values: AnyArray, counted: bool = True) -> Judged:
        """Return the verdicts on rows of features; counted: as for `judge_pixels`."""
        served = self.served
        rows = served.rows(values)
        with self.room(len(rows), counted):
            key = (served, rows.dtype.str, counted)
            job = Job(key, (served, rows), len(rows), self.limits.batch, counted)
            judged: Judged = await asyncio.wrap_future(self._batcher.submit(job))
        return judged

    async def judge_images(self, images: Sequence[bytes | AnyArray]) -> Judged:
        """Return the verdicts on images: their files' bytes, or arrays (h, w, 3)."""
        served = self.served
        served.check_images()
        with self.room(len(images)):
            names = [f"image {place}" for place in range(len(images))]
            pixels = await self.prepare(served, images, names)
            for found in pixels:
                if isinstance(found, InputError):
                    raise found
            return await self.judge_pixels(served, pixels)

    @contextlib.contextmanager
    def room(self, size: int, counted: bool = True) -> Iterator[None]:
        """Hold places in the queue, and measure the time until the inputs are judged."""
        began = time.monotonic()
        waiting = _metrics.WAITING.labels(self.name)
        try:
            with self._batcher.room(size), _counted(waiting, size):
                yield
        except BusyError:
            _metrics.REFUSED.labels(self.name).inc()
            raise
        if counted:
            _metrics.SECONDS_TAKEN.labels(self.name).observe(time.monotonic() - began)

    async def prepare(
        self, served: Served, images: Sequence[bytes | AnyArray], names: Sequence[str]
    ) -> list[Any]:
        """Return images as the network takes them, or an error for each that cannot be read."""
        loop = asyncio.get_running_loop()
        most = self.limits.pixels
        waiting = []
        for image, name in zip(images, names, strict=True):
            made = loop.run_in_executor(self._decoders, served.pixels, image, name, most)
            waiting.append(made)
        found = await asyncio.gather(*waiting, return_exceptions=True)
        for result in found:
            if isinstance(result, BaseException) and not isinstance(result, InputError):
                raise result
        return list(found)

    async def judge_pixels(
        self, served: Served, pixels: Sequence[AnyArray], counted: bool = True
    ) -> Judged:
        """Return the verdicts on images that `prepare` has made ready.

        counted: whether the live stream, its monitor and the metrics count them.
        """
        most = self.limits.images
        waiting, order = [], []
        for shape, places in served_by_shape(pixels).items():
            for start in range(0, len(places), most):
                some = places[start : start + most]
                inputs = (served, [pixels[place] for place in some])
                job = Job((served, shape, counted), inputs, len(some), most, counted)
                waiting.append(asyncio.wrap_future(self._batcher.submit(job)))
                order += some
        parts: list[Judged] = await asyncio.gather(*waiting)
        if len(parts) == 1:
            return parts[0]
        back = np.argsort(order)
        rows = np.concatenate([part.rows for part in parts])
        return Judged(served, joined_batches([part.verdicts for part in parts])[back], rows[back])

    def _work(self, jobs: list[Job]) -> list[Judged]:
        """Judge what goes together, in the batcher's thread."""
        served: Served = jobs[0].inputs[0]
        inputs = [job.inputs[1] for job in jobs]
        if isinstance(inputs[0], list):
            images = list(chain.from_iterable(inputs))
            rows = self._crew.run(served.check_images(), images, served.look)
        else:
            rows = np.concatenate(inputs)
        verdicts = served.judge(rows)
        if jobs[0].counted:
            self.live.take_in(served, verdicts)
        judged, start = [], 0
        for job in jobs:
            part = slice(start, start + job.size)
            judged.append(Judged(served, verdicts[part], rows[part]))
            start += job.size
        return judged

    def _reload(self) -> None:
        """Go on with the detector that has taken the other's place, if one has."""
        served = reread(self.name, self.served, self._network)
        if served is None:
            return
        self.live.replace(served)
        self.served = served
        self._tell()
        _metrics.RELOADS.labels(self.name, "done").inc()
        log("reloaded", model=self.name, digest=served.digest[:12])

    def _tell(self) -> None:
        """Tell MLServer what goes in and comes out."""
        served = self.served
        self.inputs = [
            MetadataTensor(name=served.reads, datatype="FP32", shape=[-1, served.width or -1])
        ]
        if served.network is not None:
            self.inputs = [
                *self.inputs,
                MetadataTensor(name=IMAGES, datatype="BYTES", shape=[-1]),
            ]
        else:
            log("takes features only", model=self.name, reason=served.no_images)
        self.outputs = [
            MetadataTensor(name=name, datatype=DATATYPES[name], shape=[-1])
            for name in known_outputs(served)
        ]


@contextlib.contextmanager
def _counted(gauge: Any, size: int) -> Iterator[None]:
    gauge.inc(size)
    try:
        yield
    finally:
        gauge.dec(size)


def served_by_shape(pixels: Sequence[AnyArray]) -> dict[tuple[int, ...], list[int]]:
    """Return the places of a request's images by shape: the server puts one shape in one batch."""
    places: dict[tuple[int, ...], list[int]] = {}
    for place, image in enumerate(pixels):
        places.setdefault(image.shape, []).append(place)
    return places


def split_images(values: AnyArray) -> list[bytes | AnyArray]:
    """Return images one by one: files of texts or bytes, or arrays (n, h, w, 3)."""
    if values.dtype == object:
        return [_file(value) for value in values.ravel()]
    if values.ndim != 4 or values.dtype != np.uint8:
        raise InputError(
            f"images of {values.dtype} and shape {list(values.shape)}; "
            "pass BYTES, one file each, or UINT8 of images x height x width x 3."
        )
    return list(values)


def _file(value: Any) -> bytes:
    """Return a file's bytes, decoded from base64 if they come in JSON."""
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise InputError(
            "an image that is not base64; encode it in JSON, or send bytes as a binary tensor."
        ) from None
