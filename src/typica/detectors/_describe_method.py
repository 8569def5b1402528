"""What a person wants to know about a method before using it."""

from __future__ import annotations

from typing import Any

from typica.detectors.base import Detector
from typica.tags import Tags


def describe_class(cls: type[Detector]) -> dict[str, Any]:
    """Return what a detector needs, can do and costs, as JSON values."""
    tags = cls.tags
    params = cls().get_params(deep=False)
    if "head" in params:
        params["head"] = None
    return {
        "needs": _needs(tags),
        "uses_labels": tags.uses_labels,
        "mergeable": tags.mergeable,
        "differentiable": tags.differentiable,
        "saveable": tags.saveable,
        "params": params,
        "score_cost": tags.score_cost,
        "summary": (cls.__doc__ or "").strip().partition("\n")[0],
    }


def _needs(tags: Tags) -> list[str]:
    """Return what a detector is given beside or instead of features."""
    needs = []
    if tags.reads == "logits":
        needs.append("logits or head")
    elif tags.needs_head:
        needs.append("head")
    elif tags.uses_head:
        needs.append("(head)")
    if tags.uses_labels:
        needs.append("labels" if tags.needs_labels else "(labels)")
    return needs or ["features"]
