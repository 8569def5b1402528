"""Images out of every kind of source, good and bad."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.images import array, encoded, random_pixels
from helpers.real import REAL
from numpy._core.numeric import _frombuffer
from PIL import Image
from scipy.io import savemat

import typica
from typica.data import (
    ImageError,
    Images,
    Preprocessing,
    _fingerprints,
    image_batches,
    in_order,
    open_images,
)
from typica.errors import in_shell

# Folders and lists


def write(root: Path, *names: str) -> dict[str, np.ndarray]:
    """Write small images, each of its own, and return their pixels by name."""
    pixels = {name: random_pixels(4, 5, seed=k) for k, name in enumerate(names)}
    for name, image in pixels.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(encoded(image))
    return pixels


def check(images: Images, pixels: dict[str, np.ndarray], prefix: str = "") -> None:
    assert sorted(images.names) == sorted(prefix + name for name in pixels)
    assert len(images) == len(pixels)
    for i, name in enumerate(images.names):
        assert np.array_equal(array(images.read(i)), pixels[name.removeprefix(prefix)]), name


CLASSES = (
    "dog/2.png",
    "dog/10.PNG",
    "cat/z.png",
    "cat/deep/a.png",
    "cat/deep-er/a.png",
    "cat-b/1.png",
)


def test_class_folders(tmp_path):
    pixels = write(tmp_path, *CLASSES)
    (tmp_path / "dog" / "notes.txt").write_text("woof")
    (tmp_path / "dog" / ".hidden.png").write_bytes(b"")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.png").touch()
    (tmp_path / "empty").mkdir()
    images = open_images(tmp_path)
    check(images, pixels)
    # The order of ImageFolder: by class, then by folder, then by name.
    expected = [
        "cat/z.png",
        "cat/deep/a.png",
        "cat/deep-er/a.png",
        "cat-b/1.png",
        "dog/10.PNG",
        "dog/2.png",
    ]
    assert list(images.names) == expected
    assert images.classes == ["cat", "cat-b", "dog", "empty"]
    assert images.labels is not None and images.labels.dtype == np.int64
    assert images.labels.tolist() == [0, 0, 0, 1, 2, 2]
    assert images.ignored == [".git/", "dog/.hidden.png", "dog/notes.txt"]
    assert "6 images, 4 classes, 3 ignored" in repr(images)


def test_flat_folder_has_no_labels(tmp_path):
    pixels = write(tmp_path, "b.png", "a.png", "more/c.png")
    images = open_images(str(tmp_path))
    check(images, pixels)
    assert list(images.names) == ["a.png", "b.png", "more/c.png"]
    assert images.labels is None and images.classes is None and images.ignored == []


def test_splits(tmp_path):
    pixels = write(
        tmp_path,
        "train/a/1.png",
        "train/b/2.png",
        "validation/b/3.png",
        "test/b/4.png",
        "test/c/5.png",
    )
    images = open_images(tmp_path)
    check(images, pixels)
    assert images.classes == ["a", "b", "c"]
    assert dict(zip(images.names, images.labels, strict=True)) == {
        "test/b/4.png": 1,
        "test/c/5.png": 2,
        "train/a/1.png": 0,
        "train/b/2.png": 1,
        "validation/b/3.png": 1,
    }
    test = open_images(tmp_path, split="test")
    assert list(test.names) == ["test/b/4.png", "test/c/5.png"]
    assert test.classes == ["b", "c"] and test.labels.tolist() == [0, 1]
    assert list(open_images(tmp_path, split="val").names) == ["validation/b/3.png"]
    write(tmp_path / "flat", "train/1.png")
    assert open_images(tmp_path / "flat", split="train").labels is None
    absent = "flat: no folder 'test' with images in it, but train; leave out "
    with pytest.raises(typica.InputError, match=rf"{absent}split\.$"):
        open_images(tmp_path / "flat", split="test")
    with in_shell(), pytest.raises(typica.InputError, match=rf"{absent}--split\.$"):
        open_images(tmp_path / "flat", split="test")
    with pytest.raises(
        typica.InputError, match="split='dev' is unknown; choose one of train, test, val"
    ):
        open_images(tmp_path, split="dev")


def test_links_pipes_and_odd_names(tmp_path):
    root = tmp_path / "set"
    pixels = write(root, "a/1.png", "b/2.png")
    (root / "a" / "loop").symlink_to(root)
    (root / "b" / "self.png").symlink_to(root / "b" / "self.png")
    (root / "b" / "gone.png").symlink_to(root / "nothing.png")
    (root / "b" / "twin.png").symlink_to(root / "b" / "2.png")
    (root / "c").symlink_to(root / "b")  # twice, but no loop
    os.mkfifo(root / "b" / "pipe.png")
    (root / "a" / "to-pipe.png").symlink_to(root / "b" / "pipe.png")
    odd = os.fsdecode(b"caf\xe9.png")
    (root / "b" / odd).write_bytes(encoded(pixels["a/1.png"]))
    images = open_images(root)
    seen = {"b/caf\\udce9.png": pixels["a/1.png"], "b/twin.png": pixels["b/2.png"]}
    seen |= {
        name.replace("b/", "c/"): image
        for name, image in ({**seen, **pixels}).items()
        if name[0] == "b"
    }
    missing = {"b/gone.png", "b/self.png", "c/gone.png", "c/self.png"}
    assert set(images.names) == {*pixels, *seen, *missing}
    for i, name in enumerate(images.names):
        if name in missing:  # links to nothing: images that cannot be read
            with pytest.raises(ImageError, match=rf"^{name}: cannot be read \("):
                images.read(i)
        else:
            assert np.array_equal(array(images.read(i)), {**pixels, **seen}[name]), name
    assert images.classes == ["a", "b", "c"]
    assert images.ignored == ["a/loop/", "a/to-pipe.png", "b/pipe.png", "c/pipe.png"]
    with pytest.raises(ImageError, match=r"b/gone\.png"):
        list(image_batches(images, Preprocessing(4, 4), 4))
    skipped = [
        entry[0]
        for part in image_batches(images, Preprocessing(4, 4), 4, on_error="skip")
        for entry in part.skipped
    ]
    assert set(skipped) == missing
    for name in images.names:
        name.encode()
    assert len(images.fingerprint()) == 64


def test_folders_that_cannot_be_read(tmp_path, monkeypatch):
    write(tmp_path, "a/1.png", "b/2.png")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("b"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert open_images(tmp_path).ignored == ["b/"]
    with pytest.raises(
        typica.InputError, match=r"b: the folder cannot be read \(Permission denied\)"
    ):
        open_images(tmp_path / "b")


def test_paths_that_cannot_be_looked_at(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    for source in (tmp_path / "a.zip", [tmp_path / "a.zip"]):
        with pytest.raises(
            typica.InputError, match=r"a.zip: cannot be read \(Permission denied\); check its perm"
        ):
            open_images(source)


def test_lists_of_files_and_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels = write(
        tmp_path,
        "photo.png",
        "other.png",
        "x/cat/1.png",
        "x/dog/2.png",
        "y/cat/3.png",
        "y/ant/4.png",
    )
    (tmp_path / "x" / "notes.txt").touch()
    write_zip(tmp_path / "z.zip", {"in.png": pixels["photo.png"]})
    images = open_images(["photo.png", "x", Path("other.png"), "z.zip"])
    names = ["photo.png", "x/cat/1.png", "x/dog/2.png", "other.png", "z.zip/in.png"]
    assert list(images.names) == names and images.labels is None
    for i, name in enumerate(names):
        assert np.array_equal(array(images.read(i)), pixels.get(name, pixels["photo.png"]))
    assert images.ignored == ["x/notes.txt"]
    both = open_images(["x/", "y"])
    assert both.classes == ["ant", "cat", "dog"]
    assert dict(zip(both.names, both.labels, strict=True)) == {
        "x/cat/1.png": 1,
        "x/dog/2.png": 2,
        "y/ant/4.png": 0,
        "y/cat/3.png": 1,
    }
    one = open_images("photo.png")
    assert list(one.names) == ["photo.png"] and np.array_equal(
        array(one.read(0)), pixels["photo.png"]
    )
    many = open_images(f"x/cat/{1}.png" for _ in range(3))
    assert len(many) == 3
    for bad, message in (
        ([], "an empty list"),
        (["photo.png", 3], "a list with an int in it"),
        (["photo.png", "absent.png"], "absent.png: there is no such file or folder"),
        ("nowhere", "nowhere: there is no such file or folder; check the path"),
        (3, "got int; pass a path"),
        (b"photo.png", "got bytes"),
        (None, "got NoneType"),
        ("", "an empty path; pass '.'"),
        (["photo.png", ""], "an empty path"),
    ):
        with pytest.raises(typica.InputError, match=message):
            open_images(bad)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(
        typica.InputError, match=r"nothing: holds no images \(0 other files\); known are .avif"
    ):
        open_images("nothing")
    with pytest.raises(typica.InputError, match="a single file has no split 'test'"):
        open_images(["photo.png"], split="test")
    with pytest.raises(ImageError, match=r"z.txt: not an image"):
        (tmp_path / "z.txt").write_text("hello")
        open_images("z.txt").read(0)


def test_labels_given(tmp_path):
    pixels = random_pixels(3, 4, 5)
    images = open_images(pixels, labels=["dog", "ant", "dog"])
    assert images.labels.tolist() == [1, 0, 1] and images.classes == ["ant", "dog"]
    assert open_images(pixels, labels=np.array([4, 5, 6], dtype=np.uint8)).labels.dtype == np.int64
    before = images.fingerprint()
    assert open_images(images, labels=[1, 0, 0]).fingerprint() != before
    assert open_images(images, labels=["dog", "ant", "dog"]).fingerprint() == before
    assert in_order(images, ["dog", "ant"]).fingerprint() != before == images.fingerprint()
    np.save(tmp_path / "y.npy", [7, 8, 9])
    again = open_images(images, labels=tmp_path / "y.npy")
    assert (
        again.labels.tolist() == [7, 8, 9]
        and again.classes is None
        and images.classes == ["ant", "dog"]
    )
    with pytest.raises(
        typica.InputError, match=r"labels of shape \(2,\) for 3 images; one per image"
    ):
        open_images(pixels, labels=[1, 2])
    with pytest.raises(typica.InputError, match="labels of type float64; pass integers or strings"):
        open_images(pixels, labels=[1.0, 2.0, 3.0])


# Archives


def write_zip(path: Path, pixels: dict[str, np.ndarray], **extra: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, image in pixels.items():
            archive.writestr(name, encoded(image))
        for name, data in extra.items():
            archive.writestr(name, data)


def write_tar(path: Path, pixels: dict[str, np.ndarray], mode: str, **extra: bytes) -> None:
    with tarfile.open(path, mode) as archive:
        for name, data in {**{n: encoded(p) for n, p in pixels.items()}, **extra}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


ARCHIVES = {
    "a.zip": None,
    "a.tar": "w",
    "a.tar.gz": "w:gz",
    "a.tgz": "w:gz",
    "a.tar.bz2": "w:bz2",
    "a.tar.xz": "w:xz",
}


def write_archive(path: Path, pixels: dict[str, np.ndarray], **extra: bytes) -> None:
    mode = ARCHIVES[path.name]
    write_zip(path, pixels, **extra) if mode is None else write_tar(path, pixels, mode, **extra)


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_equal_the_folder(tmp_path, name):
    pixels = write(tmp_path / "set", *CLASSES)
    folder = open_images(tmp_path / "set")
    odd = {
        "../out.png": b"x",
        "/abs.png": b"x",
        "__MACOSX/set/._1.png": b"x",
        "set/read.me": b"x",
        "set/.x.png": b"x",
    }
    write_archive(tmp_path / name, {f"set/{key}": image for key, image in pixels.items()}, **odd)
    images = open_images(tmp_path / name)
    assert list(images.names) == [f"{name}/set/{key}" for key in folder.names]
    assert images.classes == folder.classes and images.labels.tolist() == folder.labels.tolist()
    assert sorted(images.ignored) == sorted(f"{name}/{key}" for key in odd)
    for i in (3, 0, 5, 1):
        assert np.array_equal(array(images.read(i)), array(folder.read(i)))
    with ThreadPoolExecutor(6) as pool:
        rows = np.random.default_rng(0).integers(len(images), size=120).tolist()
        for row, image in zip(rows, pool.map(images.read, rows), strict=True):
            assert np.array_equal(array(image), array(folder.read(row)))
    assert images.fingerprint() == open_images(tmp_path / name).fingerprint()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["set", name])


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_archives_with_splits(tmp_path, name):
    pixels = {
        f"top/{split}/{c}/1.png": random_pixels(4, 5) for split in ("train", "test") for c in "ab"
    }
    write_archive(tmp_path / name, pixels)
    test = open_images(tmp_path / name, split="test")
    assert list(test.names) == [f"{name}/top/test/a/1.png", f"{name}/top/test/b/1.png"]
    assert test.classes == ["a", "b"] and len(open_images(tmp_path / name)) == 4


@pytest.mark.parametrize("top", ["", "top/", "top/set/"])
def test_archives_of_a_single_split(tmp_path, top):
    pixels = {f"{top}training/{c}/1.png": random_pixels(4, 5) for c in "ab"}
    write_archive(tmp_path / "a.zip", pixels)
    images = open_images(tmp_path / "a.zip", split="train")
    assert images.classes == ["a", "b"] and images.labels.tolist() == [0, 1]
    assert open_images(tmp_path / "a.zip").fingerprint() == images.fingerprint()
    with pytest.raises(typica.InputError, match="no folder 'test' with images in it, but training"):
        open_images(tmp_path / "a.zip", split="test")


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_set_with_other_labels_outlives_the_first(tmp_path, name):
    pixels = write(tmp_path / "set", *CLASSES)
    write_archive(tmp_path / name, pixels)
    folder = open_images(tmp_path / "set")
    numbers = list(range(len(folder)))
    for images in (
        open_images(open_images(tmp_path / name)),
        open_images(tmp_path / name, labels=numbers),
        in_order(open_images(tmp_path / name), folder.classes[::-1]),
    ):
        assert np.array_equal(array(images.read(0)), array(folder.read(0)))


@pytest.mark.parametrize("name", ARCHIVES)
def test_damaged_archives(tmp_path, name):
    path = tmp_path / name
    write_archive(path, {f"{k}.png": random_pixels(20, 20, seed=k) for k in range(5)})
    whole = path.read_bytes()
    for data in (b"", b"hello", whole[: len(whole) // 4], whole[:600] + b"\0" * 300 + whole[900:]):
        path.write_bytes(data)
        try:  # found when opened or, of a zip or tar with a whole directory, when read
            images = open_images(path)
            damaged = 0
            for i in range(len(images)):
                try:
                    images.read(i)
                except ImageError as error:
                    assert str(error).startswith(f"{name}/")
                    damaged += 1
            assert damaged or len(images) < 5
        except typica.InputError as error:
            assert name in str(error)
    write_archive(path, {}, readme=b"no images here")
    with pytest.raises(typica.InputError, match=r"holds no images \(1 other files\)"):
        open_images(path)


def test_odd_members(tmp_path, monkeypatch):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (
            ("link.png", tarfile.SYMTYPE),
            ("dev.png", tarfile.CHRTYPE),
            ("dir.png", tarfile.DIRTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        member = tarfile.TarInfo(os.fsdecode(b"caf\xe9.png"))
        data = encoded(random_pixels(64, 96))
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    images = open_images(tmp_path / "a.tar")
    assert list(images.names) == ["a.tar/caf\\udce9.png"] and images.read(0).size == (96, 64)
    assert sorted(images.ignored) == ["a.tar/dev.png", "a.tar/link.png"]
    write_zip(tmp_path / "b.zip", {"a.png": random_pixels(20, 20)})
    images = open_images(tmp_path / "b.zip")
    monkeypatch.setattr("typica.data._archives.MAX_BYTES", 10)
    with pytest.raises(ImageError, match=r"b.zip/a.png: [\d,]+ bytes, more than 10"):
        images.read(0)
    locked = bytearray((tmp_path / "b.zip").read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(signature) + offset] |= 1
    (tmp_path / "c.zip").write_bytes(locked)
    monkeypatch.undo()
    with pytest.raises(
        ImageError, match=r"c.zip/a.png: cannot be read from the archive \(.*password"
    ):
        open_images(tmp_path / "c.zip").read(0)


# Arrays


def test_arrays(tmp_path):
    pixels = random_pixels(6, 5, 4)
    np.save(tmp_path / "x.npy", pixels)
    np.savez(tmp_path / "only.npz", anything=pixels)
    np.savez_compressed(
        tmp_path / "x.npz",
        images=pixels,
        labels=np.arange(6) % 3,
        other=np.arange(2),
        classes=["a", "b", "c"],
    )
    for source, name in (
        (pixels, "images[4]"),
        (tmp_path / "x.npy", "x.npy[4]"),
        (tmp_path / "only.npz", "only.npz[4]"),
        (tmp_path / "x.npz", "x.npz[4]"),
    ):
        images = open_images(source)
        assert (
            len(images) == 6
            and images.names[4] == name
            and list(images.names[4:]) == [name, name.replace("4", "5")]
        )
        assert all(np.array_equal(images.read(i), pixels[i]) for i in range(6))
    assert images.labels.tolist() == [0, 1, 2, 0, 1, 2] and images.classes == ["a", "b", "c"]
    joined = open_images([tmp_path / "x.npz", tmp_path / "x.npz"])
    assert len(joined) == 12 and np.array_equal(joined.read(8), pixels[2]) and joined.labels[8] == 2
    assert joined.names[8] == f"{tmp_path}/x.npz[2]"
    with pytest.raises(IndexError):
        joined.read(12)


def test_grey_arrays():
    grey = random_pixels(6, 5, 4)[..., 0]
    for given in (grey, grey[..., None]):
        images = open_images(given)
        assert len(images) == 6 and np.array_equal(images.read(2), np.dstack([grey[2]] * 3))


def test_bad_arrays(tmp_path):
    for bad, message in (
        (np.zeros((2, 4, 4, 3)), "^open_images: images: type float64; pass uint8"),
        (
            random_pixels(4, 4),
            r"shape \(4, 4, 3\) is a single image's; pass image\[None\], of shape \(1, 4, 4, 3\)",
        ),
        (
            np.zeros((2, 3, 8, 8), np.uint8),
            r"has channels first; pass array.transpose\(0, 2, 3, 1\)",
        ),
        (np.zeros((2, 8, 8, 4), np.uint8), r"images: shape \(2, 8, 8, 4\)"),
        (np.zeros((0, 8, 8, 3), np.uint8), r"images: shape \(0, 8, 8, 3\)"),
        (np.zeros(3, np.uint8), r"images: shape \(3,\)"),
    ):
        with pytest.raises(typica.InputError, match=message):
            open_images(bad)
    with pytest.raises(typica.InputError, match=r"label 9223372036854775808 is 2\*\*63 or more"):
        open_images(random_pixels(1, 4, 4), labels=np.array([2**63], np.uint64))
    with pytest.raises(typica.InputError, match="an array has no split 'test'"):
        open_images(random_pixels(1, 4, 4), split="test")
    np.savez(tmp_path / "two.npz", a=random_pixels(1, 4, 4), b=random_pixels(1, 4, 4))
    np.savez(tmp_path / "classes.npz", images=random_pixels(1, 4, 4), labels=[1], classes=["a"])
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    for name in ("half.npy", "half.npz"):
        (tmp_path / name).write_bytes(b"\x93NUMPY\x01\x00")
    for name, message in (
        ("two.npz", "holds a, b; name the array of images 'images'"),
        ("classes.npz", "labels from 0 to 1 for 1 class names"),
        ("objects.npy", "not a whole .npy file"),
        ("half.npy", "half.npy: not a whole .npy file"),
        ("half.npz", "half.npz: not a whole .npz file"),
    ):
        with pytest.raises(typica.InputError, match=message):
            open_images(tmp_path / name)


# Parquet, CIFAR, SVHN


def test_parquet(tmp_path):
    pixels = random_pixels(7, 5, 4)
    files = [encoded(image) for image in pixels]
    features = {"info": {"features": {"label": {"names": ["ant", "bee"], "_type": "ClassLabel"}}}}
    table = pa.table(
        {"image": [{"bytes": data, "path": None} for data in files], "label": [0, 1, 0, 1, 0, 1, 1]}
    )
    named = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(named, tmp_path / "hub.parquet", row_group_size=3)
    pq.write_table(pa.table({"image": files, "label": list("abcabca")}), tmp_path / "plain.parquet")
    pq.write_table(pa.table({"image": files}), tmp_path / "bare.parquet")
    pq.write_table(
        pa.table({"image": files, "label": [0, 1, -1, 0, 1, 0, 1]}), tmp_path / "unknown.parquet"
    )
    for name, labels, classes in (
        ("hub", [0, 1, 0, 1, 0, 1, 1], ["ant", "bee"]),
        ("plain", [0, 1, 2, 0, 1, 2, 0], ["a", "b", "c"]),
        ("bare", None, None),
        ("unknown", None, None),
    ):
        images = open_images(tmp_path / f"{name}.parquet")
        assert images.names[6] == f"{name}.parquet[6]" and images.classes == classes
        assert (None if images.labels is None else images.labels.tolist()) == labels
        with ThreadPoolExecutor(4) as pool:
            for got, expected in zip(pool.map(images.read, range(7)), pixels, strict=True):
                assert np.array_equal(array(got), expected)
    pq.write_table(pa.table({"image": [None, b"junk"]}), tmp_path / "bad.parquet")
    images = open_images(tmp_path / "bad.parquet")
    with pytest.raises(ImageError, match=r"bad.parquet\[0\]: holds no bytes of an image"):
        images.read(0)
    with pytest.raises(ImageError, match=r"bad.parquet\[1\]: not an image"):
        images.read(1)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    pq.write_table(pa.table({"image": pa.array([], pa.binary())}), tmp_path / "none.parquet")
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and nothing more")
    for name, message in (
        ("other", "holds x; name the column"),
        ("none", "holds no images"),
        ("half", "not a whole"),
    ):
        with pytest.raises(typica.InputError, match=f"{name}.parquet: {message}"):
            open_images(tmp_path / f"{name}.parquet")


def test_parquet_needs_its_extra(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    with pytest.raises(typica.InputError, match=r"pip install 'typica\[parquet\]'"):
        open_images(tmp_path / "x.parquet")


def rows_of(pixels: np.ndarray) -> np.ndarray:
    """CIFAR's layout: all reds, then all greens, then all blues."""
    return np.stack([np.concatenate([image[..., c].ravel() for c in range(3)]) for image in pixels])


