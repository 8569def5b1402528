"""A detector per layer on inputs that each layer's own step has moved, and inputs that mislead.

    x_l = x + epsilon * g_l / std,   g_l = +1 where d S_l(x) / d x > 0, else -1
    score(x) = what the ensemble makes of S_1(x_1) ... S_L(x_L)

Lee, Lee, Lee, Shin: A Simple Unified Framework for Detecting Out-of-Distribution Samples and
Adversarial Attacks, NeurIPS 2018, with Mahalanobis on each layer. The weights of the layers, and
the step, are learnt from known images and from copies of these that mislead the network a little
(Goodfellow, Shlens, Szegedy: Explaining and Harnessing Adversarial Examples, ICLR 2015): no
out-of-distribution data. Cost a batch: L + 1 passes forward, L back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import to_numpy
from typica.checks import Parameter, check_parameters, check_values, count
from typica.detectors import LayerEnsemble, logistic_weights
from typica.errors import InputError, border, counted
from typica.metrics import evaluate
from typica.nets import image_parameters
from typica.nets._extracted_batch import Extraction
from typica.nets._given_images import floating, in_batches
from typica.nets._perturb import scaled
from typica.nets._torch import Tensor, functional, torch
from typica.nets.extractors.torch import FeatureExtractor, as_extractor
from typica.progress import advance

Floats = NDArray[np.float64]
STEPS = (0.0, 0.0005, 0.001, 0.0014, 0.002, 0.005, 0.01)  # those that Lee et al. choose from
MISLEADING = 0.05


@border
def mislead(
    extractor: FeatureExtractor | Any,
    images: Any,
    labels: Any = None,
    *,
    epsilon: float = MISLEADING,
    std: Any = 1.0,
    batch_size: int = 64,
) -> Tensor:
    """Return images moved by one step along the sign of the gradient of the cross-entropy.

    Parameters
    ----------
    extractor
        A FeatureExtractor, or a model; it must give logits.
    images
        A batch (n, c, ...), as the model takes it.
    labels
        The positions of their classes among the logits; None takes what the network predicts.
    epsilon, std
        The step, as for `Perturb`.
    batch_size
        Images at once.

    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> with torch.no_grad():
    ...     _ = model.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> mislead(model, torch.tensor([[3.0, 1.0]]), epsilon=0.5)
    tensor([[2.5000, 1.5000]])
    """
    check_values(image_parameters.PERTURB, {"epsilon": epsilon, "std": std})
    count().check("batch_size", batch_size)
    size = int(batch_size)  # not a small type of NumPy's, which overflows
    network = as_extractor(extractor)
    x = floating(network, images)
    if not len(x):
        raise InputError("no images; pass some.")
    targets = None if labels is None else _targets(labels, x)
    moved = []
    with torch.inference_mode(False):
        for start in range(0, len(x), size):
            part = x[start : start + size].detach().clone().requires_grad_(True)
            logits = network(part, gradients=True).logits
            if logits is None:
                raise InputError("the model gives no logits; name its head.")
            wanted = logits.detach().argmax(1)
            if targets is not None:
                wanted = targets[start : start + size]
                _check_classes(wanted, logits.shape[1])
            loss = functional.cross_entropy(logits, wanted, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, part)
            step = epsilon * torch.sign(gradient) / scaled(std, part)
            moved.append(part.detach() + step)
            advance(len(part))
    return torch.cat(moved)


def _targets(labels: Any, x: Tensor) -> Tensor:
    """Return the classes of images as whole numbers, where the images are."""
    given = to_numpy(labels)
    if given.dtype.kind not in "iu":
        raise InputError(
            f"labels of type {given.dtype}; pass the positions of the classes among the logits."
        )
    if given.shape != x.shape[:1]:
        raise InputError(
            f"labels of shape {given.shape} for {counted(len(x), 'image')}; "
            "pass one label per image."
        )
    return torch.from_numpy(given.astype(np.int64)).to(x.device)


def _check_classes(labels: Tensor, logits: int) -> None:
    if labels.min() < 0 or labels.max() >= logits:
        raise InputError(
            f"labels from {int(labels.min())} to {int(labels.max())} for {logits} logits; "
            f"pass positions among them, 0 to {logits - 1}."
        )


class LayerPerturb:
    """Moves inputs by a step for each layer of a LayerEnsemble, and scores the moved inputs.

        ensemble = LayerEnsemble(combine="linear").fit(bank)
        detector = LayerPerturb(model, ensemble, std=transform.std).learn(held_out, labels)
        detector.score_samples(images)

    Parameters
    ----------
    extractor
        A model, or a FeatureExtractor of the ensemble's layers.
    ensemble
        Fitted on features of these layers.
    epsilon, std
        The step, as for `Perturb`; 0 moves nothing.
    """

    params: ClassVar[Mapping[str, Parameter]] = image_parameters.PERTURB

    @border
    def __init__(
        self,
        extractor: FeatureExtractor | Any,
        ensemble: LayerEnsemble,
        epsilon: float = 0.0,
        std: Any = 1.0,
    ) -> None:
        self.epsilon, self.std = epsilon, std
        check_parameters(self.params, self)
        self.epsilon = float(epsilon)  # not a small type of NumPy's, which overflows
        if not isinstance(ensemble, LayerEnsemble) or not hasattr(ensemble, "layers_"):
            raise InputError("ensemble is not a fitted LayerEnsemble; fit one on a bank's layers.")
        if not isinstance(extractor, FeatureExtractor):
            extractor = FeatureExtractor(extractor, layers=ensemble.layers_)
        if absent := [name for name in ensemble.layers_ if name not in extractor.layers]:
            raise InputError(
                f"the extractor gives {', '.join(extractor.layers)}, and not {absent[0]!r}; "
                f"make it with layers={ensemble.layers_}."
            )
        self.extractor = extractor
        self.ensemble = ensemble

    @border
    def member_scores(self, images: Any, batch_size: int = 64) -> Floats:
        """Return the scores (n, layers) of the inputs, each layer's after its own step."""
        return np.asarray(self._at_steps(images, [self.epsilon], batch_size)[0])

    @border
    def score_samples(self, images: Any, batch_size: int = 64) -> Floats:
        """Return the scores (n,), higher = more typical."""
        scores = self._at_steps(images, [self.epsilon], batch_size)[0]
        return np.asarray(self.ensemble.combine_scores(scores))

    @border
    def observe(self, images: Any, batch_size: int = 64) -> Self:
        """Give the ensemble the scores of these known images, moved, to compare with."""
        self.ensemble.observe(self._at_steps(images, [self.epsilon], batch_size)[0])
        return self

    @border
    def learn(
        self,
        images: Any,
        labels: Any = None,
        *,
        steps: Sequence[float] | None = STEPS,
        misleading: float = MISLEADING,
        batch_size: int = 64,
    ) -> Self:
        """Learn the weights of the layers and the step from known images alone.

        The weights separate the images from copies that `mislead` makes. The step that is taken is
        the one whose weights, learnt on every second image, have the lowest FPR95 on the others;
        its weights are then learnt on all images.

        Parameters
        ----------
        images
            Known images (n, c, ...).
        labels
            As `mislead` takes them.
        steps
            Those to choose from; None keeps the step that is set.
        misleading
            The step that `mislead` makes.
        batch_size
            Images at once.
        """
        if self.ensemble.combine != "linear":
            raise InputError(
                f"the ensemble has combine={self.ensemble.combine!r}, which has no weights; "
                "make it with 'linear', or call observe."
            )
        tried = [self.epsilon] if steps is None else list(steps)
        if not tried:
            raise InputError("steps=[]; pass some to choose from, or None to keep the one set.")
        for size in tried:
            self.params["epsilon"].check("epsilon", size)
        tried = [float(size) for size in tried]
        strange = mislead(
            self.extractor,
            images,
            labels,
            epsilon=misleading,
            std=self.std,
            batch_size=batch_size,
        )
        known = self._at_steps(images, tried, batch_size)
        copies = self._at_steps(strange, tried, batch_size)
        best = 0 if steps is None else _best(known, copies)
        self.epsilon = tried[best]
        self.ensemble.observe(known[best])
        self.ensemble.set_weights(logistic_weights(known[best], copies[best]))
        return self

    # How it is done

    def _at_steps(self, images: Any, steps: Sequence[float], batch_size: int) -> Floats:
        """Return the members' scores (steps, n, layers) after each of the steps."""
        count().check("batch_size", batch_size)
        x = floating(self.extractor, images)
        parts = []
        with torch.inference_mode(False):
            for part in in_batches(x, batch_size):
                parts.append(self._batch(part, steps))
                advance(len(part))
        return np.concatenate(parts, axis=1)

    def _batch(self, x: Tensor, steps: Sequence[float]) -> Floats:
        plain, directions = self._directions(x, needed=any(steps))
        found = []
        for step in steps:
            if not step:
                found.append(plain)
                continue
            columns = []
            for i, direction in enumerate(directions):
                moved = x + step * direction / scaled(self.std, x)
                with torch.no_grad():
                    columns.append(self._scores(self.extractor(moved), only=i)[0])
            found.append(torch.stack(columns, dim=1).double().cpu().numpy())
        return np.stack(found)

    def _directions(self, x: Tensor, needed: bool) -> tuple[Floats, list[Tensor]]:
        """Return the scores (n, layers) of a batch, and the sign of each one's gradient."""
        x = x.detach().clone().requires_grad_(needed)
        scores = self._scores(self.extractor(x, gradients=needed))
        directions = []
        for score in scores if needed else []:
            (gradient,) = torch.autograd.grad(score.sum(), x, retain_graph=True)
            directions.append(2 * (gradient > 0).to(x.dtype) - 1)
        table = torch.stack([score.detach() for score in scores], dim=1)
        return table.double().cpu().numpy(), directions

    def _scores(self, extraction: Extraction, only: int | None = None) -> list[Tensor]:
        """Return each member's scores (n,) of a batch, or those of one alone."""
        pairs = list(zip(self.ensemble.layers_, self.ensemble.members_, strict=True))
        if only is not None:
            pairs = pairs[only : only + 1]
        return [member.score_samples(extraction.layers[name]) for name, member in pairs]


def _best(known: Floats, copies: Floats) -> int:
    """Return the step whose weights, learnt on every second row, separate the others best."""
    rates = []
    for one, other in zip(known, copies, strict=True):
        weights = logistic_weights(one[::2], other[::2])
        rates.append(evaluate(one[1::2] @ weights, other[1::2] @ weights).fpr)
    return int(np.argmin(rates))
