"""Every rectifier before every detector, exported, in ONNX Runtime: the whole product."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.data import make_data
from helpers.export import FAR, assert_alike, calibrated_pair, rows_of

import typica
from typica.export import to_onnx
from typica.rectify import list_rectifiers

PAIRS = list(itertools.product(list_rectifiers(), typica.list_detectors()))


# Behind some rectifiers the probabilities of these rows are all 1.
@pytest.mark.filterwarnings("ignore:.* calibration scores equal:typica.CalibrationWarning")
@pytest.mark.parametrize(("rectifier", "name"), PAIRS)
def test_rectifiers_are_part_of_the_file(rectifier, name):
    data = make_data()
    pipeline = calibrated_pair(rectifier, name, data)
    tied = (rectifier, name) == ("normalise", "lof")
    assert_alike(pipeline, to_onnx(pipeline), rows_of(data), FAR.get(name, np.inf), zero=not tied)