def write_cifar10(root: Path, protocol: int = 2) -> dict[str, np.ndarray]:
    root.mkdir()
    parts = {f"data_batch_{k}": random_pixels(4, 32, 32, seed=k) for k in (1, 2)}
    parts["test_batch"] = random_pixels(3, 32, 32, seed=9)
    for name, pixels in parts.items():
        content = {
            b"data": rows_of(pixels),
            b"labels": [k % 2 for k in range(len(pixels))],
            b"batch_label": b"x",
        }
        (root / name).write_bytes(pickle.dumps(content, protocol=protocol))
    (root / "batches.meta").write_bytes(
        pickle.dumps({b"label_names": [b"plane", b"car"]}, protocol=protocol)
    )
    (root / "readme.html").touch()
    return parts


@pytest.mark.parametrize("protocol", range(6))
def test_cifar_pickles(tmp_path, protocol):
    parts = write_cifar10(tmp_path / "c", protocol)
    everything = open_images(tmp_path / "c")
    pixels = np.concatenate([parts["data_batch_1"], parts["data_batch_2"], parts["test_batch"]])
    assert (
        all(np.array_equal(everything.read(i), pixels[i]) for i in range(11))
        and len(everything) == 11
    )
    assert everything.labels.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]
    train, test = (open_images(tmp_path / "c", split=split) for split in ("train", "test"))
    assert len(train) == 8 and train.names[5] == "data_batch_2[1]"
    assert (
        len(test) == 3
        and test.names[1] == "test_batch[1]"
        and np.array_equal(test.read(1), parts["test_batch"][1])
    )
    single = open_images(tmp_path / "c" / "test_batch")
    assert len(single) == 3 and single.fingerprint() == test.fingerprint()
    with pytest.raises(typica.InputError, match="CIFAR has no split 'val'"):
        open_images(tmp_path / "c", split="val")


