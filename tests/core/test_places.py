"""Every message of the public API begins with the name of what was called, and has it once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica import (
    InputError,
    bank,
    bench,
    calibration,
    data,
    decide,
    detectors,
    export,
    metrics,
    nets,
    rectify,
    scale,
    serve,
    store,
)
from typica.bench import digits
from typica.data import corrupt, sets
from typica.errors import at, border, in_shell
from typica.nets import zoo
from typica.scale import dask, ray, spark, sql

PACKAGES = (
    bank,
    bench,
    calibration,
    data,
    sets,
    decide,
    detectors,
    export,
    metrics,
    nets,
    zoo,
    rectify,
    scale,
    dask,
    ray,
    spark,
    sql,
    store,
    typica,
)

Call = Callable[[Any], object]

# Wrong calls of all that can refuse its input, by the name that the message must begin with.
WRONG: dict[object, dict[str, Call]] = {
    typica: {
        "Calibration": lambda w: typica.Calibration(limit=0),
        "Calibration.add": lambda w: typica.Calibration().add("x"),
        "Evaluation": lambda w: typica.Evaluation("ctm", 0.95, 3, {}),
        "Head": lambda w: typica.Head(3),
        "Moments.scatter_within": lambda w: typica.Moments().scatter_within(),
        "Monitor": lambda w: typica.Monitor(3),
        "Monitor.save": lambda w: typica.Monitor(w.X[:, 0]).save(w.nowhere),
        "OpenSetClassifier.fit": lambda w: w.open_set.fit(w.X, w.y[:3]),
        "OpenSetClassifier.predict": lambda w: w.open_set.predict(w.X),
        "OpenSetClassifier.score": lambda w: w.fitted_open_set.score(w.X, w.y[:3]),
        "OpenSetClassifier.judge": lambda w: w.fitted_open_set.judge(w.X[:, :3]),
        "Origin.from_dict": lambda w: typica.Origin.from_dict({}),
        "Verdicts.sort": lambda w: w.detector.judge(w.X).sort("size"),
        "calibrate": lambda w: typica.calibrate(3, w.X),
        "combine_p_values": lambda w: typica.combine_p_values([[0.5]], how="sum"),
        "detector_class": lambda w: typica.detector_class("foo"),
        "discoveries": lambda w: typica.discoveries(w.unfitted_pipeline, w.X),
        "evaluate": lambda w: typica.evaluate([1, 2], [0], convention="last"),
        "explain": lambda w: typica.explain(3, w.X),
        "fit": lambda w: typica.fit(3, w.X),
        "judge": lambda w: typica.judge(w.unfitted_pipeline, w.X),
        "make_detector": lambda w: typica.make_detector(3),
        "make_rectifier": lambda w: typica.make_rectifier("foo"),
        "ood_scorer": lambda w: typica.ood_scorer(w.X, "speed"),
        "p_values": lambda w: typica.p_values(w.unfitted_pipeline, w.X),
        "partial_calibrate": lambda w: typica.partial_calibrate(3, w.X),
        "rectifier_class": lambda w: typica.rectifier_class("reac"),
        "save": lambda w: typica.save(3, w.nowhere),
        "write_bank": lambda w: typica.write_bank(w.folder / "new.bank", w.X, labels=w.y[:3]),
    },
    detectors: {
        "CTM.fit_predict": lambda w: typica.CTM().fit_predict("x"),
        "CTM.offset_": lambda w: typica.CTM().offset_,
        "CTM.threshold_": lambda w: typica.CTM().threshold_,
        "CTM.save": lambda w: w.detector.save(w.nowhere),
        "check_fitted": lambda w: detectors.check_fitted(typica.CTM()),
        "describe_detector": lambda w: detectors.describe_detector("foo"),
        "detector_input": lambda w: detectors.detector_input(w.unfitted_pipeline, w.X),
        "final_detector": lambda w: detectors.final_detector(3),
        "known_width": lambda w: detectors.known_width(typica.CTM()),
        "logistic_weights": lambda w: detectors.logistic_weights(w.X[:0], w.X[:0]),
        "origin_of": lambda w: detectors.origin_of(3),
        "parse_params": lambda w: detectors.parse_params("foo", {}),
        "reads_layers": lambda w: detectors.reads_layers(3),
        "reads_logits": lambda w: detectors.reads_logits(3),
    },
    decide: {
        "add_scores": lambda w: decide.add_scores(3, None, w.X),
        "begin_calibration": lambda w: decide.begin_calibration(3),
        "copy_to_calibrate": lambda w: decide.copy_to_calibrate(3),
        "describe": lambda w: decide.describe(3),
        "describe_rule": lambda w: decide.describe_rule(3, None, asked=True),
        "fingerprint": lambda w: decide.fingerprint(3),
        "read_scores": lambda w: list(decide.read_scores(["a"])),
        "set_calibration": lambda w: decide.set_calibration(3, None),
    },
    calibration: {
        "Levels.of": lambda w: calibration.Levels.of(alpha=3),
        "calibration_size": lambda w: calibration.calibration_size(3),
        "check_scores": lambda w: calibration.check_scores("x"),
        "check_threshold": lambda w: calibration.check_threshold(-1e39, "float32", -3e38),
        "false_alarm_rate": lambda w: calibration.false_alarm_rate(alpha=3),
        "guaranteed_rank": lambda w: calibration.guaranteed_rank(9, 3),
        "p_values": lambda w: calibration.p_values("x", [1.0]),
        "pool_rare": lambda w: calibration.pool_rare([], [], 0),
    },
    metrics: {
        "aurc": lambda w: metrics.aurc([1], [True, False]),
        "e_aurc": lambda w: metrics.e_aurc([1], [True, False]),
        "evaluate_many": lambda w: metrics.evaluate_many("ctm", [1], {}),
    },
    store: {
        "fingerprint": lambda w: store.fingerprint(object()),
        "from_bytes": lambda w: store.from_bytes(b"x"),
        "to_bytes": lambda w: store.to_bytes(object()),
    },
    bank: {"BankWriter": lambda w: bank.BankWriter(w.folder / "new.bank", {}, shard_rows=0)},
    data: {
        "Preprocessing": lambda w: data.Preprocessing(0, 0),
        "check_classes": lambda w: data.check_classes(["cat", "cat"]),
        "image_batches": lambda w: data.image_batches(w.images, data.Preprocessing(4, 4), 0),
        "in_order": lambda w: data.in_order(w.named_images, ["dog"]),
        "open_images": lambda w: data.open_images(3),
        "write_verdicts": lambda w: data.write_verdicts(w.detector.judge(w.X), "x.foo"),
    },
    corrupt: {
        "blur": lambda w: corrupt.blur(w.X),
        "contrast": lambda w: corrupt.contrast(w.X),
        "corrupted_versions": lambda w: corrupt.corrupted_versions(w.X, None),
        "gaussian_noise": lambda w: corrupt.gaussian_noise(w.X),
        "jpeg": lambda w: corrupt.jpeg(w.X),
        "mixed": lambda w: corrupt.mixed(w.X, w.y),
        "patch_shuffle": lambda w: corrupt.patch_shuffle(w.X),
        "pixelate": lambda w: corrupt.pixelate(w.X),
        "rotated": lambda w: corrupt.rotated(w.X),
    },
    sets: {
        "benchmark_set": lambda w: sets.benchmark_set("foo"),
        "describe_set": lambda w: sets.describe_set("foo"),
        "find_set": lambda w: sets.find_set("foo"),
        "get_set": lambda w: sets.get_set("foo"),
        "how_to_get": lambda w: sets.how_to_get("foo"),
    },
    nets: {
        "AdaSCALE": lambda w: nets.AdaSCALE(3),
        "FeatureExtractor": lambda w: nets.FeatureExtractor(w.network, layer="zz"),
        "FeatureExtractor.head": lambda w: nets.FeatureExtractor(w.network).head,
        "Gram": lambda w: nets.Gram(3, []),
        "GraphExtractor": lambda w: nets.GraphExtractor("absent.pt"),
        "Guard": lambda w: nets.Guard(w.network, w.detector)(3),
        "Guard.judge": lambda w: nets.Guard(w.network, w.detector).judge(w.narrow),
        "InputReader.of": lambda w: nets.InputReader.of(3),
        "InputReader.rows": lambda w: nets.InputReader.of(w.detector).rows("absent"),
        "InputReader.sets": lambda w: nets.InputReader.of(w.detector).sets({"a": "absent"}),
        "LayerNAC": lambda w: nets.LayerNAC(3, []),
        "LayerPerturb": lambda w: nets.LayerPerturb(3, 3),
        "ODIN": lambda w: nets.ODIN(3),
        "OnnxExtractor": lambda w: nets.OnnxExtractor("absent.onnx"),
        "Perceptron": lambda w: nets.Perceptron([], []),
        "Perceptron.giving": lambda w: w.perceptron.giving("zz"),
        "Perceptron.of": lambda w: nets.Perceptron.of(3),
        "Perceptron.save": lambda w: w.perceptron.save(w.nowhere),
        "Perturb": lambda w: nets.Perturb(3, None, 0.1),
        "Settings": lambda w: nets.Settings(batch=0),
        "check_settings": lambda w: nets.check_settings({"foo": 3}),
        "explain_images": lambda w: nets.explain_images(3, w.images),
        "extract": lambda w: nets.extract("absent", w.network, w.folder / "new.bank"),
        "features_of": lambda w: nets.features_of(w.opened, w.images, None, 3),
        "judge_images": lambda w: nets.judge_images(3, w.images),
        "make_runner": lambda w: nets.make_runner(w.opened.extractor, "foo", sample=w.pixels),
        "check_class_order": lambda w: nets.check_class_order(
            typica.write_bank(
                w.folder / "turned.bank",
                np.eye(40),
                labels=np.repeat([0, 1], 20),
                logits=np.repeat([[0.0, 1.0], [1.0, 0.0]], 20, axis=0),
            )
        ),
        "check_no_network": lambda w: nets.check_no_network(
            {"model": "resnet-18"}, "these are rows"
        ),
        "mislead": lambda w: nets.mislead(w.opened.extractor, 3),
        "open_model": lambda w: nets.open_model("resnet-18", "bundled"),
        "reopen": lambda w: nets.reopen(None),
        "rows_of": lambda w: nets.rows_of(w.opened, [*w.pixels], w.transform, 3),
        "run_directly": lambda w: nets.run_directly(w.opened.extractor, 3),
        "transform_for": lambda w: nets.transform_for(w.opened, w.images, {"foo": 3}),
    },
    zoo: {
        "zoo.has_weights": lambda w: zoo.has_weights("foo"),
        "zoo.load": lambda w: zoo.load("foo"),
        "zoo.load('resnet-18')": lambda w: zoo.load("resnet-18"),
        "zoo.transform": lambda w: zoo.transform("foo"),
    },
    export: {"to_onnx": lambda w: export.to_onnx(3)},
    scale: {
        "Calibrator.begin": lambda w: scale.Calibrator.begin(3),
        "Calibrator.from_bytes": lambda w: scale.Calibrator.from_bytes(b"x"),
        "Judge": lambda w: scale.Judge(3),
        "Learner": lambda w: scale.Learner(3),
        "Learner.from_bytes": lambda w: scale.Learner.from_bytes(b"x"),
        "calibrate": lambda w: scale.calibrate(3, w.X),
        "calibrate_batches": lambda w: scale.calibrate_batches(b"x", b"x", []),
        "check_engine": lambda w: scale.check_engine("foo"),
        "fit": lambda w: scale.fit(3, w.X),
        "fit_counted": lambda w: scale.fit_counted(3, w.X),
        "judge_stream": lambda w: scale.judge_stream(3, "absent"),
        "learn_batches": lambda w: scale.learn_batches(b"x", []),
        "merge_calibrated": lambda w: scale.merge_calibrated([b"x"]),
        "merge_learnt": lambda w: scale.merge_learnt([]),
        "merge_tree": lambda w: scale.merge_tree([], max),
        "open_engine": lambda w: scale.open_engine("foo").__enter__(),
        "open_tables": lambda w: scale.open_tables("absent"),
        "score": lambda w: scale.score(3, "absent"),
    },
    # Without their packages the engines refuse everything, under the same names.
    dask: {
        "calibrate": lambda w: dask.calibrate(3, w.X),
        "fit": lambda w: dask.fit(3, w.X),
        "score": lambda w: dask.score(3, w.X),
    },
    ray: {
        "Extractor": lambda w: ray.Extractor(3),
        "Scorer": lambda w: ray.Scorer("absent"),
        "calibrate": lambda w: ray.calibrate(3, w.X),
        "fit": lambda w: ray.fit(3, w.X),
        "score": lambda w: ray.score(3, w.X),
    },
    spark: {
        "calibrate": lambda w: spark.calibrate(3, w.X),
        "fit": lambda w: spark.fit(3, w.X),
        "score": lambda w: spark.score(3, w.X),
        "udf": lambda w: spark.udf(3),
    },
    sql: {"fit_sql": lambda w: sql.fit_sql("foo"), "score_sql": lambda w: sql.score_sql(3)},
    bench: {
        "FeatureSuite": lambda w: w.suite_of(train_labels=w.y[:3]),
        "Workbench.detector": lambda w: w.workbench.detector("foo"),
        "Workbench.scored": lambda w: w.workbench.scored({"foo": {}}),
        "adapted": lambda w: bench.adapted(w.digits, methods="foo"),
        "builtin_features": lambda w: bench.builtin_features(bench.load_suite("clinc150")),
        "check_sources": lambda w: bench.check_sources("digits", w.folder, None),
        "choose_files": lambda w: bench.choose_files("absent", seed=-1),
        "compare": lambda w: bench.compare({}, w.X, w.y[:3], w.X, {"far": w.X}),
        "compare_files": lambda w: bench.compare_files("absent", "absent", {}, names="foo"),
        "compare_on": lambda w: bench.compare_on(w.suite_of(), ["foo"]),
        "evaluate_files": lambda w: bench.evaluate_files(3, "absent", {}),
        "fit_files": lambda w: bench.fit_files("absent"),
        "leave_classes_out": lambda w: bench.leave_classes_out({}, w.X, w.y, w.X, w.y),
        "load_suite": lambda w: bench.load_suite("foo"),
        "make_detectors": lambda w: bench.make_detectors("foo"),
        "named_methods": lambda w: bench.named_methods(w.digits, "foo"),
        "near_features": lambda w: bench.near_features(w.bank, w.images, np.arange(3)),
        "plot": lambda w: bench.plot("absent", "x.png", "foo"),
        "prepare": lambda w: bench.prepare(w.digits, w.folder),
        "read_features_folder": lambda w: bench.read_features_folder(w.digits, "absent"),
        "run_experiment": lambda w: bench.run_experiment("foo", w.digits, None, {}),
        "suite_features": lambda w: bench.suite_features(w.digits, features=w.folder),
        "suite_text": lambda w: bench.suite_text("foo"),
    },
    digits: {
        "ascii_art": lambda w: digits.ascii_art(w.X),
    },
    serve: {
        "Limits": lambda w: serve.Limits(body=0),
        "Options": lambda w: serve.Options(port=-1),
        "write_demo": lambda w: serve.write_demo(w.folder),
    },
}

FILE = "the message begins with the file or the folder that it is about"
RECORD = "a record: it holds what it is given, and is made by functions that check it"
TELLS = "it tells what there is, and refuses nothing"
ENGINE = "it opens an engine for a block, whose errors are not its own"

# Public names that are not called wrongly above, by the reason.
EXEMPT: dict[object, dict[str, str]] = {
    bank: {
        FILE: "Bank ParquetNotes bank_settings read_notes remove_bank remove_if_changed",
        TELLS: "describe_bank",
    },
    bench: {
        FILE: "banked complete_result keep_result read_result read_result_scores write_gallery "
        "write_report write_result",
        RECORD: "Choice Comparison Fitted Headline NarrowTable Outcome Record Scores Suite Table "
        "Worth",
        TELLS: "accepted comparison_table headline init_text list_suites pareto result_file "
        "tables_of to_csv to_html to_latex to_markdown to_terminal without_idle_methods",
    },
    calibration: {
        RECORD: "CalibrationOptions ScoreSample",
        TELLS: "about_ties predicted_classes threshold_at warn_of_fitted_rows warn_of_pool",
    },
    data: {
        FILE: "FeatureFile Images RowWriter check_verdict_file decode find_head open_features "
        "read_arriving read_classes read_features read_grouped read_head read_known "
        "checked_rows read_labelled read_labels read_listing read_origin read_rows unpack",
        RECORD: "Batch Features RowPrinter",
        TELLS: "are_images column_named has_logits holds_images names_file thumbnail",
    },
    sets: {RECORD: "BenchmarkSet SetFile", TELLS: "list_sets size_text"},
    decide: {FILE: "describe_file load_detector", RECORD: "Rate"},
    detectors: {
        RECORD: "KnownRows Matches",
        TELLS: "array_text bank_labels column_names feature_names input_head input_width is_bank "
        "is_pipeline list_detectors pipeline_steps steps_before takes_head wants_head",
    },
    export: {FILE: "write_triton", TELLS: "describe_onnx triton_config"},
    metrics: {RECORD: "Metric Result", TELLS: "fpr_defined rate_interval"},
    nets: {
        RECORD: "Extraction Guarded Opened Reopened Runner Seen Trial",
        TELLS: "is_function one_backend",
    },
    zoo: {TELLS: "find list_architectures"},
    rectify: {TELLS: "list_rectifiers"},
    scale: {
        FILE: "calibrate_part find_files judge_part learn_part read_batch read_part",
        RECORD: "Batch Cluster Columns File Fitted JudgedStream On Part Scored Stream Tables",
        TELLS: "are_tables fixed_part is_pattern is_tables strangest",
    },
    dask: {ENGINE: "DaskCluster connect"},
    ray: {ENGINE: "RayCluster connect"},
    spark: {ENGINE: "FrameCluster SparkCluster connect"},
    sql: {RECORD: "Script"},
    store: {
        FILE: "load read",
        TELLS: "restore_state state_to_store storable trial_rows",
    },
    typica: {RECORD: "Explanation Tags Verdict"},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> SimpleNamespace:
    """Return what the wrong calls are made on."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("places")
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 3
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    detector = typica.CTM().fit(X, y)
    classifier = LogisticRegression()
    pixels = np.zeros((2, 8, 8, 3), dtype=np.uint8)

    def suite_of(**changed: Any) -> bench.FeatureSuite:
        given = {"train": X, "train_labels": y, "test": X, "test_labels": y, "ood": {"far": X}}
        head = {"head_weight": X[:3], "head_bias": X[0, :3], "classes": np.arange(3)}
        known = {"name": "suite", "title": "", "near": frozenset(), "accuracy": None}
        known |= {"calibration": None, "calibration_labels": None}
        return bench.FeatureSuite(**(given | head | known | changed))

    return SimpleNamespace(
        X=X,
        y=y,
        folder=folder,
        nowhere=folder / "absent" / "file.safetensors",
        detector=detector,
        unfitted_pipeline=make_pipeline(StandardScaler(), typica.CTM()),
        open_set=typica.OpenSetClassifier(classifier, typica.CTM()),
        fitted_open_set=typica.OpenSetClassifier(classifier, typica.CTM(), alpha=0.2).fit(X, y),
        bank=typica.write_bank(folder / "known.bank", X.astype(np.float32), labels=y),
        images=data.open_images(pixels),
        named_images=data.open_images(pixels, labels=["cat", "dog"]),
        pixels=pixels,
        transform=data.Preprocessing(8, 8),
        network=network,
        opened=nets.open_model(network),
        narrow=nets.FeatureExtractor(torch.nn.Linear(4, 3))(torch.zeros(2, 4)),
        perceptron=nets.Perceptron([np.eye(2)], [np.zeros(2)]),
        digits=bench.load_suite("digits"),
        suite_of=suite_of,
        workbench=bench.Workbench(suite_of()),
    )


