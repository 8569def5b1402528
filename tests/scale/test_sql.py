"""Detectors as SQL, on DuckDB; `make test-scale` does the same on Spark and PostgreSQL."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pytest
from helpers import sql as checks
from helpers.shell import run as shell
from hypothesis import assume, given
from hypothesis import strategies as st

import typica
from typica import InputError
from typica.scale.sql import fit_sql, score_sql

NAMED = {"table": [checks.TABLE], "features": checks.FEATURES, "id_columns": [checks.ID]}


@pytest.fixture
def run():
    with duckdb.connect() as connection:

        def execute(statement, *values):
            return connection.execute(statement, *values).fetchall()

        connection.execute("SET threads = 1")
        yield execute


@pytest.fixture(scope="module")
def connection():
    """One that many examples share: to open one takes longer than to use it."""
    with duckdb.connect() as opened:
        opened.execute("SET threads = 1")
        yield opened


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture
def full(run):
    table, features, name = map(quoted, (checks.TABLE, checks.FEATURES, checks.ID))
    rows = [*checks.queries().tolist(), *checks.BAD]
    run(f"CREATE TABLE {table} ({name} INT, {features} DOUBLE[])")
    run(f"INSERT INTO {table} SELECT unnest(?), unnest(?)", [list(range(len(rows))), rows])
    X, labels = checks.rows_and_labels()
    run("CREATE TABLE train (label VARCHAR, embedding DOUBLE[])")
    named = checks.NAMES[labels].tolist()
    run("INSERT INTO train SELECT unnest(?), unnest(?)", [named, X.tolist()])
    run("INSERT INTO train VALUES (NULL, [1, 2]), ('cat', NULL)")
    return run


@pytest.mark.parametrize("kind", checks.KINDS)
def test_scores_are_those_of_python(full, kind):
    checks.check_scores(full, "duckdb", kind, **NAMED)


def test_classes_have_thresholds_of_their_own(full):
    checks.check_thresholds_of_classes(full, "duckdb", **NAMED)


def test_class_means_are_fitted_and_scored_with(full):
    checks.check_fit(full, "duckdb", "train", **NAMED)


@pytest.mark.parametrize(
    "rows",
    [
        "('cat', [1, 2])",
        "('dog', [1, 2])",
        "('cat', [1, 2, 3, 4, 5, NULL])",
        "('cat', [1, 2, 3, 4, 5, CAST('nan' AS DOUBLE)])",
        "('cat', [1, 2, 3, 4, 5, CAST('inf' AS DOUBLE)])",
        "('dog', [1, 2, 3, 4, 5, 6]), ('dog', [-1, -2, -3, -4, -5, -6])",
        "('dog', [])",
    ],
)
def test_a_fit_refuses_what_python_refuses(full, rows):
    full(f"INSERT INTO train VALUES {rows}")
    script = fit_sql("duckdb", table="train")
    if rows == "('dog', [])":
        full(script.setup[0])  # a row without numbers adds none
        return
    with pytest.raises(duckdb.Error, match=r"Typica, class (cat|dog), its rows differ in width"):
        full(script.setup[0])
    assert not full("SELECT * FROM information_schema.tables WHERE table_name = 'typica_means'")


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@given(st.lists(TEXTS, min_size=2, max_size=4, unique=True))
def test_any_class_name_comes_back(connection, names):
    detector = typica.CW(typica.Head(np.eye(len(names)), classes=names))
    script = score_sql(detector, replace=True)
    connection.execute("CREATE OR REPLACE TABLE embeddings (id INT, embedding DOUBLE[])")
    rows = enumerate(np.eye(len(names)).tolist())
    connection.executemany("INSERT INTO embeddings VALUES (?, ?)", list(rows))
    for statement in script.setup:
        connection.execute(statement)
    found = sorted(connection.execute(script.query).fetchall())
    assert [nearest for _, _, nearest in found] == names


PRINTABLE = st.text(
    st.characters(exclude_categories=("C", "Z"), include_characters=" ", codec="utf-8"), min_size=1
).filter(lambda name: "${" not in name)


@given(PRINTABLE, PRINTABLE, PRINTABLE)
def test_any_table_and_column_is_quoted(connection, table, features, key):
    assume(features.casefold() != key.casefold())
    assume(key.lower() not in ("score", "nearest", "typical"))
    columns = f"{quoted(features)} DOUBLE[], {quoted(key)} INT"
    connection.execute(f"CREATE TABLE {quoted(table)} ({columns})")
    try:
        connection.execute(f"INSERT INTO {quoted(table)} VALUES ([1, 2], 7)")
        script = score_sql(typica.MaxLogit(), table=[table], features=features, id_columns=[key])
        result = connection.execute(script.query)
        assert result.description[0][0] == key
        assert result.fetchall() == [(7, 2.0, 1)]
    finally:
        connection.execute(f"DROP TABLE {quoted(table)}")


def test_ties_go_to_the_first_class(run):
    run("CREATE TABLE embeddings AS SELECT 1 AS id, [1.0, 1.0] AS embedding")
    found = checks.scored(run, typica.CW(typica.Head(np.eye(2), classes=["b", "a"])), "duckdb")
    assert found == {1: (pytest.approx(0.5**0.5), "b")}


def test_a_view_is_made_and_replaced(run):
    run("CREATE SCHEMA s")
    run("CREATE TABLE s.rows AS SELECT 1 AS id, 2 AS more, [3.0::FLOAT, 4.0] AS z")
    detector = typica.CW(typica.Head(np.eye(2)))
    for _ in range(2):
        script = score_sql(
            detector,
            table="s.rows",
            features="z",
            id_columns=["id", "more"],
            means='s."the.means"',
            view="s.scores",
            replace=True,
        )
        for statement in script.statements:
            run(statement)
    assert run("SELECT * FROM s.scores") == [(1, 2, 0.8, 1)]
    with pytest.raises(duckdb.Error, match="already exists"):
        run(score_sql(detector, means='s."the.means"').setup[0])


def test_large_models_come_in_statements_of_a_megabyte():
    rng = np.random.default_rng(0)
    head = typica.Head(rng.normal(size=(300, 512)))
    script = score_sql(typica.CW(head))
    assert len(script.setup) > 3 and max(map(len, script.setup)) < 1.1e6
    assert str(script).count(";\n") == len(script.statements)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dialect": "oracle"},
            "dialect='oracle' is unknown; choose one of duckdb, spark, postgres",
        ),
        ({"table": "a.b.c.d"}, "4 parts"),
        ({"table": 'a"b'}, "odd number of quotes"),
        ({"table": ""}, "'' is not a name"),
        ({"features": "a\0b"}, "cannot be written in SQL"),
        ({"features": "${a}"}, "cannot be written in SQL"),
        ({"features": 3}, "3 is not a name"),
        ({"id_columns": ["Score"]}, "'Score' is a column of the result"),
        ({"id_columns": ["a", "a"]}, "named twice"),
        ({"id_columns": "id"}, "id_columns='id': pass a list of names"),
        ({"dialect": "postgres", "features": "x" * 64}, "longer than the 63 bytes"),
    ],
)
def test_bad_names_are_refused(options, message):
    with pytest.raises(InputError, match="score_sql: ") as error:
        score_sql(typica.CW(typica.Head(np.eye(2))), **options)
    assert message in str(error.value)


def test_detectors_that_are_no_sql_are_refused():
    from sklearn.pipeline import make_pipeline

    X = np.eye(20) + 1.0
    with pytest.raises(InputError, match="KNN cannot be written as SQL; pass one of ctm, cw"):
        score_sql(typica.KNN(k=2).fit(X))
    with pytest.raises(InputError, match="Pipeline cannot be written as SQL"):
        score_sql(make_pipeline(typica.L2Normalise(), typica.CTM()).fit(X, [0, 1] * 10))
    with pytest.raises(InputError, match="'knn' cannot be fitted in SQL"):
        score_sql("knn")
    with pytest.raises(InputError, match="is not fitted yet"):
        score_sql(typica.CTM())
    with pytest.raises(InputError, match="no head"):
        score_sql(typica.CW())
    logits = typica.MSP().calibrate(
        np.random.default_rng(0).normal(size=(400, 20)),
        by_class=True,
        groups=dict.fromkeys(range(20), "all"),
    )
    with pytest.raises(InputError, match="the classes of bare logits are not known"):
        score_sql(logits)
    with pytest.raises(InputError, match="null character"):
        score_sql(typica.CW(typica.Head(np.eye(2), classes=["a\0b", "c"])))


def test_the_shell_writes_what_the_library_does(run, tmp_path, capsys):
    X, labels = checks.rows_and_labels()
    detector = typica.CTM().fit(X, labels)
    detector.save(tmp_path / "ctm.safetensors")
    path = str(tmp_path / "ctm.safetensors")
    printed = shell(
        capsys,
        "sql",
        path,
        "--dialect",
        "duckdb",
        "--table",
        "rows",
        "--id-column",
        "a",
        "--id-column",
        "b",
    )
    assert printed == str(score_sql(detector, table="rows", id_columns=["a", "b"]))
    told = shell(capsys, "sql", path, "--dialect", "spark", "--json", "-")
    assert json.loads(told) == score_sql(detector, "spark").to_dict()
    shell(capsys, "sql", path, "--dialect", "postgres", "-o", str(tmp_path / "score.sql"))
    assert (tmp_path / "score.sql").read_text() == str(score_sql(detector, "postgres"))

    printed = shell(capsys, "sql", "ctm", "--dialect", "duckdb", "--train", "train", "--replace")
    run(
        "CREATE TABLE train AS SELECT * FROM "
        "(VALUES ('a', [1.0, 2.0]), ('b', [2.0, 1.0])) AS t(label, embedding)"
    )
    run("CREATE TABLE embeddings AS SELECT 5 AS id, [2.0, 4.0] AS embedding")
    assert run(printed) == [(5, pytest.approx(1.0), "a")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.safetensors", "--dialect", "duckdb"], "there is no such file"),
        (["ctm", "--dialect", "duckdb"], "pass --train TABLE, or a file"),
        (
            ["ctm", "--dialect", "oracle"],
            "--dialect oracle: unknown; choose one of duckdb, spark, postgres",
        ),
        (["knn", "--dialect", "duckdb", "--train", "t"], "--train fits class means for ctm"),
    ],
)
def test_the_shell_says_what_is_wrong(arguments, message, capsys):
    said = shell(capsys, "sql", *arguments, code=2)
    assert message in said and said.count("\n") == 1