def test_cifar_pickles_of_python_2(tmp_path):
    # As Python 2 wrote it: text is 8-bit, and holds the array's bytes.
    raw = bytes(range(256)) * 12
    old = b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\n"
    old += b"q\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
    old += b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07"
    old += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    old += b"T\x00\x0c\x00\x00" + raw + b"tbU\x06labelsq\x08]q\x09K\x07au."
    (tmp_path / "test_batch").write_bytes(old)
    images = open_images(tmp_path / "test_batch")
    assert images.labels.tolist() == [7] and images.classes is None
    assert np.array_equal(
        images.read(0), np.frombuffer(raw, np.uint8).reshape(3, 32, 32).transpose(1, 2, 0)
    )


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_cifar_pickles_run_no_code(tmp_path):
    pickled = tmp_path / "test_batch"
    pickled.write_bytes(pickle.dumps({b"data": Evil(tmp_path / "pwned"), b"labels": []}))
    with pytest.raises(
        typica.FormatError,
        match=r"not a pickle of plain values and arrays \(it asks for posix.mkdir\)",
    ):
        open_images(pickled)
    assert not (tmp_path / "pwned").exists()
    rows = rows_of(random_pixels(2, 32, 32))
    for content, message in (
        ([1, 2], "holds a list in place of a dict"),
        ({"data": rows}, "holds no list 'labels'"),
        ({"data": rows, "labels": [1]}, "holds no list 'labels'"),
        ({"data": rows.astype(np.int64), "labels": [1, 2]}, "holds no array 'data'"),
        ({"data": rows[:, :9], "labels": [1, 2]}, "holds no array 'data'"),
        ({"data": np.array([[None]]), "labels": [1]}, "holds no array 'data'"),
        ({"labels": [1, 2]}, "holds no array 'data'"),
        ({"data": np.random.default_rng(0), "labels": [1, 2]}, r"it asks for numpy\.random"),
    ):
        pickled.write_bytes(pickle.dumps(content))
        with pytest.raises(typica.FormatError, match=message):
            open_images(pickled)
    whole = pickle.dumps({"data": rows, "labels": [1, 2]})
    for length in (0, 1, 50, 300, len(whole) - 1):
        pickled.write_bytes(whole[:length])
        with pytest.raises(typica.FormatError, match="not a pickle"):
            open_images(pickled)