def calls() -> list[Any]:
    found = []
    for package, wrong in WRONG.items():
        for place, call in wrong.items():
            found.append(pytest.param(place, call, id=f"{package.__name__}: {place}"))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("place", "call"), calls())
def test_a_message_names_what_was_called_once(world, place, call):
    with pytest.raises(InputError) as caught:
        call(world)
    message = str(caught.value)
    assert message.startswith(f"{place}: ")
    assert message.count(f"{place}: ") == 1
    # No other name of ours stands before what was found.
    assert not re.match(r"(zoo\.)?[A-Za-z]\w+(\.\w+)*(\('[\w-]+'\))?: [A-Z]\w+\.\w+: ", message)


BASES = (detectors.Detector, detectors.CosineDetector, detectors.TwoPasses, rectify.Rectifier)
METHODS = [*map(typica.detector_class, typica.list_detectors())]
METHODS += map(typica.rectifier_class, typica.list_rectifiers())


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_every_detector_and_rectifier_names_itself(kind):
    needed = [
        each for each in inspect.signature(kind).parameters.values() if each.default is each.empty
    ]
    with pytest.raises(InputError, match=rf"^{kind.__name__}\.fit: (?!.*{kind.__name__}\.fit: )"):
        kind(*[None for _ in needed]).fit("x")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_is_called_wrongly_or_says_why_not(package):
    known = {id(kind) for kind in (*METHODS, *BASES)}
    for home, wrong in WRONG.items():
        for place in wrong:
            owner = re.sub(r"\(.*", "", place.removeprefix("zoo.")).partition(".")[0]
            known.add(id(getattr(home, owner)))
    for home, reasons in EXEMPT.items():
        for names in reasons.values():
            known |= {id(getattr(home, name)) for name in names.split()}
    public = {name: getattr(package, name) for name in package.__all__}
    for name, thing in public.items():
        ours = getattr(thing, "__module__", "").startswith("typica.")
        if ours and callable(thing) and not isinstance(thing, type(Any)):
            is_error = inspect.isclass(thing) and issubclass(thing, Exception)
            assert is_error or id(thing) in known, f"{package.__name__}.{name}"


