"""Numbers that were published, under the names that Typica uses: the CTM paper's, a leaderboard's.

`publications/publications.toml` lists the publications and where their numbers were read; a file
beside it holds the numbers of each in percent (table, model, id_set, method, ood_set, metric,
percent). Here they are fractions, and methods and OOD sets have Typica's names. Functions take a
publication by its name, `by`.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain

from typica.bench._measures import metrics_of
from typica.bench._printed import Common

Numbers = dict[str, dict[str, dict[str, float]]]

PAPER = "paper"
HEADINGS = {"FPR95": "fpr", "AUROC": "auroc"}  # those of the published tables
LAYERS = {
    "CTM before dense blocks": "conv1",
    "CTM after 1st Transition Block": "trans1",
    "CTM after 2nd Transition Block": "trans2",
    "CTM after 3rd Dense Block": "block3",
    "CTM after penultimate Layer": "penultimate",
}
ABLATION = {"Standard": "standard", "CW": "cw", "CM": "cm"}
ALIASES = {  # other names of the same sets, in letters and digits alone
    "dtd": "textures",
    "texture": "textures",
    "describabletextures": "textures",
    "lsunc": "lsun-c",
    "lsuncrop": "lsun-c",
    "lsunr": "lsun-r",
    "lsunresize": "lsun-r",
    "places": "places365",
    "place365": "places365",
    "places365": "places365",
    "inat": "inaturalist",
    "sun397": "sun",
    "tin": "tinyimagenet",
}
AVERAGE = "average"  # in place of an OOD set's name: the mean over all that were printed


@dataclass(frozen=True)
class Publication:
    """Whose numbers they are.

    Attributes
    ----------
    name, title
        What `--against` takes, and what sentences call it.
    source, note
        Where the numbers were read, and what to know about all of them.
    file
        The CSV file of the numbers.
    methods
        Typica's names of the methods, by the publication's.
    means
        Which OOD sets a printed mean covers, by ID set and by the mean's name.
    same
        Other methods of ours that one of its rows also stands for, by ID set.
    made_with
        What the rows of a method were made with, where its name does not say so.
    """

    name: str
    title: str
    source: str
    file: str
    methods: Mapping[str, str]
    note: str = ""
    means: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    same: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    made_with: Mapping[str, str] = field(default_factory=dict)


@cache
def publications() -> dict[str, Publication]:
    """Return the publications whose numbers are here, by name.

    >>> list(publications())
    ['paper', 'openood']
    """
    tables = tomllib.loads(_text("publications.toml"))
    return {name: Publication(name, **table) for name, table in tables.items()}


def title_of(by: str) -> str:
    """Return what sentences call a publication; its name, where it is not known.

    >>> title_of("paper"), title_of("me")
    ('the paper', 'me')
    """
    return publications()[by].title if by in publications() else by


def canonical(ood_set: str) -> str:
    """Return Typica's name for an OOD set, whatever its spelling; unknown names in small letters.

    >>> canonical("DTD"), canonical("LSUN_Crop"), canonical("Places"), canonical("My Set")
    ('textures', 'lsun-c', 'places365', 'my set')
    """
    letters = "".join(letter for letter in ood_set.lower() if letter.isalnum())
    return ALIASES.get(letters, ood_set.lower())


def published(model: str, id_set: str, by: str = PAPER) -> Numbers:
    """Return {method: {OOD set or name of a mean: {"fpr", "auroc"}}} as printed, in fractions.

    Empty if no such table was printed. In the paper, MaxLogit has only an average on the CIFARs.

    >>> published("DenseNet-101", "CIFAR-10")["ctm"]["svhn"]
    {'fpr': 0.0514, 'auroc': 0.9908}
    >>> published("ResNet-18", "CIFAR-10", by="openood")["knn"]["near"]
    {'auroc': 0.9064}
    >>> published("WideResNet-40-2", "CIFAR-10")
    {}
    """
    names = publications()[by].methods
    numbers: Numbers = {}
    for row in _rows(by):
        if (row["model"], row["id_set"]) == (model, id_set) and row["method"] in names:
            of_method = numbers.setdefault(names[row["method"]], {})
            of_set = of_method.setdefault(canonical(row["ood_set"]), {})
            of_set[HEADINGS[row["metric"]]] = _share(row)
    ordered = {method: numbers[method] for method in names.values() if method in numbers}
    for method, stands_for in publications()[by].same.get(id_set, {}).items():
        if stands_for in ordered:
            ordered[method] = ordered[stands_for]
    return ordered


def published_as(model: str, id_set: str, ood_sets: Iterable[str], by: str = PAPER) -> Numbers:
    """Return `published` with the OOD sets under these names, others left out; means stay.

    >>> published_as("DenseNet-101", "CIFAR-10", ["DTD", "mine"])["ctm"].keys()
    dict_keys(['DTD', 'average'])
    """
    names = {name: canonical(name) for name in ood_sets}
    means = means_of(model, id_set, by)
    renamed = {}
    for method, by_set in published(model, id_set, by).items():
        known = {name: by_set[printed] for name, printed in names.items() if printed in by_set}
        renamed[method] = known | {mean: by_set[mean] for mean in means if mean in by_set}
    return renamed


def means_of(model: str, id_set: str, by: str = PAPER) -> dict[str, list[str]]:
    """Return which OOD sets each mean that was printed covers, under Typica's names.

    >>> means_of("ResNet-18", "CIFAR-10", by="openood")["near"]
    ['cifar100', 'tinyimagenet']
    """
    named = publications()[by].means.get(id_set)
    if named is not None:
        return {mean: list(map(canonical, sets)) for mean, sets in named.items()}
    by_method = published(model, id_set, by).values()
    printed = set(chain.from_iterable(by_method))
    return {AVERAGE: sorted(printed - {AVERAGE})}


def comparable_means(
    model: str, id_set: str, method: str, ood_sets: Sequence[str], by: str = PAPER
) -> list[Common]:
    """Return the published means that can be compared, each over those `ood_sets` that it covers.

    A mean is taken as printed if all of its sets are there. Otherwise it is computed from what was
    printed for single sets; it has no sets if that is not possible.

    Parameters
    ----------
    model, id_set
        Which table, by the publication's names.
    method
        Typica's name of the method.
    ood_sets
        OOD sets by any of their names.
    by
        The name of the publication.
    >>> sets = ["cifar100", "tin", "mnist"]
    >>> near, far = comparable_means("ResNet-18", "CIFAR-10", "knn", sets, by="openood")
    >>> near.sets, near.numbers, far.sets
    (('cifar100', 'tin'), {'auroc': 0.9064}, ())
    """
    by_set = published(model, id_set, by).get(method, {})
    found = []
    for mean, printed in means_of(model, id_set, by).items():
        common = [name for name in ood_sets if canonical(name) in printed]
        found.append(_comparable(by_set, mean, printed, common))
    return found


def _comparable(
    by_set: Mapping[str, Mapping[str, float]],
    mean: str,
    printed: Sequence[str],
    common: Sequence[str],
) -> Common:
    names = {canonical(name) for name in common}
    if mean in by_set and names == set(printed):
        return Common(tuple(common), metrics_of(by_set[mean]))
    if not common or not names <= set(by_set):
        return Common()
    means = {}
    for metric in HEADINGS.values():
        values = [by_set[canonical(name)][metric] for name in common]
        means[metric] = sum(values) / len(values)
    return Common(tuple(common), means)


def comparable_average(model: str, id_set: str, method: str, ood_sets: Sequence[str]) -> Common:
    """Return the paper's average over those of `ood_sets` that it printed, and which these are.

    >>> comparable_average("DenseNet-101", "CIFAR-10", "ctm", ["svhn", "dtd", "mine"]).sets
    ('svhn', 'dtd')
    """
    return comparable_means(model, id_set, method, ood_sets)[0]


def common_sets(id_set: str, ood_sets: Iterable[str]) -> Common:
    """Return which of `ood_sets` the paper has for an ID set, whatever the model, and of how many.

    >>> common_sets("CIFAR-10", ["svhn", "dtd", "mine"])
    Common(sets=('svhn', 'dtd'), numbers={}, of=6)
    """
    printed = {canonical(row["ood_set"]) for row in _rows() if row["id_set"] == id_set}
    printed -= {AVERAGE, "test"}
    both = tuple(name for name in ood_sets if canonical(name) in printed)
    return Common(both, of=len(printed))


def ablation(model: str, id_set: str) -> dict[str, dict[str, float]]:
    """Return {"standard" | "cw" | "cm": {"accuracy", "auroc"}} of the paper; {} if it has none.

    >>> ablation("DenseNet-101", "CIFAR-10")["cm"]
    {'accuracy': 0.944, 'auroc': 0.964}
    """
    wanted = {model, model.removesuffix("-101")}  # the ablation's table calls DenseNet-101 DenseNet
    found: dict[str, dict[str, float]] = {}
    for row in _rows():
        if row["table"] == "cosine-ablation" and row["model"] in wanted and row["id_set"] == id_set:
            found.setdefault(ABLATION[row["method"]], {})[row["metric"].lower()] = _share(row)
    return found


def layers(model: str, id_set: str) -> dict[str, dict[str, float]]:
    """Return {layer: {"fpr", "auroc"}}, the paper's averages of CTM by depth; {} if it has none.

    >>> layers("DenseNet-101", "CIFAR-10")["trans2"]
    {'fpr': 0.2591, 'auroc': 0.9224}
    """
    found: dict[str, dict[str, float]] = {}
    for row in _rows():
        if row["table"] == "cifar-layers" and (row["model"], row["id_set"]) == (model, id_set):
            found.setdefault(LAYERS[row["method"]], {})[HEADINGS[row["metric"]]] = _share(row)
    return found


def printed_keys(by: str = PAPER) -> set[tuple[str, str]]:
    """Return every (model, id_set) of a publication's tables, as a suite's [published] has them."""
    names = {"DenseNet": "DenseNet-101"}
    return {(names.get(row["model"], row["model"]), row["id_set"]) for row in _rows(by)}


def _share(row: Mapping[str, str]) -> float:
    # Rounded, so that 94.4 % is 0.944 and not 0.9440000000000001.
    return round(float(row["percent"]) / 100, 6)


@cache
def _rows(by: str = PAPER) -> tuple[dict[str, str], ...]:
    return tuple(csv.DictReader(_text(publications()[by].file).splitlines()))


def _text(name: str) -> str:
    return (files("typica.bench.publications") / name).read_text(encoding="utf-8")