class Rebuilt:
    """Pickled as an array of NumPy's own is, with other arguments."""

    def __init__(self, *arguments) -> None:
        self.arguments = arguments

    def __reduce__(self):
        return _frombuffer, self.arguments


BYTES = bytes(range(256)) * 24
UINT8 = np.dtype("u1")


@pytest.mark.parametrize(
    "array",
    [
        Rebuilt(BYTES, UINT8, (2, 3072), "K", (0, 1)),
        Rebuilt(BYTES, UINT8, (-2, -3072), "C"),
        Rebuilt(BYTES, UINT8, (2, "3072"), "C"),
        Rebuilt(BYTES, np.dtype("i1"), (2, 3072), "C"),
        Rebuilt("\u1234" * len(BYTES), UINT8, (2, 3072), "C"),
        Rebuilt(BYTES),
    ],
)
def test_cifar_arrays_that_are_none(tmp_path, array):
    pickled = tmp_path / "test_batch"
    pickled.write_bytes(pickle.dumps({"data": array, "labels": [1, 2]}, protocol=5))
    with pytest.raises(typica.FormatError, match=r"not a pickle|holds no array 'data'"):
        open_images(pickled)


@pytest.mark.parametrize("count", [2**40, 2**62, 2**64 - 1])
def test_cifar_pickles_that_say_how_much_is_to_come(tmp_path, count):
    pickled = tmp_path / "test_batch"
    pickled.write_bytes(b"\x80\x05\x96" + count.to_bytes(8, "little") + BYTES)
    with pytest.raises(typica.FormatError, match="not a pickle"):
        open_images(pickled)