def test_the_place_is_that_of_the_outermost_call():
    @border
    def inner():
        raise InputError("x is wrong; pass y.")

    @border
    def outer():
        inner()

    with pytest.raises(InputError, match=r"^outer: x is wrong; pass y\.$"):
        outer()
    with in_shell(), pytest.raises(InputError, match=r"^x is wrong; pass y\.$"):
        outer()
    with pytest.raises(InputError, match=r"^room\.outer: x is wrong"), at("room.outer"):
        outer()


def test_a_generator_names_itself_while_it_is_read():
    @border
    def numbers(texts):
        for text in texts:
            if not text.isdigit():
                raise InputError(f"{text!r} is not a number; pass one.")
            yield int(text)

    found = numbers(["1", "x"])
    assert next(found) == 1
    with pytest.raises(InputError, match=r"^numbers: 'x' is not a number; pass one\.$"):
        next(found)


def test_arguments_that_are_not_taken(world):
    with pytest.raises(
        TypeError,
        match=r"^CTM\.calibrate: too many positional arguments; pass alpha, tpr, .* by name\.$",
    ):
        world.detector.calibrate(world.X, 0.1)
    with pytest.raises(
        TypeError, match=r"^CTM\.calibrate: got an unexpected keyword argument 'alhpa'\.$"
    ):
        world.detector.calibrate(world.X, alhpa=0.1)

    @border
    def broken(x):
        raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        broken(1)


