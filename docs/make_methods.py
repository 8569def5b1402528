"""Write docs/methods.md, the overview of all methods, and a page of each in docs/methods/.

Run it after a method was added or changed: python docs/make_methods.py. The words come from the
methods' own files and Tags; formulas, as LaTeX, from docs/formulas.toml; what was measured from
docs/measured.csv, which docs/measure_methods.py writes; what others call a method from
docs/elsewhere.csv; the figures are drawn by docs/make_figures.py.
"""

from __future__ import annotations

import ast
import csv
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from typica.checks import Parameter
from typica.detectors import detector_class, list_detectors
from typica.nets import image_parameters
from typica.rectify import list_rectifiers, rectifier_class

DOCS = Path(__file__).parent
MEASURED = DOCS / "measured.csv"
ELSEWHERE = DOCS / "elsewhere.csv"
NETWORKS = DOCS / "measured_networks.csv"
FORMULAS = DOCS / "formulas.toml"
FIGURES = DOCS / "figures" / "levels"
NETS = DOCS.parent / "src" / "typica" / "nets"
BASELINE = "msp"
BEST = 3  # ranks that count as won
SUITES = {
    "cifar10-densenet": "CIFAR-10, DenseNet-BC-100",
    "clinc150-minilm": "CLINC150 intents, MiniLM",
}
WRITTEN = "<!-- Written by docs/make_methods.py; do not edit. -->"


class Network(NamedTuple):
    """A method over the network: title, module in `typica.nets`, how measured, its parameters."""

    title: str
    module: str
    measured: tuple[str, ...] = ()
    params: Mapping[str, Parameter] = MappingProxyType({})


# Their modules are read and not imported: that would need torch.
OVER_NETWORKS = {
    "perturb": Network("Perturb and ODIN", "_perturb", ("ODIN",), image_parameters.ODIN),
    "adascale": Network(
        "AdaSCALE", "_adascale", ("AdaSCALE a", "AdaSCALE l"), image_parameters.ADASCALE
    ),
    "gram": Network("Gram", "_gram", ("Gram of trans1, trans2, block3",), image_parameters.GRAM),
    "layer_nac": Network(
        "LayerNAC", "_nac", ("NAC of trans1, trans2, block3, bn1",), image_parameters.LAYER_NAC
    ),
    "davis": Network(
        "DAVIS pooling",
        "_reduce",
        ("Energy, DAVIS pooling max", "Energy, DAVIS pooling mean+std", "Energy"),
    ),
    "layer_perturb": Network("LayerPerturb", "_layer_perturb", params=image_parameters.PERTURB),
}

INTRODUCTION = f"""\
{WRITTEN}

# All methods

Detectors give a score, higher = more typical, under one contract: fit, calibrate, score, predict,
explain, save. Rectifiers change features before a detector sees them; scikit-learn's
`make_pipeline` puts the two together.

No method is best everywhere. [Quorum](methods/quorum.md) is the one to take if you do not want to
choose; `typica choose` [ranks them on your own data](choosing.md), without any OOD data.
"""

COSTS = """\
## Cost against quality

![What a row costs every detector, against its mean AUROC](figures/pareto.svg)

Each dot is a detector in `typica compare`, with its defaults, on features of a CIFAR-10 DenseNet:
what a row costs on two cores, and the mean AUROC over SVHN, textures and CIFAR-100. Those on the
orange line are beaten by none that is cheaper. A network takes milliseconds an image: beside it
most detectors cost next to nothing.
"""

GALLERY = """\
## What each looks like

The level sets of every score on three classes in two dimensions. The bold line is the threshold
that keeps 95 % of known inputs: what lies outside is rejected. [How to read them](reading.md).
"""

NEEDS = """\
## What each needs

| word | meaning |
|---|---|
| input | what a row holds; *features or logits*: features with a `Head`, logits with `head=None` |
| labels | *needed*; *used* if given; or no |
| fit | whether it learns from training data; *none* is ready as it is made |
| keeps rows | whether it and its file hold training rows: to compare with, or to go on fitting |
| merges | whether `partial_fit` and `merge` give what one `fit` on all the data gives |
| gradient | whether torch's gradients of the score with respect to the input are of use |
| saves | whether `save` writes it to a file; the others need pickle, which Typica does not use |
| n, m, C, N | rows to score, features, classes, training rows; costs of scoring are for one row |
"""