def test_cifar_100_and_binary(tmp_path):
    pixels = random_pixels(4, 32, 32)
    rows, fine, coarse = rows_of(pixels), [3, 0, 2, 1], [1, 0, 1, 0]
    hundred, binary, binary100 = (tmp_path / name for name in ("p100", "b10", "b100"))
    for folder in (hundred, binary, binary100):
        folder.mkdir()
    for name in ("train", "test"):
        content = {b"data": rows, b"fine_labels": fine, b"coarse_labels": coarse}
        (hundred / name).write_bytes(pickle.dumps(content))
        (binary100 / f"{name}.bin").write_bytes(
            np.column_stack([coarse, fine, rows]).astype(np.uint8).tobytes()
        )
    (hundred / "meta").write_bytes(pickle.dumps({b"fine_label_names": [b"a", b"b", b"c", b"d"]}))
    (binary100 / "fine_label_names.txt").write_text("a\nb\nc\nd\n")
    for name in ("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"):
        (binary / name).write_bytes(np.column_stack([fine, rows]).astype(np.uint8).tobytes())
    (binary / "batches.meta.txt").write_text("a\nb\nc\nd\n\n")
    for folder in (hundred, binary, binary100):
        test = open_images(folder, split="test")
        assert test.labels.tolist() == fine and len(test) == 4 and len(test.classes) == 4
        assert all(np.array_equal(test.read(i), pixels[i]) for i in range(4))
    assert len(open_images(binary)) == 12 and len(open_images(hundred)) == 8
    assert len(open_images(binary / "test_batch.bin")) == 4
    (binary / "test_batch.bin").write_bytes(b"\0" * 3072)
    with pytest.raises(
        typica.FormatError, match="3072 bytes are not a whole number of 3073; fetch CIFAR again"
    ):
        open_images(binary, split="test")
    (binary / "test_batch.bin").unlink()
    with pytest.raises(typica.InputError, match="the files of the split 'test' are not there"):
        open_images(binary, split="test")


