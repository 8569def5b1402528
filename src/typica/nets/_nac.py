"""LayerNAC: how often known inputs put each neuron in the state it is in, over several layers.

    score(x) = mean over layers l and neurons j of min(O_lj[b(s_lj)] / O, 1)
    s_lj = sigmoid(alpha_l z_lj g_lj),   g_l = d KL(u || p) / d z_l

with z_l what layer l gives, maps and their gradients each averaged over their places, p the softmax
of the logits, u uniform, b(s) the one of M bins between 0 and 1 in which s lies, and O_lj[b] how
many known inputs put neuron j in bin b. Liu, Tian, Li, Ma, Wang: Neuron Activation Coverage:
Rethinking Out-of-distribution Detection and Generalization, ICLR 2024 (NAC-UE); averages over
places and over layers are those of the authors' code. They tune alpha, M and O for each layer on
out-of-distribution images; here alpha_l is one over the median |z_lj g_lj| of known inputs, zeros
left out, so that the states of every layer spread, whatever its scale, and M and O are given. (The
mean, the one other rule that was tried, is far too large: a few inputs have nearly all of the
gradient.) Higher = more typical. Cost: one pass forward and one back, up to the first of the
layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from typica.checks import check_parameters, count
from typica.detectors.nac import places, squashed
from typica.errors import InputError, border
from typica.nets import image_parameters
from typica.nets._given_images import floating, in_batches
from typica.nets._hooks import first_tensor
from typica.nets._reduce import reduced
from typica.nets._torch import Tensor, functional, nn, torch
from typica.nets.extractors.torch import FeatureExtractor
from typica.progress import advance


class LayerNAC:
    """Neuron activation coverage over layers; fit it on known inputs, then score.

    Parameters
    ----------
    model
        A classifier, an `nn.Module`.
    layers
        The dotted names of the modules whose outputs are watched, "penultimate" for the input of
        the head.
    alpha
        Steepness of the states, one for all layers or one for each; None takes it from the first
        500 known inputs, layer by layer.
    bins, enough
        The M and the O of the formula.

    >>> nn = torch.nn
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
    >>> detector = LayerNAC(model, ["0", "1"]).fit(torch.rand(60, 1, 5, 5))
    >>> detector.score_samples(torch.rand(3, 1, 5, 5)).shape
    torch.Size([3])
    """

    params = image_parameters.LAYER_NAC

    @border
    def __init__(
        self,
        model: Any,
        layers: Sequence[str],
        alpha: float | Sequence[float] | None = None,
        bins: int = 50,
        enough: int = 50,
    ) -> None:
        self.alpha = alpha
        self.bins = bins
        self.enough = enough
        check_parameters(self.params, self)
        self.bins, self.enough = int(bins), int(enough)  # not small types of NumPy's
        self.extractor = FeatureExtractor(model, layers=list(layers))
        self.layers = list(self.extractor.layers)
        self.alphas_: list[float] | None = _alphas(alpha, len(self.layers))
        self.counts_: list[Tensor] | None = None

    @border
    def fit(self, images: Any, batch_size: int = 64) -> LayerNAC:
        """Count the states of known inputs (n, c, ...)."""
        count().check("batch_size", batch_size)
        x = floating(self.extractor, images)
        if not len(x):
            raise InputError("no known inputs; pass some to count the states of.")
        self.alphas_ = _alphas(self.alpha, len(self.layers)) or self._spread(x[:FIRST], batch_size)
        counts: list[Any] = [0] * len(self.layers)
        for batch in in_batches(x, batch_size):
            for i, found in enumerate(self._places(batch)):
                size = found.shape[1] * self.bins
                counts[i] = counts[i] + torch.bincount(found.flatten(), minlength=size)
            advance(len(batch))
        self.counts_ = counts
        return self

    @border
    def layer_scores(self, images: Any, batch_size: int = 64) -> Tensor:
        """Return the coverage of each layer (n, layers)."""
        count().check("batch_size", batch_size)
        if self.counts_ is None:
            raise InputError("this LayerNAC is not fitted yet; call fit with known inputs first.")
        covered = [counts.clamp(max=self.enough).double() for counts in self.counts_]
        parts = []
        for batch in in_batches(floating(self.extractor, images), batch_size):
            columns = []
            for table, found in zip(covered, self._places(batch), strict=True):
                columns.append(table[found].mean(dim=1) / self.enough)
            parts.append(torch.stack(columns, dim=1))
            advance(len(batch))
        return torch.cat(parts)

    @border
    def score_samples(self, images: Any, batch_size: int = 64) -> Tensor:
        """Return the scores (n,) of inputs (n, c, ...), batch by batch."""
        return self.layer_scores(images, batch_size).mean(dim=1)

    # How it is done

    def _places(self, x: Tensor) -> list[Tensor]:
        """Return for each layer where the states of a batch are counted, (n, m)."""
        products = self._products(x)
        found = []
        for product, alpha in zip(products, self.alphas_ or (), strict=True):
            found.append(places(squashed(product, alpha), self.bins))
        return found

    def _spread(self, x: Tensor, batch_size: int) -> list[float]:
        """Return one over the median size of each layer's products; 1 where they are all 0."""
        parts = [self._products(batch) for batch in in_batches(x, batch_size)]
        steepness = []
        for layer in zip(*parts, strict=True):
            sizes = torch.cat(layer).abs()
            sizes = sizes[sizes > 0]
            steepness.append(1 / float(sizes.median()) if len(sizes) else 1.0)
        return steepness

    def _products(self, x: Tensor) -> list[Tensor]:
        """Return z_j g_j of each layer (n, m) for a batch."""
        if not self.extractor.traced:
            self.extractor(x[:1])  # tells which module is the head
        outputs: dict[str, Tensor] = {}
        with torch.inference_mode(False), ExitStack() as stack:
            for name in self.layers:
                stack.callback(self._watched(name, outputs).remove)
            inputs = x.detach().clone().requires_grad_(True)
            logits = self.extractor(inputs, gradients=True).logits
            if logits is None:
                raise InputError("the model gives no logits; pass a classifier.")
            # KL(u || p) but for a constant, which has no gradient.
            divergence = -functional.log_softmax(logits, dim=1).mean(dim=1).sum()
            kept = [outputs[name] for name in self.layers]
            gradients = torch.autograd.grad(divergence, kept, allow_unused=True)
        products = []
        for name, z, g in zip(self.layers, kept, gradients, strict=True):
            if g is None:
                raise InputError(f"the logits do not depend on layer {name!r}; leave it out.")
            products.append(reduced(z.detach(), "mean") * reduced(g, "mean"))
        return products

    def _watched(self, name: str, outputs: dict[str, Tensor]) -> Any:
        """Keep what a layer gives in a pass, until the handle that is returned is removed."""
        if not self.extractor.is_head_input(name):
            module = self.extractor.model.get_submodule(name)
            return module.register_forward_hook(_keeping(outputs, name))

        def hook(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            outputs[name] = inputs[0]
            return (inputs[0].clone(), *inputs[1:])

        return self.extractor.head_module.register_forward_pre_hook(hook)


FIRST = 500  # known inputs that tell how large the products of a layer are


def _keeping(outputs: dict[str, Tensor], name: str) -> Callable[..., Any]:
    """Return a hook that keeps what a module gives, and passes a copy on: later ones may write."""

    def hook(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        tensor = first_tensor(output)
        outputs[name] = tensor
        return tensor.clone() if tensor is output else output

    return hook


def _alphas(alpha: Any, layers: int) -> list[float] | None:
    """Return one steepness per layer; None where known inputs are to tell."""
    if alpha is None:
        return None
    several = list(alpha) if image_parameters.is_list(alpha) else [alpha] * layers
    if len(several) != layers:
        raise InputError(
            f"alpha={alpha!r} for {layers} layers; pass a positive number, or one for each."
        )
    return [float(a) for a in several]
