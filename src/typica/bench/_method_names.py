"""Which methods are meant: all, those of the CTM paper, or some by their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from typica.bench._schema import IMAGE_METHODS, Params, is_known
from typica.bench._suite import Suite
from typica.detectors import Detector, detector_class, list_detectors, takes_head, wants_head
from typica.errors import InputError, argument, border
from typica.head import Head, head_to_pass
from typica.progress import note

# The methods of the CTM paper's tables, and those of them that are detectors of features.
PAPER_METHODS: Final = ("msp", "max_logit", "energy", "odin", "mahalanobis", "knn", "cw", "ctm")
PAPER: Final = tuple(name for name in PAPER_METHODS if name not in IMAGE_METHODS)


def bench_methods_of_features() -> list[str]:
    """Return the methods that a bench of features runs: all but those that read several layers.

    >>> "ctm" in bench_methods_of_features(), "layer_ensemble" in bench_methods_of_features()
    (True, False)
    """
    return [name for name in list_detectors() if detector_class(name).tags.reads != "layers"]


@border
def make_detectors(
    names: Iterable[str] | None = None, head: Head | None = None
) -> dict[str, Detector]:
    """Make the detectors to compare by their names (all if None), with the head where they use it.

    >>> import numpy as np
    >>> list(make_detectors(["ctm", "msp"], Head(np.eye(2))))
    ['ctm', 'msp']
    """
    if isinstance(names, str):
        raise InputError(f"names={names!r} is one text; pass a list of names, [{names!r}].")
    made = {}
    for name in bench_methods_of_features() if names is None else names:
        detector = detector_class(name)()
        made[detector.kind] = detector.set_params(head=head) if takes_head(detector) else detector
    return made


def detectors_for(
    names: Iterable[str] | None, head: Head | None, reason: str
) -> dict[str, Detector]:
    """Make the detectors to compare, without those that lack a head; say which these are and why.

    Without a head they would treat features as logits.
    """
    made = make_detectors(names, head)
    if head is not None:
        return made
    headless = [name for name, detector in made.items() if wants_head(detector)]
    if headless:
        note(f"left out, as {reason}: {', '.join(headless)}")
    if len(headless) == len(made):
        raise InputError(f"no detector is left; pass {head_to_pass()}, or name others.")
    return {name: detector for name, detector in made.items() if name not in headless}


@border
def named_methods(suite: Suite, wanted: str | None) -> dict[str, Params]:
    """Return the methods to run with their parameters.

    wanted: None for the suite's own, "all", "paper", or names separated by commas. Rectifiers come
    before a detector, joined by +.

    >>> from typica.bench import load_suite
    >>> named_methods(load_suite("cifar100-densenet"), "ctm,knn")
    {'ctm': {}, 'knn': {'k': 200}}
    """
    if wanted is None:
        return dict(suite.methods)
    known = [*list_detectors(), *IMAGE_METHODS]
    typed = [name.strip().lower().replace("-", "_") for name in wanted.split(",")]
    names = {"all": known, "paper": PAPER_METHODS}.get(wanted, typed)
    unknown = [repr(name) for name in names if not is_known(name)]
    if unknown:
        choices = ", ".join(sorted(known))
        raise InputError(
            f"{argument('methods')}: {', '.join(unknown)} unknown; choose from {choices}."
        )
    return {name: suite.methods.get(name, {}) for name in names}


@border
def adapted(suite: Suite, *, seed: int | None = None, methods: str | None = None) -> Suite:
    """Return the suite with another seed, and with the methods that `named_methods` finds."""
    if seed is not None:
        suite = replace(suite, protocol=replace(suite.protocol, seed=seed))
    return replace(suite, methods=named_methods(suite, methods))


def named_detectors(names: str | Iterable[str]) -> Iterable[str]:
    """Return the detectors that are meant by names, or by "all", "paper", or names with commas.

    >>> named_detectors("ctm, msp"), "knn" in named_detectors("paper")
    (['ctm', 'msp'], True)
    """
    if not isinstance(names, str):
        return names
    if names == "all":
        return bench_methods_of_features()
    if names == "paper":
        return PAPER
    return [name.strip() for name in names.split(",")]
