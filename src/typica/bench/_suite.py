"""A suite as data: model, weights, sets, methods and protocol, read from TOML and checked.

    suite = load_suite("cifar10-densenet")       # one that comes with Typica
    suite = load_suite("my.toml")                # one of your own: see `init_text`

Everything that is wrong with a file is said at once, before any work starts.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import EntryPoint
from importlib.resources import files
from pathlib import Path
from typing import Any

from typica import plugins
from typica.bench._schema import Problems, read_suite
from typica.bench.published import PAPER
from typica.errors import InputError, argument, border
from typica.files import read_text, reading
from typica.kinds import Kind, check_kind

PLUGINS = "typica.suites"  # the group of entry points by which packages add suites
GRID = (10, 20, 50, 100, 200, 400)  # the numbers of neighbours that the paper tried


@dataclass(frozen=True)
class Source:
    """Where inputs come from: a benchmark set, or a path to images, arrays or a bank; the split.

    list: a text file that names the images in the folder `path`, one "path label" per line.
    """

    set: str | None = None
    path: str | None = None
    split: str | None = None
    list: str | None = None

    def __str__(self) -> str:
        place = self.set or self.list or self.path or ""
        return f"{place} ({self.split})" if self.split else place


@dataclass(frozen=True)
class Protocol:
    """How scores are turned into numbers; see `typica.bench._protocol`."""

    tpr: float = 0.95
    convention: str = "first"
    subsets: int = 5
    full: bool = False
    seed: int = 0
    knn_grid: tuple[int, ...] = GRID


@dataclass(frozen=True)
class Published:
    """Which published numbers a suite measures again: whose, and of which network and ID set."""

    model: str
    id_set: str
    by: str = PAPER


@dataclass(frozen=True)
class Suite:
    """A benchmark: everything but the data itself.

    Attributes
    ----------
    name, title
        What commands take, and one line for people.
    builtin
        "digits", whose network and images come with Typica. All others have `model` or `features`.
    model, weights
        A name of the zoo, a file, or package.module:function; and its checkpoint.
    features
        For a suite without a model: what the rows in its folder of features are.
    layer
        The layer of the features, if it is not the last.
    layers
        What the experiment `layers` looks at too, from the first layer to the last.
    classes
        The network's outputs in their order, if that is not the order of the folders' names.
    transform
        What differs from the model's own preprocessing.
    train, test, calibration, ood
        Where the inputs come from; OOD sets by name.
    near
        The OOD sets that resemble the training data.
    methods
        Parameters by method.
    protocol
        How scores are turned into numbers.
    published
        Which published numbers the suite measures again.
    folder
        Where the suite's file is, for its relative paths.
    """

    name: str
    title: str
    builtin: str | None = None
    model: str | None = None
    weights: str | None = None
    features: str | None = None
    layer: str | None = None
    layers: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    transform: Mapping[str, Any] = field(default_factory=dict)
    train: Source = Source()
    test: Source = Source()
    calibration: Source | None = None
    ood: Mapping[str, Source] = field(default_factory=dict)
    near: tuple[str, ...] = ()
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    protocol: Protocol = Protocol()
    published: Published | None = None
    folder: Path | None = None

    def find(self, path: str, data: Path | None = None) -> Path | None:
        """Return what `path` names: beside the suite's file, or else in the data folder."""
        return _found(path, self.folder, data)

    def to_dict(self) -> dict[str, Any]:
        """Give the suite as plain JSON types."""
        record = asdict(self)
        record["folder"] = None if self.folder is None else str(self.folder)
        for key in ("layers", "classes", "near"):
            record[key] = list(record[key])
        record["protocol"]["knn_grid"] = list(self.protocol.knn_grid)
        return record


def list_suites() -> list[str]:
    """Return the names of the suites that come with Typica, or with a plugin that is installed.

    >>> list_suites()[0]
    'cifar10-densenet'
    """
    return sorted({*_own_suites(), *plugins.installed(PLUGINS)})


def _own_suites() -> list[str]:
    names = [file.name for file in _shipped().iterdir()]
    return [name.removesuffix(".toml") for name in names if name.endswith(".toml")]


