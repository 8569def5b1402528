"""Steps on the input that raise the score, for any detector with a gradient.

    x' = x + epsilon * g / std,   g = +1 where d score(x) / d x > 0, else -1

Inputs of known classes gain more from the step than strangers. The step of ODIN (Liang, Li,
Srikant: Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks, ICLR
2018) is the one for MSP at T = 1000: the gradient of the maximum softmax has the opposite sign of
that of the cross-entropy. The step of Lee et al. (A Simple Unified Framework, NeurIPS 2018) is the
one for Mahalanobis. Cost: two passes forward, one back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from typica.checks import Parameter, check_parameters, count
from typica.detectors import final_detector, pipeline_steps, reads_logits
from typica.detectors.msp import MSP
from typica.errors import InputError, border
from typica.nets import image_parameters
from typica.nets._given_images import floating, in_batches
from typica.nets._torch import Tensor, torch
from typica.nets.extractors.torch import FeatureExtractor, as_extractor


class Perturb:
    """Moves inputs along the sign of the score's gradient, and scores the moved inputs.

    Mahalanobis with its step is `Perturb(extractor, Mahalanobis().fit(Z, labels), epsilon=0.005,
    std=std)`.

    Parameters
    ----------
    extractor
        A FeatureExtractor, or a model.
    detector
        Ready to score; a detector of logits without a head reads the model's own logits.
    epsilon
        The step.
    std
        What the step is divided by, one number or one per channel. With 1 the step is taken on the
        network's input as it is, usually normalised; with the std of the preprocessing, epsilon is
        in units of pixels from 0 to 1.

    >>> from typica import MSP
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> with torch.no_grad():
    ...     _ = model.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> Perturb(model, MSP(), epsilon=0.5)(torch.tensor([[3.0, 1.0]]))
    tensor([[3.5000, 0.5000]])
    """

    params: ClassVar[Mapping[str, Parameter]] = image_parameters.PERTURB

    @border
    def __init__(
        self, extractor: FeatureExtractor | Any, detector: Any, epsilon: float, std: Any = 1.0
    ) -> None:
        _check_gradient(detector)
        self.epsilon, self.std = epsilon, std
        check_parameters(self.params, self)
        self.epsilon = float(epsilon)  # not a small type of NumPy's, which overflows
        self.extractor = as_extractor(extractor)
        self.detector = detector
        self._logits = reads_logits(detector)

    @border
    def __call__(self, images: Any) -> Tensor:
        """Return the batch (n, c, ...), moved; on the model's device and in its precision."""
        with torch.inference_mode(False):
            x = floating(self.extractor, images).detach().clone().requires_grad_(True)
            (gradient,) = torch.autograd.grad(self._score(x, gradients=True).sum(), x)
            up = 2 * (gradient > 0).to(x.dtype) - 1
            return x.detach() + self.epsilon * up / scaled(self.std, x)

    @border
    def score_samples(self, images: Any, batch_size: int = 64) -> Tensor:
        """Return the scores (n,) of the moved inputs, batch by batch."""
        count().check("batch_size", batch_size)
        batches = in_batches(floating(self.extractor, images), batch_size)
        return torch.cat([self._score(self(batch), gradients=False) for batch in batches])

    def _score(self, x: Tensor, gradients: bool) -> Tensor:
        extraction = self.extractor(x, gradients=gradients)
        with torch.set_grad_enabled(gradients):
            score = self.detector.score_samples(extraction.read(self._logits))
        if gradients and not getattr(score, "requires_grad", False):
            raise InputError(
                "the score has no gradient with respect to the input; "
                "the model or the detector cuts it."
            )
        return score


def scaled(std: Any, x: Tensor) -> Tensor:
    """Return what a step on the input is divided by, in the form of a batch x (n, c, ...)."""
    made = torch.from_numpy(image_parameters.divisors(std))
    if made.ndim and made.shape != x.shape[1:2]:
        raise InputError(
            f"{len(made)} values of std for inputs of shape {tuple(x.shape)}; "
            "pass one number, or one per channel."
        )
    return made.to(x.device, x.dtype).reshape(-1, *[1] * (x.ndim - 2))


def _check_gradient(detector: Any) -> None:
    final_detector(detector)
    for step in pipeline_steps(detector):
        if step in (None, "passthrough"):
            continue
        tags = getattr(step, "tags", None)
        if tags is None or not tags.differentiable:
            raise InputError(
                f"{type(step).__name__} has no gradient; pass a differentiable detector."
            )


class ODIN(Perturb):
    """ODIN: the maximum softmax probability at temperature T, of inputs moved to raise it.

    The results that papers print for DenseNet on CIFAR-10 and -100, ResNet-50 and MobileNetV2 have
    epsilon 0.018, 0.024, 0.005 and 0.03 with std=1; ODIN's authors have 0.0014 with
    `std=zoo.transform(name).std`.

    Parameters
    ----------
    extractor
        A FeatureExtractor, or a model.
    T
        The temperature.
    epsilon, std
        The step, as for `Perturb`.

    >>> odin = ODIN(torch.nn.Linear(2, 2), std=0.5)
    >>> odin.score_samples(torch.ones(3, 2)).shape
    torch.Size([3])
    """

    params = image_parameters.ODIN

    @border
    def __init__(
        self,
        extractor: FeatureExtractor | Any,
        T: float = image_parameters.ODIN_T,
        epsilon: float = image_parameters.ODIN_EPSILON,
        std: Any = 1.0,
    ) -> None:
        self.T = T
        super().__init__(extractor, MSP(temperature=T), epsilon, std)
