"""Images to features on Ray, by one network per actor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from typica.arrays import AnyArray
from typica.data import Preprocessing, decode, open_images
from typica.errors import InputError, argument, border
from typica.nets import open_model, run_directly, transform_for
from typica.scale._columns import missing_column


class Extractor:
    """Runs images through a network: a callable class for `Dataset.map_batches`.

        images = ray.data.read_images("photos/", include_paths=True)
        rows = images.map_batches(
            Extractor,
            fn_constructor_kwargs={"model": "resnet-50", "weights": "resnet50.pth"},
            batch_size=64,
            compute=ray.data.ActorPoolStrategy(size=4),
        )

    Each actor opens the network once. Leave Ray some CPUs for reading images: if the actors take
    all of them, they wait forever.

    Parameters
    ----------
    model, weights, options
        As `typica.nets.open_model` takes them; files must be where the workers see them.
    transform
        As `typica.nets.extract` takes it.
    image
        The column of images: arrays (h, w, 3) or (h, w), the bytes of image files
        (`ray.data.read_binary_files`), or paths. It becomes the columns `features` and `logits`;
        all others stay.
    """

    @border
    def __init__(
        self,
        model: Any,
        weights: Any = None,
        transform: Preprocessing | Mapping[str, Any] | None = None,
        *,
        image: str = "image",
        **options: Any,
    ) -> None:
        self.opened = open_model(model, weights, **options)
        if self.opened.transform is None and transform is None:
            known = self.opened.identity.model
            raise InputError(
                f"the preprocessing of {known} is not known, and each actor would infer it from "
                f"other images; pass {argument('transform')}."
            )
        self.image = image
        self._asked = transform
        self._transform: Preprocessing | None = None

    @border
    def __call__(self, batch: dict[str, AnyArray]) -> dict[str, AnyArray]:
        """Return a batch with features and logits in place of its images."""
        if self.image not in batch:
            raise missing_column(self.image, batch)
        names = batch.get("path", batch[self.image])
        images = [_image(*pair) for pair in zip(batch[self.image], names, strict=True)]
        found = run_directly(self.opened.extractor, self._prepared(images))
        others = {name: values for name, values in batch.items() if name != self.image}
        made = {**others, "features": found.features}
        return made if found.logits is None else {**made, "logits": found.logits}

    def _prepared(self, images: Sequence[Image.Image]) -> AnyArray:
        if self._transform is None:
            self._transform = transform_for(self.opened, open_images(list(images)), self._asked)
        return self._transform(images)


def _image(value: Any, name: Any) -> Image.Image:
    """Return the image in a row of a Ray data set: an array, a file's bytes or a path.

    name: a text, for errors.
    """
    if isinstance(value, bytes | str):
        return decode(value, name=name if isinstance(name, str) else None)
    pixels = np.asarray(value)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    return Image.fromarray(pixels).convert("RGB")
