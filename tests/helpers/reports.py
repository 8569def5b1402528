"""Folders as `typica bench -o` writes them, for the report and the plots."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from typica.bench import digits, load_suite, make_detectors, run_experiment, write_result
from typica.head import Head
from typica.metrics import METRICS, evaluate_many

METHODS = ("ctm", "msp", "energy", "knn")
KINDS = ("typical", "borderline", "missed", "false alarm")


def write_folder(folder: Path) -> Path:
    """Write a result folder as a benchmark leaves it, from real scores on digits."""
    suite = digits.load()
    detectors = make_detectors(METHODS, Head(suite.head_weight, suite.head_bias, suite.classes))
    (folder / "scores").mkdir(parents=True)
    results = {}
    for name, detector in detectors.items():
        detector.fit(suite.train, suite.train_labels)
        test, held_out = (detector.score_samples(part) for part in (suite.test, suite.calibration))
        ood = {key: detector.score_samples(rows) for key, rows in suite.ood.items()}
        # energy's scores stay in float64 and msp has no held-out ones: both are legal
        arrays = {"test": test, "calibration": held_out} | {
            f"ood.{key}": scores for key, scores in ood.items()
        }
        arrays = {
            k: a.astype(np.float64) + 1e-12 if name == "energy" else a.astype(np.float32)
            for k, a in arrays.items()
        }
        if name == "msp":
            del arrays["calibration"]
        np.savez(folder / "scores" / f"{name}.npz", **arrays)
        measured = evaluate_many(
            name, arrays["test"], {key: arrays[f"ood.{key}"] for key in ood}
        ).to_dict()
        spread = {f"{metric}_std": 0.004 for metric in METRICS}
        entries = {
            key: {m: entry[m] for m in METRICS} | spread for key, entry in measured["ood"].items()
        }
        results[name] = {
            "ood": entries,
            "average": measured["average"] | spread,
            "params": {"k": 50},
        }
        results[name] |= {"aurc": 0.01 * (5 - len(results)), "e_aurc": 0.005 * (5 - len(results))}
    published = {
        "ctm": {"photos": {"fpr": 0.02, "auroc": 0.95}, "average": {"fpr": 0.02, "auroc": 0.95}},
        "odin": {"photos": {"fpr": 0.3, "auroc": 0.9}, "average": {"fpr": 0.3, "auroc": 0.9}},
    }
    document = {
        "suite": "digits",
        "title": suite.title,
        "protocol": {"tpr": 0.95, "convention": "first", "seed": 0, "subsets": 5, "full": False},
        "accuracy": {"standard": suite.accuracy, "cw": 0.97, "cm": 0.96},
        "near": sorted(suite.near),
        "n": {"test": len(suite.test)} | {key: len(rows) for key, rows in suite.ood.items()},
        "results": results,
        "skipped": {
            "odin": "needs images; pass --data DIR",
            "lsun": "absent; see `typica suite list`",
        },
        "published": published,
    }
    (folder / "result.json").write_text(json.dumps(document))
    _write_gallery(folder, suite)
    write_result(folder, run_experiment("analysis", load_suite("digits"), suite, {}))
    return folder


def write_experiments(folder: Path, **changes) -> None:
    """Write ablation.json and layers.json beside a result.

    They are those of a benchmark on three sets, of which the paper has two.
    """
    sets = {"svhn": 0.1, "textures": 0.2, "mine": 0.6}

    def record(worse: float) -> dict:
        ood = {
            name: {"auroc": 1 - e - worse, "auroc_std": 0.003, "fpr": e + worse, "fpr_std": 0.004}
            for name, e in sets.items()
        }
        average = {"auroc": 0.7 - worse, "auroc_std": 0.001, "fpr": 0.3 + worse, "fpr_std": 0.002}
        return {"ood": ood, "average": average, "params": {}}

    common = {"sets": ["svhn", "textures"], "of": 6}
    suite = digits.load()
    document = {
        "suite": "digits",
        "title": suite.title,
        "protocol": {"tpr": 0.95, "convention": "first", "subsets": 5, "seed": 0, "full": False},
        "accuracy": {"standard": 0.91, "cw": 0.92, "cm": 0.9},
        "near": [],
        "n": {"train": 100, "test": len(suite.test), "svhn": 600, "textures": 40, "mine": 30},
        "skipped": {"isun": "absent: there is no ood.isun.features.npy"},
        "skipped_as": {"isun": "absent", "block3": "absent"},
        "absent": ["isun"],
    }
    ablation = {
        "experiment": "ablation",
        "results": {"standard": record(0.05), "cw": record(0.02), "cm": record(0.0)},
        "published": {"cm": {"average": {"accuracy": 0.944, "auroc": 0.964}, "common": common}},
    }
    layers = {
        "experiment": "layers",
        "results": {"conv1": record(0.3), "penultimate": record(0.0)},
        "skipped": document["skipped"] | {"block3": "absent: write train.layer.block3.npy"},
        "published": {
            "conv1": {"average": {"auroc": 0.5359, "fpr": 0.9507}, "common": common},
            "penultimate": {"average": {"auroc": 0.964, "fpr": 0.1823}, "common": common},
        },
    }
    for own in (ablation, layers):
        (folder / f"{own['experiment']}.json").write_text(json.dumps(document | own | changes))


def _write_gallery(folder: Path, suite) -> None:
    (folder / "gallery").mkdir()
    images = digits.images()
    entries = []
    for i, kind in enumerate(KINDS):
        for row in range(3):
            origin = "photos" if kind == "missed" else "test"
            file = f"gallery/{i}-{row}.png"
            Image.fromarray((255 - images[origin][row] / 16 * 255).astype(np.uint8)).save(
                folder / file
            )
            label = None if origin == "photos" else int(suite.test_labels[row])
            entry = {
                "file": file,
                "set": origin,
                "name": f"{origin}[{row}]",
                "method": "ctm",
                "score": 0.9123 - i / 10,
            }
            entries.append(entry | {"nearest": 4, "label": label, "kind": kind})
    (folder / "gallery.json").write_text(json.dumps(entries))


def copy(folder: Path, to: Path, **changes) -> Path:
    """Copy a result folder, with entries of its result.json changed."""
    for path in folder.rglob("*"):
        if path.is_file():
            (to / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
            (to / path.relative_to(folder)).write_bytes(path.read_bytes())
    document = json.loads((folder / "result.json").read_text()) | changes
    (to / "result.json").write_text(json.dumps(document))
    return to
