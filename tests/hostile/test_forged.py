"""Files with a right checksum and wrong content, of every detector: refused, or of use."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from helpers.doors import use_detector
from helpers.guided import Swapped, write_good

from typica.errors import InputError

CASES = 25


@pytest.fixture(scope="module")
def forger(tmp_path_factory: pytest.TempPathFactory) -> Swapped:
    folder = tmp_path_factory.mktemp("good")
    return Swapped(write_good("detectors", folder))


@pytest.mark.filterwarnings("ignore")
def test_a_forged_file_is_refused_or_of_use(name: str, forger: Swapped, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.safetensors"
    if path.name not in forger.files:
        pytest.skip(f"{name} cannot be saved")
    for case in range(CASES):
        forger.mutate(path, np.random.default_rng([case, len(name)]))
        try:
            with suppress(InputError):
                use_detector(path)
        except Exception:
            kept = shutil.copy(path, tmp_path / "found.safetensors")
            print(f"case {case}: {kept}")
            raise
