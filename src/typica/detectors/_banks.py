"""A bank in place of an array, known by what it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard, runtime_checkable

import array_api_compat

from typica.arrays import AnyArray
from typica.errors import InputError, argument, by_caller
from typica.labels import class_names
from typica.origin import Origin


@runtime_checkable
class FeatureBank(Protocol):
    """What a detector accepts as a bank: the features of a data set, and what is known about it."""

    @property
    def features(self) -> AnyArray:
        """The features that a detector learns."""

    @property
    def logits(self) -> AnyArray | None:
        """The logits, for a detector that reads them."""

    @property
    def labels(self) -> AnyArray | None:
        """The labels that a detector learns by."""

    @property
    def classes(self) -> list[str] | None: ...
    @property
    def origin(self) -> Origin | None: ...


@dataclass(frozen=True)
class KnownRows:
    """A `FeatureBank` of rows in memory, with their labels and names."""

    features: AnyArray
    labels: AnyArray | None = None
    names: Sequence[str] | None = None
    origin: Origin | None = None
    classes: list[str] | None = None

    @property
    def logits(self) -> AnyArray:
        """The rows: where a detector reads logits, that is what they are."""
        return self.features


def is_bank(X: object) -> TypeGuard[FeatureBank]:
    """Tell a bank from an array, and fast: asking a protocol takes as long as scoring a row."""
    return not array_api_compat.is_array_api_obj(X) and isinstance(X, FeatureBank)


def bank_rows(bank: FeatureBank, wants_logits: bool) -> AnyArray:
    """Return the rows that a detector reads from a bank."""
    if not wants_logits:
        return bank.features
    if bank.logits is None:
        head = by_caller("head=bank.head", argument("head", "FILE"))
        raise InputError(f"the bank has no logits; pass {head}, or logits.")
    return bank.logits


def bank_labels(bank: FeatureBank) -> AnyArray | None:
    """Return the labels of a bank, by the names of its classes where it has any."""
    if bank.labels is None:
        return None
    return class_names(bank.labels, bank.classes)