MEASUREMENTS = """\
## Measured here

AUROC / FPR95 in percent, all with their defaults and none tuned: penultimate features of the
paper's CIFAR-10 DenseNet-BC-100 (50,000 training rows, SVHN, ten categories of textures, CIFAR-100)
and sentence embeddings of CLINC150 (15,000 rows, 150 intents, 1,000 sentences out of scope). By the
mean over the three image sets. Two suites say where a method is worth trying, not which is best.
Rectifiers stand before Energy unless their page says otherwise.
"""

NAMES = """\
## What OpenOOD and pytorch-ood call it

Every postprocessor of OpenOOD v1.5 and every detector of pytorch-ood, and where it is here. `nets`
needs the network itself.
"""

OVER = """\
## Over the network

What needs more than features of the last layer is in `typica.nets`, and takes a PyTorch model.
"""

OVER_MEASURED = """\
Measured on the first images of CIFAR-10's test set, SVHN and textures (too few for the second digit
of the figures), with the paper's CIFAR-10 DenseNet-BC-100; what is fitted saw as many training
images. AUROC / FPR95 in percent:
"""

LEVELS = """\
The level sets of {name}{how} on three classes in two dimensions. The bold line is the threshold
that keeps 95 % of known inputs; the others keep 50, 80 and 99 %. [How to read it](../reading.md).
"""


def main() -> None:
    """Write all pages, and remove those of methods that are gone."""
    made = pages()
    for path in (DOCS / "methods").glob("*.md"):
        if f"methods/{path.name}" not in made:
            path.unlink()
    for name, text in made.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(
        f"{len(made)} pages: {len(list_detectors())} detectors, {len(list_rectifiers())} rectifiers"
    )


def pages() -> dict[str, str]:
    """Return the overview and every method's page as Markdown, by their place in docs/."""
    figures = read_lines(MEASURED)
    formulas = read_formulas()
    made = {"methods.md": overview(figures)}
    for cls in [*detectors(), *rectifiers()]:
        made[_place(cls)] = method_page(cls, figures, formulas.get(cls.kind, []))
    for kind, network in OVER_NETWORKS.items():
        made[f"methods/{kind}.md"] = network_page(network, formulas.get(kind, []))
    return made


def detectors() -> list[Any]:
    """Return the classes of the detectors that come with Typica, by name."""
    return [detector_class(name) for name in list_detectors()]


def rectifiers() -> list[Any]:
    """Return the classes of the rectifiers, by name."""
    return [rectifier_class(name) for name in list_rectifiers()]


def read_lines(path: Path) -> list[dict[str, str]]:
    """Return the lines of a table, by the names of its columns."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_formulas() -> dict[str, list[str]]:
    """Return the formulas of each method as LaTeX, one for each block of its docstring."""
    table = tomllib.loads(FORMULAS.read_text(encoding="utf-8"))
    return {kind: [block["tex"].strip() for block in entry] for kind, entry in table.items()}


# The overview


def overview(figures: list[dict[str, str]]) -> str:
    """Return the page of all methods."""
    everything = [*detectors(), *rectifiers()]
    parts = [INTRODUCTION, COSTS, GALLERY, _gallery(everything), NEEDS]
    for title, classes in (("Detectors", detectors()), ("Rectifiers", rectifiers())):
        parts += [f"### {title}\n", _needs(classes), _costs(classes)]
    parts += [MEASUREMENTS, _measured(figures, everything)]
    parts += [OVER, _networks_list(), OVER_MEASURED, _networks(read_lines(NETWORKS))]
    parts += [NAMES, _elsewhere()]
    return "\n".join(parts)


def _gallery(classes: list[Any]) -> str:
    """Return small figures that lead to the methods' pages; those that have none are left out."""
    lines = ['<div class="gallery" markdown>\n']
    for cls in classes:
        if (FIGURES / f"{cls.kind}.svg").exists():
            image = f"![Level sets of {cls.__name__}](figures/levels/{cls.kind}.svg)"
            lines.append(f"[{image}<br>{cls.__name__}]({_place(cls)})\n")
    return "\n".join([*lines, "</div>\n"])


def _needs(classes: list[Any]) -> str:
    titles = ("method", *(name for name, _ in _wants(classes[0])))
    rows = [(_link(cls), *dict(_wants(cls)).values()) for cls in classes]
    return _table(titles, rows)


