"""Detectors as SQL on PostgreSQL and on Spark; DuckDB is among the ordinary tests."""

from __future__ import annotations

import numpy as np
import psycopg
import pytest
from helpers import sql as checks
from helpers.postgres import server

import typica
from typica.scale.sql import fit_sql, score_sql

NAMED = {"table": [checks.TABLE], "features": checks.FEATURES, "id_columns": [checks.ID]}


@pytest.fixture(scope="module")
def connection():
    with server() as address, psycopg.connect(address, autocommit=True) as opened:
        yield opened


class Postgres:
    """A database with the tables that the checks read."""

    name = "postgres"
    error = psycopg.Error

    def __init__(self, connection):
        self.connection = connection
        table, features, key = map(self.quoted, (checks.TABLE, checks.FEATURES, checks.ID))
        self.run("DROP SCHEMA IF EXISTS public CASCADE")
        self.run("CREATE SCHEMA public")
        self.run(f"CREATE TABLE {table} ({key} int, {features} double precision[])")
        rows = [*checks.queries().tolist(), *checks.BAD]
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s)", list(enumerate(rows)))
        self.run("CREATE TABLE train (label text, embedding double precision[])")
        X, labels = checks.rows_and_labels()
        self.train([(checks.NAMES[k], z) for k, z in zip(labels, X.tolist(), strict=True)])
        self.train([(None, [1.0, 2.0]), ("cat", None)])

    def quoted(self, name):
        return '"' + name.replace('"', '""') + '"'

    def run(self, statement):
        found = self.connection.execute(statement.encode())
        return found.fetchall() if found.description else None

    def train(self, rows):
        with self.connection.cursor() as cursor:
            cursor.executemany("INSERT INTO train VALUES (%s, %s)", rows)

    def tables(self):
        return {name for (name,) in self.run("SELECT tablename FROM pg_tables")}


class Spark:
    """A session with the tables that the checks read."""

    name = "spark"

    def __init__(self, session):
        from pyspark.errors import PySparkException

        self.error = PySparkException
        self.session = session
        table, features, key = map(self.quoted, (checks.TABLE, checks.FEATURES, checks.ID))
        rows = [*checks.queries().tolist(), *checks.BAD]
        schema = f"{key} INT, {features} ARRAY<DOUBLE>"
        self.session.createDataFrame(list(enumerate(rows)), schema).createOrReplaceTempView(table)
        X, labels = checks.rows_and_labels()
        self.labelled = [(str(checks.NAMES[k]), z) for k, z in zip(labels, X.tolist(), strict=True)]
        self.train([(None, [1.0, 2.0]), ("cat", None)])

    def quoted(self, name):
        return "`" + name.replace("`", "``") + "`"

    def run(self, statement):
        return [tuple(row) for row in self.session.sql(statement).collect()]

    def train(self, rows):
        self.labelled = [*self.labelled, *rows]
        schema = "label STRING, embedding ARRAY<DOUBLE>"
        self.session.createDataFrame(self.labelled, schema).createOrReplaceTempView("train")

    def tables(self):
        return {row.tableName for row in self.session.sql("SHOW TABLES").collect()}


@pytest.fixture(params=["postgres", "spark"])
def warehouse(request):
    if request.param == "postgres":
        return Postgres(request.getfixturevalue("connection"))
    return Spark(request.getfixturevalue("spark"))


@pytest.mark.parametrize("kind", checks.KINDS)
def test_scores_are_those_of_python(warehouse, kind):
    checks.check_scores(warehouse.run, warehouse.name, kind, **NAMED)


def test_classes_have_thresholds_of_their_own(warehouse):
    checks.check_thresholds_of_classes(warehouse.run, warehouse.name, **NAMED)


def test_class_means_are_fitted_and_scored_with(warehouse):
    checks.check_fit(warehouse.run, warehouse.name, "train", **NAMED)


@pytest.mark.parametrize(
    "rows",
    [
        [("cat", [1.0, 2.0])],
        [("dog", [1.0, 2.0])],
        [("cat", [1.0, 2.0, 3.0, 4.0, 5.0, None])],
        [("cat", [1.0, 2.0, 3.0, 4.0, 5.0, np.nan])],
        [("cat", [1.0, 2.0, 3.0, 4.0, 5.0, np.inf])],
        [("dog", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), ("dog", [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0])],
    ],
)
def test_a_fit_refuses_what_python_refuses(warehouse, rows):
    warehouse.run("DROP TABLE IF EXISTS typica_means")
    warehouse.train(rows)
    script = fit_sql(warehouse.name, table="train")
    with pytest.raises(warehouse.error, match=r"Typica, class (cat|dog), its rows differ in width"):
        warehouse.run(script.setup[0])
    assert "typica_means" not in warehouse.tables()


def test_a_view_is_made_and_replaced(warehouse):
    script = score_sql(
        typica.CW(typica.Head(np.eye(checks.M))),
        warehouse.name,
        table="train",
        id_columns=["label"],
        view="typica_scores",
        replace=True,
    )
    if warehouse.name == "spark":  # a view on a temporary view is not kept
        warehouse.run("DROP TABLE IF EXISTS kept")
        warehouse.run("CREATE TABLE kept USING parquet AS SELECT * FROM train")
        script = score_sql(
            typica.CW(typica.Head(np.eye(checks.M))),
            warehouse.name,
            table="kept",
            id_columns=["label"],
            view="typica_scores",
            replace=True,
        )
    for _ in range(2):
        for statement in script.statements:
            warehouse.run(statement)
    assert len(warehouse.run("SELECT label, score, nearest FROM typica_scores")) == 402


def test_real_columns_are_scored_as_their_values(warehouse):
    """float32 arrays, the usual form of embeddings, are those numbers and no others."""
    detector, reference = checks.references()["ctm"]
    Z = checks.queries().astype(np.float32)
    kind = {"postgres": "real[]", "spark": "ARRAY<FLOAT>"}[warehouse.name]
    source = ".".join(map(warehouse.quoted, [checks.TABLE]))
    single = f"CAST({warehouse.quoted(checks.FEATURES)} AS {kind}) AS v"
    temporary = "TEMPORARY " if warehouse.name == "spark" else ""
    key = warehouse.quoted(checks.ID)
    warehouse.run(f"CREATE {temporary}VIEW single AS SELECT {key} AS id, {single} FROM {source}")
    try:
        found = checks.scored(
            warehouse.run, detector, warehouse.name, table="single", features="v", replace=True
        )
    finally:
        warehouse.run("DROP VIEW single")
    for i, z in enumerate(Z.astype(np.float64)):
        assert found[i][0] == pytest.approx(reference(z), abs=1e-6)
