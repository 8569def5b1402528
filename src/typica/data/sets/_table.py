"""The benchmark sets as data: official pages, addresses, sizes and checksums.

Checksums are those that the set's own page or widely used software publishes: CIFAR, torchvision
and Keras; SVHN, Textures, Places365 and both MNISTs, TensorFlow Datasets; LSUN, pytorch-ood; iSUN,
iNaturalist, SUN and Places, the package `detectors`. A file without one is recorded when it is
first fetched.
"""

from __future__ import annotations

from typing import NamedTuple

from typica.data.sets._digests import Digests


class SetFile(NamedTuple):
    """One file of a set: name, addresses (the official one first), size in bytes and checksums."""

    name: str
    addresses: tuple[str, ...]
    size: int | None = None
    digests: Digests = Digests()


class BenchmarkSet(NamedTuple):
    """A benchmark set.

    Attributes
    ----------
    name, title, page, licence
        What it is called, one line for people, its official page, and its licence.
    files
        What is fetched; none where that takes a registration, and `by_hand` says how.
    open
        What `open_images` is given, as a path in the set's folder.
    needs
        What must be there for the set to count as there.
    images
        How many there are.
    split
        Which part the images are, None where the source has several.
    kind
        What becomes of the files: "archive", "plain", "idx" (the format of MNIST, turned into
        .npz).
    only
        The file that lists which images of an archive are kept.
    by_hand
        How to get the set where nothing can be fetched.
    """

    name: str
    title: str
    page: str
    licence: str
    files: tuple[SetFile, ...]
    open: str
    needs: str
    images: int
    split: str | None = None
    kind: str = "archive"
    only: str | None = None
    by_hand: str = ""

    @property
    def size(self) -> int | None:
        """Bytes to fetch, if all sizes are known."""
        known = [file.size for file in self.files if file.size is not None]
        if known and len(known) == len(self.files):
            return sum(known)
        return None


_KRIZ = "https://www.cs.toronto.edu/~kriz/"
_MNIST = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
_FASHION = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
_ODIN = "https://github.com/facebookresearch/odin"
_DROPBOX = "https://www.dropbox.com/s/"
_MOS = "https://github.com/deeplearning-wisc/large_scale_ood"
_WISC = "http://pages.cs.wisc.edu/~huangrui/imagenet_ood_dataset/"
_PLACES = "http://data.csail.mit.edu/places/places365/"
_PLACES_LIST = (  # the revision that names the list for good
    "https://raw.githubusercontent.com/jfc43/informative-outlier-mining/"
    "258efede70c778bf6e9e528869b2cab58b071e3e/"
    "datasets/ood_datasets/places365/test_subset/places365_test_list.txt"
)
_RESEARCH = "for non-commercial research and education; see the page"
_UNSTATED = "none stated; for research, see the page"


def _file(
    address: str, size: int | None = None, sha256: str | None = None, md5: str | None = None
) -> SetFile:
    name = address.partition("?")[0].rpartition("/")[2]
    return SetFile(name, (address,), size, Digests(sha256, md5))


def _idx(bases: tuple[str, ...], *files: tuple[str, int, str]) -> tuple[SetFile, ...]:
    found = []
    for name, size, sha256 in files:
        addresses = tuple(base + name for base in bases)
        found.append(SetFile(name, addresses, size, Digests(sha256)))
    return tuple(found)