def test_svhn(tmp_path):
    pixels = random_pixels(5, 32, 32)
    for split, rows in (("train", slice(0, 3)), ("test", slice(3, 5))):
        digits = np.array([10, 1, 9, 2, 10], dtype=np.uint8)[rows, None]
        savemat(
            tmp_path / f"{split}_32x32.mat", {"X": np.moveaxis(pixels[rows], 0, 3), "y": digits}
        )
    everything, test = open_images(tmp_path), open_images(tmp_path, split="test")
    assert everything.labels.tolist() == [0, 1, 9, 2, 0] and test.labels.tolist() == [2, 0]
    assert all(np.array_equal(everything.read(i), pixels[i]) for i in range(5))
    assert test.names[0] == "test_32x32.mat[0]"
    assert np.array_equal(open_images(tmp_path / "test_32x32.mat").read(1), pixels[4])
    with pytest.raises(typica.InputError, match=r"val_32x32.mat is not there; fetch it"):
        open_images(tmp_path, split="val")
    savemat(tmp_path / "other.mat", {"Z": np.zeros(3)})
    (tmp_path / "junk.mat").write_bytes(b"MATLAB 7.3 or so" * 20)
    for name, message in (
        ("other.mat", "holds no images X"),
        ("junk.mat", "not a whole .mat file"),
    ):
        with pytest.raises(typica.FormatError, match=f"{name}: {message}"):
            open_images(tmp_path / name)


# Fingerprints


