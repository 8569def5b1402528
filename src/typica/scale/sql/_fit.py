"""The fit of class means in SQL."""

from __future__ import annotations

from typica.errors import border
from typica.scale.sql._dialects import Dialect, Name, find_dialect
from typica.scale.sql._score import MEANS
from typica.scale.sql._script import Script, Steps

# A mean shorter than this times the features' root mean square length is noise, as in CTM.fit.
_ZERO_MEAN = 1e-6


@border
def fit_sql(
    dialect: str = "duckdb",
    *,
    table: Name = "train",
    features: str = "embedding",
    labels: str = "label",
    means: Name = MEANS,
    replace: bool = False,
) -> Script:
    """Return the fit of class means as SQL: the statements of `setup` make the table `means`.

    It has the columns place, class, n (rows), mean and vector (the mean scaled to length 1), which
    `score_sql("ctm", ...)` reads. The query shows classes, rows and means:
    `CTM().partial_fit(means, classes)` is the same detector in Python. Rows without a label or
    without features are left out. A class stops the statement with a message if its rows differ in
    width, if they hold NULL, NaN or infinity, or if their mean is zero.

    Parameters
    ----------
    dialect
        "duckdb", "spark" or "postgres".
    table, features, labels
        The training rows: a table or view, its column of arrays, its column of class names.
    means
        The table to make.
    replace
        Whether to drop a table of that name first.
    """
    sql = find_dialect(dialect)
    name = sql.table(means, "means")
    setup = [f"DROP TABLE IF EXISTS {name}"] if replace else []
    query = _means(sql, sql.table(table), features, labels)
    setup.append(f"CREATE TABLE {name}{sql.stored} AS\n{query}")
    return Script(sql.name, tuple(setup), f"SELECT class, n, mean FROM {name} ORDER BY place")


def _means(sql: Dialect, table: str, features: str, labels: str) -> str:
    label = sql.column(labels, "labels")
    array = sql.column(features, "features")
    steps = Steps(sql)
    steps.first(
        "typica_input",
        f"SELECT {label} AS class, {sql.as_vector(array)} AS z\n"
        f"  FROM {table} WHERE {label} IS NOT NULL AND {array} IS NOT NULL",
    )
    steps.first("typica_items", sql.exploded("class", "z", "typica_input"))
    steps.first(
        "typica_sums",
        "SELECT class, i, count(*) AS n, count(*) - count(x) AS missing,\n"
        f"    sum(x) / {_many(sql)} AS mean, sum(x * x) / {_many(sql)} AS squares\n"
        "  FROM typica_items GROUP BY class, i",
    )
    steps.first(
        "typica_classes",
        "SELECT class, max(n) AS n, max(n) - min(n) + max(missing) AS uneven,\n"
        f"    sum(squares) AS squares, {sql.gathered('mean', 'i')} AS mean\n"
        "  FROM typica_sums GROUP BY class",
    )
    whole = f"uneven = 0 AND {sql.finite('mean')} = {sql.width('mean')}"
    length = f"CASE WHEN {whole} THEN sqrt({sql.dot('mean', 'mean')}) END AS length"
    widest = f"max({sql.width('mean')}) OVER () AS widest"
    steps.then("typica_lengths", "class", "n", "squares", "mean", length, widest)
    good = f"{sql.width('mean')} = widest AND length > {sql.number(_ZERO_MEAN)} * sqrt(squares)"
    message = f"{sql.literal('Typica, class ')} || CAST(class AS {sql.text}) || {_REASON}"
    checked = f"CASE WHEN {good} THEN length ELSE {sql.refuse(message)} END AS length"
    steps.then("typica_checked", "class", "n", "mean", checked)
    place = "row_number() OVER (ORDER BY class) AS place"
    return steps.finish(place, "class", "n", "mean", f"{sql.each('mean', 'x / length')} AS vector")


def _many(sql: Dialect) -> str:
    return f"CAST(count(*) AS {sql.double})"


_REASON = "', its rows differ in width, or hold NULL, NaN or infinity, or their mean is zero'"