@border
def suite_text(name: str) -> str:
    """Return the TOML text of a suite that comes with Typica or a plugin, or of a file.

    >>> suite_text("digits").splitlines()[0]
    'title = "Handwritten digits 0-6, small convolutional network"'
    """
    if name in _own_suites():
        return str((_shipped() / f"{name}.toml").read_text(encoding="utf-8"))
    if name in plugins.installed(PLUGINS):
        return _plugin_text(plugins.installed(PLUGINS)[name])
    path = Path(name)
    check_kind(path, Kind.SUITE, "a suite", "pass a TOML file, or start from `typica suite init`")
    if not path.is_file():
        known = ", ".join(list_suites())
        raise InputError(
            f"suite {name!r}: neither a file nor a suite of Typica; choose one of {known}."
        )
    return read_text(path)


@border
def load_suite(
    source: str | Path, *, data: str | Path | None = None, check_paths: bool = False
) -> Suite:
    """Read a suite by its name or from a TOML file; raise with ALL that is wrong with it.

    check_paths: whether the files and folders that it names must be there, beside its file or in
    `data`.

    >>> suite = load_suite("cifar10-densenet")
    >>> suite.methods["knn"], suite.ood["svhn"].split
    ({'k': 50}, 'test')
    """
    name = str(source)
    text = suite_text(name)
    shipped = name in list_suites()
    with reading(name, "not a TOML file", "fix it, or start from `typica suite init`"):
        document = tomllib.loads(text)
    folder = None if shipped else Path(name).resolve().parent
    # A suite that comes with Typica needs no fixing: something that it names is missing.
    problems = Problems(name, "get what is missing" if shipped else "fix the file")
    values = read_suite(document, problems)
    if check_paths:
        _check_paths(values, folder, None if data is None else Path(data), problems)
    problems.raise_any()
    return _made(values, name if shipped else Path(name).stem, folder)


def _made(values: Mapping[str, Any], name: str, folder: Path | None) -> Suite:
    """Return the suite that a file describes. name: what it is called if the file does not say."""
    published = values.get("published")
    return Suite(
        name=values.get("name", name),
        title=values.get("title", name),
        builtin=values.get("builtin"),
        model=values.get("model"),
        weights=values.get("weights"),
        features=values.get("features"),
        layer=values.get("layer"),
        layers=tuple(values.get("layers", ())),
        classes=tuple(values.get("classes", ())),
        transform=values["transform"],
        **_sources(values["id"]),
        ood=_sources(values["ood"]),
        near=tuple(values.get("near", ())),
        methods=values["methods"],
        protocol=_protocol(values["protocol"]),
        published=None if published is None else Published(**published),
        folder=folder,
    )


def _sources(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Source]:
    return {name: Source(**entry) for name, entry in table.items()}


def _protocol(table: Mapping[str, Any]) -> Protocol:
    grid = tuple(table.get("knn_grid", GRID))
    return Protocol(**{**table, "knn_grid": grid})


def _check_paths(
    values: dict[str, Any], folder: Path | None, data: Path | None, problems: Problems
) -> None:
    """Note every file and folder that the suite names and that is not there.

    Benchmark sets are not looked for: one that is absent is a row of the result, with how to get
    it.
    """
    paths = {}
    for table in ("id", "ood"):
        for key, entry in values.get(table, {}).items():
            for kind in ("path", "list"):
                if kind in entry:
                    paths[f"{table}.{key}.{kind}"] = entry[kind]
    if values.get("weights", "bundled") != "bundled":
        paths["weights"] = values["weights"]
    places = " or ".join(dict.fromkeys(str(place) for place in (folder, data) if place is not None))
    searched = places or f"a data folder; name one with {argument('data', 'DIR')}"
    for key, path in paths.items():
        if _found(path, folder, data) is None:
            problems.note(f"{key} = {path!r} is not in {searched}")


def _found(path: str, *places: Path | None) -> Path | None:
    found = (place / path for place in places if place is not None)
    return next((place for place in found if place.exists()), None)


def _plugin_text(point: EntryPoint) -> str:
    """Return the suite of an entry point `package:stem`: the file stem.toml in that package."""
    with reading(point.value, "not a suite of an installed package", "update the package"):
        return (files(point.module) / f"{point.attr}.toml").read_text(encoding="utf-8")


def _shipped() -> Any:
    return files("typica.bench.suites")


def init_text() -> str:
    """Return a commented suite to start one's own from; it is a valid suite itself."""
    return (files("typica.bench") / "template.toml").read_text(encoding="utf-8")
