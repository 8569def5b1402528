"""Images to features as an actor of Ray does it, and features to verdicts; no Ray is needed."""

from __future__ import annotations

import io
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from typica import CTM, InputError
from typica.data import ImageError, Preprocessing
from typica.nets import Perceptron, open_model
from typica.scale import _ray_dataset
from typica.scale._columns import Columns
from typica.scale.ray import Extractor, Scorer
from typica.store import to_bytes


@pytest.fixture
def network(tmp_path):
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(48, 6)), rng.normal(size=(6, 3))]
    Perceptron(weights, [np.zeros(6), np.zeros(3)]).save(tmp_path / "net.safetensors")
    return str(tmp_path / "net.safetensors")


PIXELS = np.random.default_rng(0).integers(256, size=(7, 4, 4, 3), dtype=np.uint8)


def as_png(pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def test_arrays_bytes_and_paths_give_what_the_network_gives(network, tmp_path):
    extractor = Extractor(network, transform=Preprocessing(4, 4))
    expected = open_model(network).extractor(Preprocessing(4, 4)(PIXELS))
    files = [as_png(image) for image in PIXELS]
    paths = []
    for number, content in enumerate(files):
        paths.append(str(tmp_path / f"{number}.png"))
        (tmp_path / f"{number}.png").write_bytes(content)
    of_sizes = np.empty(7, dtype=object)
    of_sizes[:] = [
        np.repeat(np.repeat(image, k + 1, 0), k + 1, 1) for k, image in enumerate(PIXELS)
    ]
    columns = [PIXELS, np.array(files, dtype=object), np.array(paths, dtype=object)]
    for column in columns:
        found = extractor({"image": column, "id": np.arange(7)})
        assert list(found) == ["id", "features", "logits"]
        np.testing.assert_allclose(found["features"], expected.features, rtol=1e-6)
        np.testing.assert_allclose(found["logits"], expected.logits, rtol=1e-6)
    assert extractor({"image": of_sizes})["features"].shape == (7, 6)
    grey = extractor({"image": PIXELS[..., 0]})["features"]
    np.testing.assert_allclose(grey, extractor({"image": PIXELS[..., :1]})["features"])


def test_a_task_of_ray_that_is_tried_again_has_the_same_rows(monkeypatch):
    context = SimpleNamespace(get_task_id=lambda: "a task")
    ray = SimpleNamespace(get_runtime_context=lambda: context)
    monkeypatch.setitem(sys.modules, "ray", ray)
    sent = pickle.dumps(_ray_dataset._BlockStates(Keys(), Columns("x")))
    table = pa.table({"x": [[1.0, 2.0]] * 3})

    def task() -> list[bytes]:
        run = pickle.loads(sent)  # as each task gets one
        return [run(table).value() for _ in range(4)]

    first, again = task(), task()
    assert first == again and len(set(first)) == 4


class Keys:
    """A job whose state is the keys of the rows."""

    def state(self, batches) -> bytes:
        return b"".join(batch.keys().tobytes() for batch in batches)


def test_what_is_wrong_is_told(network):
    with pytest.raises(InputError, match=r"the preprocessing of .* is not known, and each actor"):
        Extractor(network)
    extractor = Extractor(network, transform={"resize": 4, "crop": 4, "mode": "RGB"}, image="bytes")
    with pytest.raises(InputError, match="Extractor: there is no column 'bytes', only photo"):
        extractor({"photo": PIXELS})
    batch = {"bytes": np.array([b"no image"], dtype=object), "path": np.array(["a/b.png"])}
    with pytest.raises(ImageError, match=r"b\.png"):
        extractor(batch)


def test_the_scorer_judges_tables(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    Z = rng.random((90, 4)) + 3 * np.eye(3, 4)[y]
    detector = CTM().fit(Z, y).calibrate(2 * Z[::2])
    detector.save(tmp_path / "ctm.safetensors")
    table = pa.table({"id": [f"row {i}" for i in range(90)], "z": Z.tolist()})
    expected = detector.judge(Z)
    for sent in (to_bytes(detector), tmp_path / "ctm.safetensors"):
        found = Scorer(sent, features="z", ids="id")(table)
        assert found.column_names[:3] == ["id", "verdict", "score"]
        assert found["verdict"].to_pylist() == expected.verdict.tolist()
    bare = Scorer(to_bytes(detector), features="z", only="atypical")(table)
    assert bare.column_names[0] == "verdict" and len(bare) == expected.n_atypical
    with pytest.raises(InputError, match="Scorer: there is no column 'y', only id, z"):
        Scorer(to_bytes(detector), features="y")(table)