def test_counts_and_articles_read_aloud(world):
    for message, call in {
        "1 label for 60 rows": lambda: typica.CTM().fit(world.X, world.y[:1]),
        "have 1 dimension instead": lambda: typica.CTM().fit(world.X[0]),
        "head is an int;": lambda: typica.CTM(head=3).fit(world.X, world.y),
        "an int that is not a fitted": lambda: nets.Perceptron.of(3),
        "an object cannot be stored": lambda: store.to_bytes(object()),
        "an int is no name": lambda: typica.make_detector(3),
        "names='foo' is one text; pass a list": lambda: bench.make_detectors("foo"),
        "brings its own data": lambda: bench.prepare(world.digits, world.folder),
        "one label per row.": lambda: world.open_set.fit(world.X, world.y[:3]),
        "this StandardScaler is not fitted yet; call fit first.": lambda: typica.p_values(
            world.unfitted_pipeline, world.X
        ),
    }.items():
        with pytest.raises(InputError, match=re.escape(message)):
            call()
    assert repr(data.open_images(world.pixels[:1])).endswith("(1 image, 0 ignored)")


def test_what_the_server_needs_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("sys.version_info", (3, 12, 9))
    for name in ("Runtime", "serve", "write_repository"):
        with pytest.raises(InputError, match=r"^mlserver is not installed; install the extra 'ser"):
            getattr(serve, name)
    monkeypatch.setattr("sys.version_info", (3, 13, 1))
    with pytest.raises(InputError, match=r"^mlserver is not installed, and stops at Python 3\.12"):
        serve.serve  # noqa: B018