def _wants(cls: Any) -> Iterator[tuple[str, str]]:
    """Yield what a method needs and can do, with the words of the overview."""
    tags = cls.tags
    labels = "used" if tags.uses_labels else "no"
    yield "input", _input(tags)
    yield "labels", "needed" if tags.needs_labels else labels
    yield "fit", "yes" if tags.needs_fit else "none"
    yield "keeps rows", _mark(tags.keeps_rows)
    yield "merges", _mark(tags.mergeable)
    yield "gradient", _mark(tags.differentiable)
    yield "saves", _mark(tags.saveable)


def _costs(classes: list[Any]) -> str:
    rows = [
        (_link(cls), cls.tags.fit_cost, cls.tags.score_cost, cls.tags.memory, cls.tags.reference)
        for cls in classes
    ]
    return _table(("method", "fit", "a row", "memory", "reference"), rows)


def _measured(figures: list[dict[str, str]], classes: list[Any]) -> str:
    """Return one row per method, one column per set."""
    links = {cls.kind: _link(cls) for cls in classes}
    columns = list(dict.fromkeys((line["suite"], line["set"]) for line in figures))
    columns = [key for key in columns if key != ("clinc150-minilm", "mean")]
    columns.sort(key=lambda key: (key[0], key[1] == "mean"))
    cells: dict[str, dict[tuple[str, str], str]] = {}
    for line in figures:
        cell = f"{line['auroc']} / {line['fpr95']}"
        cells.setdefault(line["method"], {})[line["suite"], line["set"]] = cell
    first = ("cifar10-densenet", "mean")
    order = sorted(cells, key=lambda name: float(cells[name][first].split()[0]), reverse=True)
    rows = [(links[name], *(cells[name].get(key, "") for key in columns)) for name in order]
    return _table(("method", *(key[1] for key in columns)), rows)


def _networks_list() -> str:
    lines = []
    for kind, network in OVER_NETWORKS.items():
        first = _paragraphs(_module_text(network))[0]
        lines.append(f"- [{network.title}](methods/{kind}.md): {first.split(': ', 1)[-1]}")
    return "\n".join(lines) + "\n"


def _networks(lines: list[dict[str, str]]) -> str:
    """Return one row per method that needs the network itself."""
    rows: dict[str, list[str]] = {}
    sets: dict[str, None] = {}
    for line in lines:
        sets[f"{line['set']} ({line['images']} images)"] = None
        rows.setdefault(line["method"], []).append(f"{line['auroc']} / {line['fpr95']}")
    return _table(("method", *sets), [(name, *cells) for name, cells in rows.items()])


def _elsewhere() -> str:
    """Return what others call the methods that are here, and why the others are not."""
    found, absent = [], []
    for line in read_lines(ELSEWHERE):
        if line["here"]:
            found.append((line["openood"], line["pytorch_ood"], line["here"]))
        else:
            absent.append((line["openood"], line["pytorch_ood"], line["why"]))
    first = _table(("OpenOOD", "pytorch-ood", "here"), found)
    second = _table(("OpenOOD", "pytorch-ood", "why not"), absent)
    return f"{first}\nLeft out:\n\n{second}"


# A method's page


def method_page(cls: Any, figures: list[dict[str, str]], formulas: list[str]) -> str:
    """Return the page of one detector or rectifier."""
    group = "Detectors" if hasattr(cls, "score_samples") else "Rectifiers"
    text = inspect.getdoc(sys.modules[cls.__module__]) or ""
    own = [line for line in figures if line["method"] == cls.kind and line["set"] != "mean"]
    parts = [f"{WRITTEN}\n<!-- group: {group} -->\n", f"# {cls.__name__}\n"]
    said, more = _halves(text)
    parts += [typeset(said, formulas) + "\n", *_figure(cls, own)]
    if more:
        parts.append(typeset(more, []) + "\n")
    parts += ["## Use\n", _use(cls)]
    parts += [*_parameters(cls), "## Needs and costs\n", _facts(cls)]
    if own:
        parts += ["## When it works, and when not\n", _findings(own, figures)]
    return "\n".join(parts)


def _halves(text: str) -> tuple[str, str]:
    """Return a docstring up to what its last formula is followed by, and the rest."""
    paragraphs = _paragraphs(text)
    formulas = [i for i, paragraph in enumerate(paragraphs) if is_formula(paragraph)]
    first = max(formulas, default=0) + 2
    return "\n\n".join(paragraphs[:first]), "\n\n".join(paragraphs[first:])


