"""The numbers that the paper of CTM printed, under the names that Typica uses.

`published.csv` beside this file holds every number of the paper's tables in percent (table, model,
id_set, method, ood_set, metric, percent). Here they are fractions, and methods and OOD sets have
Typica's names.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Numbers = dict[str, dict[str, dict[str, float]]]

METHODS = {
    "MSP": "msp",
    "MaxLogit": "max_logit",
    "Energy": "energy",
    "ODIN": "odin",
    "Mahalanobis": "mahalanobis",
    "KNN": "knn",
    "CTM": "ctm",
}
METRICS = {"FPR95": "fpr", "AUROC": "auroc"}
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
}


def canonical(ood_set: str) -> str:
    """Return Typica's name for an OOD set, whatever its spelling; unknown names in small letters.

    >>> canonical("DTD"), canonical("LSUN_Crop"), canonical("Places"), canonical("My Set")
    ('textures', 'lsun-c', 'places365', 'my set')
    """
    letters = "".join(letter for letter in ood_set.lower() if letter.isalnum())
    return ALIASES.get(letters, ood_set.lower())


def published(model: str, id_set: str) -> Numbers:
    """Return {method: {OOD set or "average": {"fpr", "auroc"}}} as printed, in fractions.

    Empty where the paper printed no such table. MaxLogit has an average alone on the CIFARs.

    >>> published("DenseNet-101", "CIFAR-10")["ctm"]["svhn"]
    {'fpr': 0.0514, 'auroc': 0.9908}
    >>> published("WideResNet-40-2", "CIFAR-10")
    {}
    """
    numbers: Numbers = {}
    for row in _rows():
        if (row["model"], row["id_set"]) == (model, id_set) and row["method"] in METHODS:
            of_method = numbers.setdefault(METHODS[row["method"]], {})
            of_set = of_method.setdefault(canonical(row["ood_set"]), {})
            of_set[METRICS[row["metric"]]] = _share(row)
    return {method: numbers[method] for method in METHODS.values() if method in numbers}


def published_as(model: str, id_set: str, ood_sets: Iterable[str]) -> Numbers:
    """Return `published` with the OOD sets under these names, others left out; "average" stays.

    >>> published_as("DenseNet-101", "CIFAR-10", ["DTD", "mine"])["ctm"].keys()
    dict_keys(['DTD', 'average'])
    """
    names = {name: canonical(name) for name in ood_sets}
    renamed = {}
    for method, by_set in published(model, id_set).items():
        known = {name: by_set[printed] for name, printed in names.items() if printed in by_set}
        renamed[method] = known | {"average": by_set["average"]}
    return renamed


def comparable_average(
    model: str, id_set: str, method: str, ood_sets: Iterable[str]
) -> dict[str, Any]:
    """Return the paper's average over those of `ood_sets` that it printed, and which these are.

    The printed average stands where all printed sets are there; {"sets": []} where none is.

    >>> comparable_average("DenseNet-101", "CIFAR-10", "ctm", ["svhn", "dtd", "mine"])["sets"]
    ['svhn', 'dtd']
    """
    by_set = dict(published(model, id_set).get(method, {}))
    average = by_set.pop("average", None)
    printed = by_set or dict.fromkeys(_sets(model, id_set))
    common = [name for name in ood_sets if canonical(name) in printed]
    if average is not None and {canonical(name) for name in common} == set(printed):
        return {"sets": common, **average}
    if not common or not by_set:
        return {"sets": []}
    means: dict[str, Any] = {"sets": common}
    for metric in METRICS.values():
        values = [by_set[canonical(name)][metric] for name in common]
        means[metric] = sum(values) / len(values)
    return means


def common_sets(id_set: str, ood_sets: Iterable[str]) -> dict[str, Any]:
    """Return which of `ood_sets` the paper has for an ID set, whatever the model, and of how many.

    >>> common_sets("CIFAR-10", ["svhn", "dtd", "mine"])
    {'sets': ['svhn', 'dtd'], 'of': 6}
    """
    printed = {canonical(row["ood_set"]) for row in _rows() if row["id_set"] == id_set}
    printed -= {"average", "test"}
    return {"sets": [name for name in ood_sets if canonical(name) in printed], "of": len(printed)}


def ablation(model: str, id_set: str) -> dict[str, dict[str, float]]:
    """Return {"standard" | "cw" | "cm": {"accuracy", "auroc"}} as printed; {} where nothing is.

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
    """Return {layer: {"fpr", "auroc"}}, CTM's printed averages by depth; {} where nothing is.

    >>> layers("DenseNet-101", "CIFAR-10")["trans2"]
    {'fpr': 0.2591, 'auroc': 0.9224}
    """
    found: dict[str, dict[str, float]] = {}
    for row in _rows():
        if row["table"] == "cifar-layers" and (row["model"], row["id_set"]) == (model, id_set):
            found.setdefault(LAYERS[row["method"]], {})[METRICS[row["metric"]]] = _share(row)
    return found


def printed_keys() -> set[tuple[str, str]]:
    """Return every (model, id_set) of the paper's tables, as a suite's [published] names them."""
    names = {"DenseNet": "DenseNet-101"}
    return {(names.get(row["model"], row["model"]), row["id_set"]) for row in _rows()}


def _sets(model: str, id_set: str) -> list[str]:
    """Return the OOD sets over which the paper averaged."""
    by_method: Iterable[Mapping[str, Any]] = published(model, id_set).values()
    return sorted({name for by_set in by_method for name in by_set} - {"average"})


def _share(row: Mapping[str, str]) -> float:
    # Rounded, so that 94.4 % is 0.944 and not 0.9440000000000001.
    return round(float(row["percent"]) / 100, 6)


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = (files(__package__) / "published.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))