_TABLE = (
    BenchmarkSet(
        name="cifar10",
        title="CIFAR-10: 60,000 small images of 10 classes",
        page=f"{_KRIZ}cifar.html",
        licence=_UNSTATED,
        files=(
            _file(
                f"{_KRIZ}cifar-10-python.tar.gz",
                size=170_498_071,
                sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                md5="c58f30108f718f92721af3b95e74349a",
            ),
        ),
        open="cifar-10-batches-py",
        needs="cifar-10-batches-py/test_batch",
        images=60_000,
    ),
    BenchmarkSet(
        name="cifar100",
        title="CIFAR-100: 60,000 small images of 100 classes",
        page=f"{_KRIZ}cifar.html",
        licence=_UNSTATED,
        files=(
            _file(
                f"{_KRIZ}cifar-100-python.tar.gz",
                size=169_001_437,
                sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
                md5="eb9058c3a382ffc7106e4002c42a8d85",
            ),
        ),
        open="cifar-100-python",
        needs="cifar-100-python/test",
        images=60_000,
    ),
    BenchmarkSet(
        name="svhn",
        title="SVHN, test: house numbers, cropped digits",
        page="http://ufldl.stanford.edu/housenumbers/",
        licence="for non-commercial use; see the page",
        files=(
            _file(
                "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                size=64_275_384,
                sha256="cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                md5="eb5a983be6a315427106f1b164d9cef3",
            ),
        ),
        open=".",
        needs="test_32x32.mat",
        images=26_032,
        split="test",
        kind="plain",
    ),
    BenchmarkSet(
        name="textures",
        title="Textures (DTD): 47 kinds of texture",
        page="https://www.robots.ox.ac.uk/~vgg/data/dtd/",
        licence="for research; see the page",
        files=(
            _file(
                "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
                size=625_239_812,
                sha256="e42855a52a4950a3b59612834602aa253914755c95b0cff9ead6d07395f8e205",
                md5="fff73e5086ae6bdbea199a49dfb8a4c1",
            ),
        ),
        open="dtd/images",
        needs="dtd/images",
        images=5_640,
    ),
    BenchmarkSet(
        name="lsun-c",
        title="LSUN, cropped to 32 x 32, as in ODIN",
        page=_ODIN,
        licence=_UNSTATED,
        files=(
            _file(
                f"{_DROPBOX}fhtsw1m3qxlwj6h/LSUN.tar.gz?dl=1",
                md5="458a0a0ab8e5f1cb4516d7400568e460",
            ),
        ),
        open="LSUN/test",
        needs="LSUN/test",
        images=10_000,
        split="test",
    ),
    BenchmarkSet(
        name="lsun-r",
        title="LSUN, resized to 32 x 32, as in ODIN",
        page=_ODIN,
        licence=_UNSTATED,
        files=(
            _file(
                f"{_DROPBOX}moqh2wh8696c3yl/LSUN_resize.tar.gz?dl=1",
                md5="278b7b31c8cb7e804a1465a8ce03a2dc",
            ),
        ),
        open="LSUN_resize/LSUN_resize",
        needs="LSUN_resize/LSUN_resize",
        images=10_000,
        split="test",
    ),
    BenchmarkSet(
        name="isun",
        title="iSUN, resized to 32 x 32, as in ODIN",
        page=_ODIN,
        licence=_UNSTATED,
        files=(
            _file(
                f"{_DROPBOX}ssz7qxfqae0cca5/iSUN.tar.gz?dl=1",
                md5="be77b0f2c26fda898afac5f99645ee70",
            ),
        ),
        open="iSUN/iSUN_patches",
        needs="iSUN/iSUN_patches",
        images=8_925,
    ),
    BenchmarkSet(
        name="places365",
        title="Places365: the 10,000 of its test images that CIFAR benchmarks take",
        page="http://places2.csail.mit.edu/download.html",
        licence=_RESEARCH,
        files=(
            _file(_PLACES_LIST, size=280_000),
            _file(
                f"{_PLACES}test_256.tar",
                size=4_736_829_440,
                sha256="037ee8180369bdde46636341b92900d4bcb8ea000c026a1fd3e0e9827a8702a1",
            ),
        ),
        open="test_256",
        needs="test_256",
        images=10_000,
        split="test",
        only="places365_test_list.txt",
    ),
    BenchmarkSet(
        name="places365-val",
        title="Places365: all validation images, a tenth of the other's size",
        page="http://places2.csail.mit.edu/download.html",
        licence=_RESEARCH,
        files=(
            _file(
                f"{_PLACES}val_256.tar",
                size=525_158_400,
                sha256="24b4e639ef12a0012af525bc4cb443e4ab4aaea8369a1fb009b70e4a4aad5d48",
                md5="e27b17d8d44f4af9a78502beb927f808",
            ),
        ),
        open="val_256",
        needs="val_256",
        images=36_500,
        split="val",
    ),
    BenchmarkSet(
        name="imagenet",
        title="ImageNet-1k (ILSVRC 2012), train and val",
        page="https://image-net.org/download-images.php",
        licence=_RESEARCH,
        files=(),
        open=".",
        needs="val",
        images=1_331_167,
        by_hand=(
            "register there, download ILSVRC2012_img_val.tar (and ILSVRC2012_img_train.tar "
            "to fit on the training images), and put the images in folders val/n01440764/*.JPEG "
            "(train/n01440764/*.JPEG), one per class"
        ),
    ),
    BenchmarkSet(
        name="mnist",
        title="MNIST: handwritten digits; train.npz lies beside",
        page="http://yann.lecun.com/exdb/mnist/",
        licence="CC BY-SA 3.0",
        files=_idx(
            _MNIST,
            (
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            (
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
            (
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            (
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
        ),
        open="test.npz",
        needs="test.npz",
        images=10_000,
        split="test",
        kind="idx",
    ),
    BenchmarkSet(
        name="fashion-mnist",
        title="Fashion-MNIST: clothes; train.npz lies beside",
        page="https://github.com/zalandoresearch/fashion-mnist",
        licence="MIT",
        files=_idx(
            _FASHION,
            (
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            (
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
            (
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            (
                "train-labels-idx1-ubyte.gz",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
        ),
        open="test.npz",
        needs="test.npz",
        images=10_000,
        split="test",
        kind="idx",
    ),
    BenchmarkSet(
        name="inaturalist",
        title="iNaturalist: 10,000 images without ImageNet's classes, as in MOS",
        page=_MOS,
        licence=_RESEARCH,
        files=(_file(f"{_WISC}iNaturalist.tar.gz", md5="5be6ea8aa027d7b631916427b32cb335"),),
        open="iNaturalist/images",
        needs="iNaturalist/images",
        images=10_000,
    ),
    BenchmarkSet(
        name="sun",
        title="SUN: 10,000 images without ImageNet's classes, as in MOS",
        page=_MOS,
        licence=_UNSTATED,
        files=(_file(f"{_WISC}SUN.tar.gz", md5="8469c3ada62211477954ec1be53b12d0"),),
        open="SUN/images",
        needs="SUN/images",
        images=10_000,
    ),
    BenchmarkSet(
        name="places",
        title="Places: 10,000 images without ImageNet's classes, as in MOS",
        page=_MOS,
        licence=_RESEARCH,
        files=(_file(f"{_WISC}Places.tar.gz", md5="b5cb5eba2754ae2a28beea8718db699a"),),
        open="Places/images",
        needs="Places/images",
        images=10_000,
    ),
)

SETS = {entry.name: entry for entry in _TABLE}