def network_page(network: Network, formulas: list[str]) -> str:
    """Return the page of a method that needs the network."""
    parts = [f"{WRITTEN}\n<!-- group: Over the network -->\n", f"# {network.title}\n"]
    parts.append(typeset(_module_text(network), formulas) + "\n")
    lines = [line for line in read_lines(NETWORKS) if line["method"] in network.measured]
    if lines:
        parts += ["## When it works, and when not\n", OVER_MEASURED, _networks(lines)]
    if network.params:
        rows = [(f"`{name}`", parameter.describe()) for name, parameter in network.params.items()]
        parts += ["## Parameters\n", _table(("parameter", "may be"), rows)]
    return "\n".join(parts)


def typeset(text: str, formulas: list[str]) -> str:
    """Return a docstring with LaTeX in place of its formulas; one without LaTeX stays as it is."""
    left = list(formulas)
    parts = []
    for paragraph in _paragraphs(text):
        if not is_formula(paragraph):
            parts.append(_with_symbols(paragraph))
        elif left:
            parts.append(f"$$\n{left.pop(0)}\n$$")
        else:
            parts.append(paragraph)
    return "\n\n".join(parts)


def _with_symbols(text: str) -> str:
    """Return a paragraph with its symbols typeset, but for what stands in code.

    >>> _with_symbols("with mu_k the mean of class k, and `mu_k` in code")
    'with $\\\\mu_k$ the mean of class k, and `mu_k` in code'
    """
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = [SYMBOL.sub(_symbol, piece) for piece in pieces[::2]]
    return "".join(pieces)


GREEK = "mu|sigma|theta|lambda|delta|beta|pi"
SYMBOL = re.compile(rf"\b(?:({GREEK}|[A-Za-z])_([a-z]{{1,2}}|\d)|(mu|sigma|theta))\b")


def _symbol(found: re.Match[str]) -> str:
    name = found[3] or found[1]
    base = f"\\{name}" if len(name) > 1 else name
    if found[3]:
        return f"${base}$"
    index = found[2] if len(found[2]) == 1 else f"{{{found[2]}}}"
    return f"${base}_{index}$"


def formulas_of(text: str) -> list[str]:
    """Return the formulas of a docstring, as they stand there."""
    return [paragraph for paragraph in _paragraphs(text) if is_formula(paragraph)]


def is_formula(paragraph: str) -> bool:
    """Tell whether a paragraph of a docstring is set off as a formula."""
    return all(line.startswith("    ") for line in paragraph.splitlines())


def _paragraphs(text: str) -> list[str]:
    return re.split(r"\n\s*\n", text.strip("\n"))


