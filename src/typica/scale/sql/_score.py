"""Scores in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from typica.errors import InputError, argument, border, given
from typica.scale.sql._dialects import Dialect, Name, find_dialect
from typica.scale.sql._models import Model, model_of
from typica.scale.sql._names import parts_of
from typica.scale.sql._script import Script, Steps, fill

MEANS = "typica_means"  # the table of class means, if no other name is given
_RESULTS = ("score", "nearest", "typical")


@border
def score_sql(
    detector: Any,
    dialect: str = "duckdb",
    *,
    table: Name = "embeddings",
    features: str = "embedding",
    id_columns: Sequence[str] = ("id",),
    means: Name = MEANS,
    view: Name | None = None,
    replace: bool = False,
) -> Script:
    """Return the scoring of a fitted detector as SQL: CTM, CW, Mahalanobis, MSP, Energy, MaxLogit.

    The query gives for each row of `table` its `id_columns`, `score` and `nearest` and, where the
    detector has a threshold, `typical`. A row that is NULL, has another width, or holds NULL, NaN
    or infinity scores NULL.

    Parameters
    ----------
    detector
        A fitted detector; or "ctm", for class means that `fit_sql` computes in the server.
    dialect
        "duckdb", "spark" or "postgres".
    table, features
        What to score: a table or view and its column, an array of numbers. A name may be
        "schema.table"; double quotes around a part, or a sequence of parts, keep its dots.
    id_columns
        The columns to pass through.
    means
        The table that the statements of `setup` make for the vectors of the classes; for
        Mahalanobis another one, with "_axes" after its name, holds the axes.
    view
        Make the query a view of this name.
    replace
        Whether to drop tables and views of these names first.

    >>> import numpy as np, typica
    >>> detector = typica.CTM().fit(np.eye(20) + 1.0, np.arange(20) % 2)
    >>> script = score_sql(detector, "duckdb", table="photos")
    >>> print(script.setup[0])
    CREATE TABLE "typica_means" (place INT, class BIGINT, vector DOUBLE[])
    """
    sql = find_dialect(dialect)
    model = model_of(detector)
    names = Names.of(sql, means)
    setup = _setup(sql, model, names, replace)
    scoring = Scoring(sql, model, names)
    ids = _checked_ids(id_columns)
    query = scoring.query(sql.table(table), sql.column(features, "features"), ids)
    if view is not None:
        named = sql.table(view, "view")
        query = f"CREATE VIEW {named} AS\n{query}"
        if replace:
            setup.insert(0, f"DROP VIEW IF EXISTS {named}")
    return Script(sql.name, tuple(setup), query)


class Names(NamedTuple):
    """The tables of a model, quoted: of the vectors of classes, and of axes."""

    means: str
    axes: str

    @classmethod
    def of(cls, sql: Dialect, means: Name) -> Names:
        """Return the tables' names, made from that of the first."""
        *before, last = parts_of(means, "means")
        axes = [*before, f"{last}_axes"]
        return cls(sql.table([*before, last], "means"), sql.table(axes, "means"))


def _setup(sql: Dialect, model: Model, names: Names, replace: bool) -> list[str]:
    """Return the statements that make the tables of a model."""
    made: list[str] = []
    for name, table in ((names.means, model.means), (names.axes, model.axes)):
        if table is None:
            continue
        if replace:
            made.append(f"DROP TABLE IF EXISTS {name}")
        made += fill(sql, name, table)
    return made


