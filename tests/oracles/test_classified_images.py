"""Real photographs from another library through a network with real weights."""

from __future__ import annotations

import numpy as np
import pytest
from skimage import data

from typica.data import open_images
from typica.nets import Settings, extract, open_model

CATS = {281: "tabby", 282: "tiger cat", 283: "Persian cat", 284: "Siamese cat", 285: "Egyptian cat"}
CUPS = {504: "coffee mug", 967: "espresso", 968: "cup"}


@pytest.mark.parametrize(("photo", "expected"), [("chelsea", CATS), ("coffee", CUPS)])
def test_efficientnet_knows_a_cat_and_a_cup_of_coffee(
    photo: str, expected: dict[int, str], tmp_path
) -> None:
    images = open_images(np.asarray(getattr(data, photo)())[None])
    bank = extract(
        images,
        open_model("efficientnet-lite0"),
        tmp_path / "bank",
        settings=Settings(backend="torch"),
    )
    assert int(np.argmax(bank.logits[0])) in expected
    assert bank.features.shape == (1, 1280)