def _module_text(network: Network) -> str:
    source = (NETS / f"{network.module}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)) or ""


def _figure(cls: Any, own: list[dict[str, str]]) -> Iterator[str]:
    if (FIGURES / f"{cls.kind}.svg").exists():
        how = f", {own[0]['as']}," if own and own[0]["as"].startswith("before") else ""
        yield f"![Level sets of {cls.__name__}](../figures/levels/{cls.kind}.svg)\n"
        yield LEVELS.format(name=cls.__name__, how=how)


def _use(cls: Any) -> str:
    """Return lines that run as they stand."""
    call, imports = _call(cls)
    fit = f"detector = {call}.fit(suite.train, suite.train_labels)"
    lines = [*imports, "from typica.bench import digits", "", "suite = digits.load()"]
    if "head" in call:
        lines.append("head = typica.Head(suite.head_weight, suite.head_bias, suite.classes)")
    if "make_pipeline" in call:
        lines += [fit, "typica.calibrate(detector, suite.calibration, alpha=0.05)"]
        lines.append('typica.judge(detector, suite.ood["photos"])')
    else:
        lines += [fit, "detector.calibrate(suite.calibration, alpha=0.05)"]
        lines.append('detector.judge(suite.ood["photos"])')
    return "```python\n" + "\n".join(lines) + "\n```\n"


# Where the defaults need more than a head.
CALLS = {
    "ensemble": "typica.Ensemble([typica.CTM(), typica.KNN(), typica.Energy(head)])",
    "centre": "make_pipeline(typica.Centre(), typica.CTM())",
    "dice": "make_pipeline(typica.DICE(head), typica.Energy())",
    "normalise": "make_pipeline(typica.L2Normalise(), typica.PCAReconstruction())",
    "optfs": "make_pipeline(typica.OptFS(head), typica.Energy(head))",
    "pca": "make_pipeline(typica.PCA(n_components=0.9), typica.CTM())",
    "random_fourier": (
        "make_pipeline(typica.RandomFourier(), typica.PCAReconstruction(share=0.8))"
    ),
    "whiten": "make_pipeline(typica.Whiten(within_classes=True), typica.CTM())",
}


def _call(cls: Any) -> tuple[str, list[str]]:
    """Return how a method is made, and the imports that it takes."""
    call = CALLS.get(cls.kind)
    if call is None and not hasattr(cls, "score_samples"):
        call = f"make_pipeline(typica.{cls.__name__}(), typica.Energy(head))"
    if call is None:
        wants = cls.tags.needs_head or cls.tags.uses_head or cls.tags.reads == "logits"
        call = f"typica.{cls.__name__}({'head' if wants else ''})"
    imports = ["import typica"]
    if "make_pipeline" in call:
        imports.insert(0, "from sklearn.pipeline import make_pipeline\n")
    return call, imports


def _parameters(cls: Any) -> Iterator[str]:
    defaults = {p.name: p.default for p in inspect.signature(cls).parameters.values()}
    call = ", ".join(f"{name}={default!r}" for name, default in defaults.items())
    yield "## Parameters\n"
    yield f"`{cls.__name__}({call})`, by name `{cls.kind}`\n"
    # What the head may be is told once, in the overview.
    rows = [
        (f"`{name}`", f"`{defaults[name]!r}`", parameter.describe())
        for name, parameter in cls.params.items()
        if name != "head"
    ]
    if rows:
        yield _table(("parameter", "default", "may be"), rows)


def _facts(cls: Any) -> str:
    tags = cls.tags
    rows = [*_wants(cls), ("fit costs", tags.fit_cost), ("a row costs", tags.score_cost)]
    rows += [("memory", tags.memory), ("reference", tags.reference)]
    return _table(("", ""), rows)


class Place(NamedTuple):
    """How a method did on one set."""

    line: dict[str, str]
    rank: int
    of: int
    best: float
    baseline: float


def _findings(own: list[dict[str, str]], figures: list[dict[str, str]]) -> str:
    """Return what was measured of one method, set by set, and where it won and failed."""
    places = [_standing(line, figures) for line in own]
    how = own[0]["as"]
    rows = [
        (
            SUITES.get(place.line["suite"], place.line["suite"]),
            place.line["set"],
            place.line["auroc"],
            place.line["fpr95"],
            f"{place.rank} of {place.of}",
            f"{place.best:.2f}",
            f"{place.baseline:.2f}",
        )
        for place in places
    ]
    titles = ("features", "strangers", "AUROC ↑", "FPR95 ↓", "rank", "best AUROC", "MSP's")
    said = f"Measured here, AUROC / FPR95 in percent{', ' + how if how else ''}, with defaults.\n"
    return "\n".join([said, _table(titles, rows), _conclusion(places)])


def _standing(line: dict[str, str], figures: list[dict[str, str]]) -> Place:
    key = line["suite"], line["set"]
    others = [other for other in figures if (other["suite"], other["set"]) == key]
    aurocs = {other["method"]: float(other["auroc"]) for other in others}
    own = float(line["auroc"])
    rank = 1 + sum(value > own for value in aurocs.values())
    baseline = aurocs.get(BASELINE, float("nan"))
    return Place(line, rank, len(aurocs), max(aurocs.values()), baseline)


def _conclusion(places: list[Place]) -> str:
    won = [place.line["set"] for place in places if place.rank <= BEST]
    failed = [place.line["set"] for place in places if float(place.line["auroc"]) < place.baseline]
    told = []
    if won:
        told.append(f"Among the {BEST} best on {', '.join(won)}.")
    if failed:
        told.append(f"Behind MSP, the baseline, on {', '.join(failed)}.")
    if not told:
        told.append("Never among the best here, and never behind MSP.")
    return " ".join(told) + "\n"


def _input(tags: Any) -> str:
    if tags.needs_head:
        return f"{tags.reads} and head"
    if tags.uses_head:
        return f"{tags.reads}, and head if given"
    return "features or logits" if tags.reads == "logits" else tags.reads


def _place(cls: Any) -> str:
    return f"methods/{cls.kind}.md"


def _link(cls: Any) -> str:
    return f"[{cls.__name__}]({_place(cls)})"


def _mark(yes: bool) -> str:
    return "yes" if yes else "no"


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


if __name__ == "__main__":
    main()
