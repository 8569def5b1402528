"""Ray's data sets: one machine's answer, whatever the blocks; images by one network an actor."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.engines import NAMES, M, as_table, die_once, pieces, some_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from typica import CTM, Head, InputError, ViM, scale
from typica.data import Preprocessing
from typica.nets import Perceptron, open_model
from typica.scale import ray as on_ray
from typica.store import to_bytes

FEW = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def assert_alike(many, one, Z):
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(many.score_samples(Z), one.score_samples(Z), **close)
    assert many.threshold_ == pytest.approx(one.threshold_, rel=1e-5, abs=1e-5)


@FEW
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    texts=st.booleans(),
    lists=st.booleans(),
)
def test_data_sets(ray, *, seed, cuts, dtype, texts, lists):
    Z, codes = some_rows(seed, 60, dtype)
    y = NAMES[codes] if texts else codes
    one = scale.fit(CTM(), as_table(Z, y), features="features")
    rows = ray.data.from_arrow(pieces(Z, y, cuts))
    named = {"features": "features"} if lists else {"columns": ["f?"]}
    many = on_ray.fit(CTM(), rows, "label", **named)
    assert_alike(many, one, Z)
    scale.calibrate(one, as_table(Z, y), features="features", alpha=0.2)
    on_ray.calibrate(many, rows, **named, alpha=0.2)
    assert many.calibration_.n == 60
    assert many.threshold_ == pytest.approx(one.threshold_, rel=1e-5)
    judged = sorted(on_ray.score(one, rows, **named, ids="id").take_all(), key=lambda r: r["id"])
    expected = one.judge(Z)
    assert [row["id"] for row in judged] == list(range(60))
    assert [row["verdict"] for row in judged] == expected.verdict.tolist()
    np.testing.assert_allclose([row["score"] for row in judged], expected.score, rtol=1e-5)


def test_two_passes_and_many_blocks(ray):
    Z, codes = some_rows(0, 900)
    rows = ray.data.from_arrow(pieces(Z, codes, range(15, 900, 15)))
    detector = ViM(Head(np.eye(4, M)), dim=2)
    one = scale.fit(detector, as_table(Z, codes), features="features")
    assert_alike(on_ray.fit(detector, rows, features="features"), one, Z)
    many = on_ray.fit(CTM(), rows, features="features")  # finds the column `label`
    assert_alike(many, CTM().fit(Z, codes), Z)
    assert many.moments_.n == 900


def test_tensors_of_ray(ray):
    Z, _ = some_rows(0, 200)
    rows = ray.data.from_numpy(Z).rename_columns({"data": "features"})
    assert_alike(on_ray.fit(CTM(), rows), CTM().fit(Z), Z)


def test_the_class_for_map_batches(ray, tmp_path):
    Z, codes = some_rows(0, 300)
    detector = CTM().fit(Z, codes).calibrate(2 * Z[::2])
    detector.save(tmp_path / "ctm.safetensors")
    rows = ray.data.from_arrow(pieces(Z, codes, [100, 200]))
    for sent in (to_bytes(detector), str(tmp_path / "ctm.safetensors")):
        options = {"detector": sent, "features": "features", "ids": "id", "only": "atypical"}
        judged = rows.map_batches(
            on_ray.Scorer,
            fn_constructor_kwargs=options,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=1),
        )
        found = sorted(row["id"] for row in judged.take_all())
        assert found == np.flatnonzero(~detector.judge(Z).typical).tolist()


@pytest.mark.parametrize("what", ["fit", "score"])
def test_a_worker_that_is_killed_changes_nothing(ray, tmp_path, what):
    Z, codes = some_rows(1, 400)
    flag = str(tmp_path / "killed")

    def dying(table):
        if 210 in table["id"].to_pylist():
            die_once(flag)
        return table

    tables = pieces(Z, codes, range(50, 400, 50))
    rows = ray.data.from_arrow(tables).map_batches(dying, batch_size=None, batch_format="pyarrow")
    one = CTM().fit(Z, codes)
    if what == "fit":
        many = on_ray.fit(CTM(), rows, "label", features="features")
        assert many.moments_.n == 400
        assert_alike(many, one, Z)
    else:
        judged = on_ray.score(one, rows, features="features", ids="id").take_all()
        assert sorted(row["id"] for row in judged) == list(range(400))
    assert (tmp_path / "killed").exists()


def test_a_bad_row_is_told_once(ray):
    Z, codes = some_rows(1, 400)
    Z[333, 1] = np.nan
    rows = ray.data.from_arrow(pieces(Z, codes, [200]))
    message = r"^fit: a block of 200 rows: row 133 of the features holds NaN or infinity"
    with pytest.raises(InputError, match=message) as error:
        on_ray.fit(CTM(), rows, "label", features="features")
    assert "\n" not in str(error.value)


def test_rows_without_an_embedding_are_skipped(ray):
    Z, codes = some_rows(1, 400)
    Z[[3, 333], 1] = np.nan
    good = np.delete(np.arange(400), [3, 333])
    rows = ray.data.from_arrow(pieces(Z, codes, [200]))
    named = {"features": "features", "on_error": "skip"}
    many = on_ray.fit(CTM(), rows, "label", **named)
    one = CTM().fit(Z[good], codes[good])
    np.testing.assert_allclose(many.score_samples(Z[good]), one.score_samples(Z[good]), rtol=1e-5)
    assert on_ray.calibrate(many, rows, alpha=0.1, **named).calibration_.n == 398
    judged = on_ray.score(many, rows, ids="id", **named).take_all()
    assert sorted(row["id"] for row in judged if row["verdict"] is None) == [3, 333]


def test_what_does_not_fit_is_told_before_any_work(ray):
    Z, codes = some_rows(1, 60)
    rows = ray.data.from_arrow(as_table(Z, codes))
    fitted = CTM().fit(Z, codes)
    narrow = ["f0", "f1"]
    cases = [
        (lambda: on_ray.fit(CTM(), rows, features="vector"), "there is no column 'vector'"),
        (lambda: on_ray.fit(CTM(), rows, "species", features="features"), "no column 'species'"),
        (lambda: on_ray.fit(CTM(), rows, features="f0"), "the column 'f0' is of float; features"),
        (lambda: on_ray.calibrate(fitted, rows, columns=narrow), "2 features per row instead of 5"),
        (lambda: on_ray.score(fitted, rows, "folder"), "output is for files; write what this"),
    ]
    for ask, message in cases:
        with pytest.raises(InputError, match=message):
            ask()


@pytest.fixture
def network(tmp_path):
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(48, 6)), rng.normal(size=(6, 3))]
    Perceptron(weights, [np.zeros(6), np.zeros(3)]).save(tmp_path / "net.safetensors")
    return str(tmp_path / "net.safetensors")


def test_images_by_one_network_an_actor(ray, tmp_path, network):
    folder = tmp_path / "images"
    folder.mkdir()
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(12, 4, 4, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{number:02d}.png")
    transform = Preprocessing(4, 4)
    expected = open_model(network).extractor(transform(pixels))
    made = {
        "image": ray.data.read_images(folder, include_paths=True),
        "bytes": ray.data.read_binary_files(folder, include_paths=True),
    }
    for column, images in made.items():
        rows = images.map_batches(
            on_ray.Extractor,
            fn_constructor_kwargs={
                "model": network,
                "transform": transform.to_dict(),
                "image": column,
            },
            batch_size=5,
            compute=ray.data.ActorPoolStrategy(size=2),
            num_cpus=0.5,  # what reads the images needs some, too
        )
        found = sorted(rows.take_all(), key=lambda row: row["path"])
        assert column not in found[0]
        features = np.stack([row["features"] for row in found])
        np.testing.assert_allclose(features, expected.features, rtol=1e-5, atol=1e-5)
        logits = np.stack([row["logits"] for row in found])
        np.testing.assert_allclose(logits, expected.logits, rtol=1e-5, atol=1e-5)
    fitted = on_ray.fit(CTM(), rows, features="features")
    assert_alike(fitted, CTM().fit(expected.features), expected.features)


def test_a_network_whose_preprocessing_nobody_knows(network):
    with pytest.raises(InputError, match=r"the preprocessing of .* is not known, and each actor"):
        on_ray.Extractor(network)
    extractor = on_ray.Extractor(network, transform={"resize": 4, "crop": 4})
    with pytest.raises(InputError, match="there is no column 'image', only photo"):
        extractor({"photo": np.zeros((1, 4, 4, 3), np.uint8)})