def _checked_ids(columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        raise InputError(f"{given('id_columns', columns)}: pass a list of names.")
    taken = [name for name in columns if str(name).lower() in _RESULTS]
    if taken:
        raise InputError(
            f"{argument('id_columns')}: {taken[0]!r} is a column of the result; "
            "rename it, in a view, say."
        )
    if len(set(columns)) < len(columns):
        raise InputError(f"{argument('id_columns')}: a column is named twice; name each once.")
    return list(columns)


class Scoring:
    """The query of one model in one dialect, step by step."""

    def __init__(self, sql: Dialect, model: Model, names: Names) -> None:
        self._sql = sql
        self._model = model
        self._names = names
        self._steps = Steps(sql)
        self._classes: str | None = None  # what a step joins to get the rows of the model

    def query(self, table: str, features: str, id_columns: list[str]) -> str:
        """Return the query for a column of a table."""
        sql, steps = self._sql, self._steps
        ids = [sql.column(name, "id column") for name in id_columns]
        keys = [f"k{i}" for i in range(len(ids))]
        pairs = list(zip(ids, keys, strict=True))
        read = [*(f"{name} AS {key}" for name, key in pairs), f"{sql.as_vector(features)} AS z"]
        steps.first("typica_input", f"SELECT {', '.join(read)} FROM {table}")
        steps.hand_on(*keys)
        self._check()
        self._gather()
        rules = {"cosine": self._cosines, "distance": self._distances, "logits": self._logits}
        rules[self._model.rule]()
        shown = [f"{key} AS {name}" for name, key in pairs]
        return steps.finish(*shown, *self._verdict(), join=self._classes)

    def _check(self) -> None:
        """Let the SQL find which rows can be scored, and replace the others with zeros."""
        sql, width = self._sql, self._width()
        usable = f"{sql.width('z')} = {width} AND {sql.finite('z')} = {width}"
        self._steps.then("typica_checked", "z", f"{usable} AS usable")
        self._steps.hand_on("usable")
        filled = f"CASE WHEN usable THEN {sql.without_null('z')} ELSE {sql.zeros(width)} END AS z"
        self._steps.then("typica_rows", filled)

    def _width(self) -> str:
        """Return how many numbers a row must have."""
        sql = self._sql
        if self._model.width is not None:
            return str(self._model.width)
        if self._model.has_table:
            return f"(SELECT max({sql.width('vector')}) FROM {self._names.means})"
        return f"greatest({sql.width('z')}, 1)"

    def _gather(self) -> None:
        """Put the rows of the model beside the steps, if the dialect gathers them."""
        if not self._model.has_table:
            return
        columns = ["class", "vector"]
        means = self._model.means
        if means is not None and means.shifts is not None:
            columns.append("shift")
        if means is not None and means.thresholds is not None:
            columns.append("threshold")
        gathered = self._sql.model(self._names.means, "classes", columns)
        if gathered is not None:
            self._steps.beside("typica_classes", gathered)
            self._classes = "typica_classes"

    def _cosines(self) -> None:
        sql, steps = self._sql, self._steps
        # Divided by the largest first, so that squares neither overflow nor underflow.
        steps.then("typica_sizes", "z", f"{sql.largest(sql.each('z', 'abs(x)'))} AS reach")
        steps.hand_on("reach")
        scaled = f"CASE WHEN reach > 0 THEN {sql.each('z', 'x / reach')} ELSE z END AS z"
        steps.then("typica_scaled", scaled)
        length = f"CASE WHEN reach > 0 THEN sqrt({sql.dot('z', 'z')}) ELSE 1 END AS length"
        steps.then("typica_lengths", "z", length)
        self._match(f"{sql.dot('z', 'c.vector')} / length")
        # A zero row has no direction: it is as far from every class as a cosine can be.
        self._score(f"CASE WHEN reach = 0 THEN -1 ELSE {self._model.score(sql)} END")

    def _distances(self) -> None:
        sql, steps, table = self._sql, self._steps, self._names.axes
        axes = sql.model(table, "axes", ["vector", "shift"])
        if axes is not None:
            steps.beside("typica_axes", axes)
        along = sql.each_row("axes", table, f"{sql.dot('z', 'c.vector')} - c.shift")
        steps.then("typica_moved", f"{along} AS u", join=axes and "typica_axes")
        self._match(f"{sql.squared_distance('u', 'c.vector')} / -2")
        self._score(self._model.score(sql))

    def _logits(self) -> None:
        sql = self._sql
        if self._model.has_table:
            self._match(f"{sql.dot('z', 'c.vector')} + c.shift")
        else:
            self._steps.then("typica_matched", "z AS s")
        self._score(self._model.score(sql))

    def _match(self, similarity: str) -> None:
        """Add the similarities s to all classes; `similarity` is that to the class c."""
        matched = self._sql.each_row("classes", self._names.means, similarity)
        self._steps.then("typica_matched", f"{matched} AS s", join=self._classes)

    def _score(self, score: str) -> None:
        """Add the score, of s and their largest, and the place of the best class."""
        sql = self._sql
        self._steps.then("typica_best", "s", f"{sql.largest('s')} AS top")
        self._steps.then("typica_scored", f"{score} AS score", f"{sql.place('s', 'top')} AS best")

    def _verdict(self) -> list[str]:
        """Return the columns of the result."""
        sql, model, table = self._sql, self._model, self._names.means
        columns = {"score": "score", "nearest": "best - 1"}  # the place of a logit
        if model.has_table:
            columns["nearest"] = sql.at("classes", table, "best", "class")
        if model.means is not None and model.means.thresholds is not None:
            own = sql.at("classes", table, "best", "threshold")
            columns["typical"] = f"score >= {own}"
        elif model.threshold is not None:
            columns["typical"] = f"score >= {sql.number(model.threshold)}"
        return [f"CASE WHEN usable THEN {value} END AS {name}" for name, value in columns.items()]