def test_fingerprint_tells_sets_apart(tmp_path):
    prints = set()

    def add(source, **options) -> str:
        value = open_images(source, **options).fingerprint()
        assert open_images(source, **options).fingerprint() == value and value not in prints
        prints.add(value)
        return value

    pixels = write(tmp_path / "a", *CLASSES)
    first = add(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    assert open_images(tmp_path / "b").fingerprint() == first  # wherever it lies
    (tmp_path / "b" / "read.me").touch()
    assert open_images(tmp_path / "b").fingerprint() == first
    (tmp_path / "b" / "dog" / "2.png").rename(tmp_path / "b" / "dog" / "3.png")
    add(tmp_path / "b")
    (tmp_path / "b" / "dog" / "3.png").write_bytes(encoded(random_pixels(4, 5, seed=99)))
    add(tmp_path / "b")
    (tmp_path / "b" / "dog" / "3.png").unlink()
    add(tmp_path / "b")
    (tmp_path / "b" / "new").mkdir()
    add(tmp_path / "b")
    write_zip(tmp_path / "z.zip", pixels)
    add(tmp_path / "z.zip")
    numbers = random_pixels(4, 60, 60)
    np.save(tmp_path / "x.npy", numbers)
    assert add(numbers) == open_images(tmp_path / "x.npy").fingerprint()
    add(numbers, labels=[0, 1, 2, 3])
    add(numbers, labels=list("abcd"))
    add(numbers.reshape(4, 30, 120, 3))
    changed = numbers.copy()
    changed[2, 30, 30, 2] ^= 1
    add(changed)
    add(numbers[:3])


def test_fingerprint_of_large_sets(tmp_path, monkeypatch):
    files = tmp_path / "set"
    files.mkdir()
    data = bytearray(random_pixels(100, 100).tobytes())
    (files / "a.bmp").write_bytes(data)
    (files / "b.bmp").write_bytes(b"small")

    def changed(place: int) -> bool:
        other = data.copy()
        other[place] ^= 1
        (files / "a.bmp").write_bytes(other)
        return open_images(files).fingerprint() != first

    first = open_images(files).fingerprint()
    assert all(changed(place) for place in (0, 4096, 15_000, -1))
    monkeypatch.setattr(_fingerprints, "WHOLE", 1000)
    (files / "a.bmp").write_bytes(data)
    first = open_images(files).fingerprint()
    assert [changed(place) for place in (0, 4095, 4096, -4097, -4096, -1)] == [
        True,
        True,
        False,
        False,
        True,
        True,
    ]
    (files / "a.bmp").write_bytes(data)
    (files / "b.bmp").write_bytes(b"sMall")
    assert open_images(files).fingerprint() != first
    pixels = random_pixels(2, 60, 60)
    other = pixels.copy()
    other[1, 30, 30] ^= 1
    assert open_images(pixels).fingerprint() == open_images(other).fingerprint()
    other[1, -1, -1] ^= 1
    assert open_images(pixels).fingerprint() != open_images(other).fingerprint()


# Batches


def test_batches_of_every_source(tmp_path):
    pixels = {f"{c}/{k}.png": random_pixels(40, 30 + k, seed=k) for c in "ab" for k in range(5)}
    for name, image in pixels.items():
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(encoded(image))
    write_zip(tmp_path / "set.zip", pixels)
    write_tar(tmp_path / "set.tar.gz", pixels, "w:gz")
    files = [encoded(pixels[name]) for name in sorted(pixels)]
    pq.write_table(pa.table({"image": files}), tmp_path / "set.parquet", row_group_size=3)
    transform = Preprocessing(24, 20)
    expected = np.stack([transform.pixels(pixels[name]) for name in sorted(pixels)])
    for source in ("set", "set.zip", "set.tar.gz", "set.parquet"):
        got = np.concatenate(
            [b.pixels for b in image_batches(open_images(tmp_path / source), transform, 4)]
        )
        assert np.array_equal(got, expected), source


def test_images_the_transform_refuses(tmp_path):
    (tmp_path / "long.png").write_bytes(encoded(Image.new("L", (1, 3000))))
    (tmp_path / "plain.png").write_bytes(encoded(random_pixels(64, 96)))
    images = open_images(tmp_path)
    b = next(image_batches(images, Preprocessing(256, 224), 4, on_error="skip"))
    assert b.indices.tolist() == [1] and b.skipped[0][0] == "long.png"
    assert b.skipped[0][1].startswith("long.png: an image of 1 x 3000 pixels")
    with pytest.raises(ImageError, match=r"long.png: "):
        next(image_batches(images, Preprocessing(256, 224), 4))


# Real images


@pytest.mark.real
def test_real_images():
    from typica.nets import zoo

    path = REAL / "images" / "cifar10-test-2000.npz"
    if not path.is_file():
        pytest.skip(f"the real images are not at {path} (TYPICA_REAL says where)")
    images = open_images(path)
    assert len(images) == 2000 and sorted(np.unique(images.labels)) == list(range(10))
    assert images.names[12] == "cifar10-test-2000.npz[12]"
    with np.load(path) as stored:
        pixels, labels = stored["images"], stored["labels"]
    assert np.array_equal(images.labels, labels)
    for name in ("densenet-bc-100", "efficientnet-lite0"):
        transform, rows = zoo.transform(name), 2000 if name.startswith("dense") else 64
        stream = image_batches(images, transform, 256 if rows == 2000 else 32)
        for b in stream:
            if b.start >= rows:
                break
            assert np.array_equal(
                transform.normalised(b.pixels), transform(pixels[b.start : b.stop])
            )
        stream.close()


@pytest.mark.parametrize("name", ARCHIVES)
def test_fingerprint_of_large_archives_covers_every_member(tmp_path, monkeypatch, name):
    # Stored images of one size, all larger than two blocks, so that neither sizes nor the archive's
    # ends differ.
    pixels = {f"{k}.png": random_pixels(60, 60, seed=k) for k in range(6)}
    sizes = {len(encoded(image)) for image in pixels.values()}
    prints = set()
    monkeypatch.setattr(_fingerprints, "WHOLE", 1000)
    for changed in (None, *pixels):
        data = {key: encoded(image).ljust(max(sizes) + 1, b"\0") for key, image in pixels.items()}
        if changed is not None:
            data[changed] = data[changed][:-1] + b"\1"
        write_archive(tmp_path / name, {}, **data)
        value = open_images(tmp_path / name).fingerprint()
        assert open_images(tmp_path / name).fingerprint() == value
        prints.add(value)
        data[changed or "0.png"] = b"\1" + data[changed or "0.png"][1:]
        write_archive(tmp_path / name, {}, **data)
        prints.add(open_images(tmp_path / name).fingerprint())
    assert len(prints) == 2 * (1 + len(pixels))
    if name == "a.zip":  # the checksums cover the middle as well
        data["1.png"] = data["1.png"][:5000] + b"\1\2\3" + data["1.png"][5003:]
        write_archive(tmp_path / name, {}, **data)
        assert open_images(tmp_path / name).fingerprint() not in prints


def test_fingerprint_of_large_files_looks_all_over(tmp_path, monkeypatch):
    images = [
        random_pixels(300, 400, seed=k).tobytes() for k in range(20)
    ]  # 7 MB that do not compress

    def changed(k: int) -> str:
        data = [
            bytes(255 - np.frombuffer(p, np.uint8)) if i == k else p for i, p in enumerate(images)
        ]
        pq.write_table(
            pa.table({"image": data}),
            tmp_path / "x.parquet",
            compression="none",
            use_dictionary=False,
        )
        return open_images(tmp_path / "x.parquet").fingerprint()

    monkeypatch.setattr(_fingerprints, "WHOLE", 1000)
    monkeypatch.setattr(_fingerprints, "_FILE_STEP", 2**18)
    assert len({changed(k) for k in range(-1, 20)}) == 21
    pixels = np.zeros((3, 300, 400, 3), np.uint8)
    other = pixels.copy()
    other[1, 100:200] = 255  # between borders of one colour
    for name, array_ in (("a.npy", pixels), ("b.npy", other)):
        np.save(tmp_path / name, array_)
    assert (
        open_images(tmp_path / "a.npy").fingerprint()
        != open_images(tmp_path / "b.npy").fingerprint()
    )


def test_folders_beside_the_one_that_all_images_share_are_not_classes(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("set/cat/1.png", "set/dog/2.png"):
            archive.writestr(name, encoded(random_pixels(4, 4)))
        for folder in ("set/eel/", "settings/", "set-b/", "other/", "./"):
            archive.writestr(folder, b"")
    images = open_images(tmp_path / "a.zip")
    assert images.classes == ["cat", "dog", "eel"] and images.labels.tolist() == [0, 1]


def test_images_beside_class_folders_are_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels = write(Path("set"), "cat/1.png", "dog/2.png")
    assert open_images("set").notes == [] and open_images("set").labels is not None
    pixels |= write(Path("set"), "stray.png")
    note = "images lie beside the folders ({}), so folders are not taken as classes"
    images = open_images("set")
    assert images.labels is None and images.notes == [note.format("stray.png")]
    pixels |= write(Path("set"), "other.png")
    assert open_images("set").notes == [note.format("other.png and 1 more")]
    assert open_images(["set", "set/stray.png"]).notes == [note.format("set/other.png and 1 more")]
    write(Path("split"), "train/cat/1.png", "train/stray.png", "test/cat/1.png")
    assert open_images("split", split="train").notes == [note.format("train/stray.png")]
    assert open_images("split", split="test").notes == []
    assert open_images(["set/stray.png", "set/cat/1.png"]).notes == []
    for name in ("a.zip", "a.tar"):
        write_archive(Path(name), {f"top/{key}": image for key, image in pixels.items()})
        assert open_images(name).notes == [note.format(f"{name}/top/other.png and 1 more")]
        write_archive(
            Path(name), {f"top/{key}": image for key, image in pixels.items() if "/" in key}
        )
        assert open_images(name).notes == [] and open_images(name).labels is not None
    write(Path("flat"), "a.png", "b.png")
    assert open_images("flat").notes == [] and open_images(random_pixels(2, 4, 4)).notes == []


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_members_of_one_name_are_told_apart(tmp_path, name):
    pixels = [random_pixels(4, 5, seed=k) for k in range(5)]
    members = ["cat.png", "dog.png", "cat.png", "./cat.png", "dog.png"]
    if name == "a.zip":
        with (
            zipfile.ZipFile(tmp_path / name, "w") as archive,
            pytest.warns(UserWarning, match="Duplicate name"),
        ):
            for member, image in zip(members, pixels, strict=True):
                archive.writestr(member, encoded(image))
    else:
        with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w") as archive:
            for member, image in zip(members, pixels, strict=True):
                entry = tarfile.TarInfo(member)
                entry.size = len(encoded(image))
                archive.addfile(entry, io.BytesIO(encoded(image)))
    images = open_images(tmp_path / name)
    expected = ["cat.png", "cat.png (2)", "cat.png (3)", "dog.png", "dog.png (2)"]
    assert list(images.names) == [f"{name}/{key}" for key in expected]
    for i, k in enumerate([0, 2, 3, 1, 4]):
        assert np.array_equal(array(images.read(i)), pixels[k])


def test_fingerprint_of_a_large_zip_covers_members_whose_entries_lie_far_from_its_end(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(_fingerprints, "WHOLE", 1000)
    prints = set()
    for changed in (None, 20, 90):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for k in range(200):
                content = (b"\1" if k == changed else b"\0") * 300
                archive.writestr(zipfile.ZipInfo(f"{k:03d}.png"), content)
        prints.add(open_images(tmp_path / "a.zip").fingerprint())
    assert len(prints) == 3


def test_what_is_no_image_yet_or_no_more_is_named(tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(
        typica.InputError, match=r"a tensor of shape \(1, 3, 8, 8\); pass images before"
    ):
        open_images(torch.zeros(1, 3, 8, 8))
    (tmp_path / "a.png").write_bytes(b"")
    with (
        (tmp_path / "a.png").open("rb") as file,
        pytest.raises(typica.InputError, match=r"an open file \(BufferedReader\); pass its path"),
    ):
        open_images(file)
