"""How DuckDB, Spark SQL and PostgreSQL write the same things: arrays, sums, texts, tables.

All of them compute in double precision. Each row is processed by itself, in one scan: no join by a
key, no sort, no shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from typica.errors import InputError, given
from typica.scale.sql._names import check_name, hexadecimal, is_plain, parts_of

Name = str | Sequence[str]


class Dialect:
    """How one kind of server writes it. Arguments and results are SQL, unless they are names."""

    name: ClassVar[str]
    double: ClassVar[str] = "DOUBLE"
    integer: ClassVar[str] = "BIGINT"
    text: ClassVar[str]
    array: ClassVar[str]
    longest_name: ClassVar[int | None] = None
    begin: ClassVar[str] = "AS ("  # begins a step of a query that is streamed, not kept
    end: ClassVar[str] = ")"
    stored: ClassVar[str] = ""  # how a new table is stored

    # Names and values

    def column(self, name: str, what: str = "column") -> str:
        """Return the name of a column, quoted."""
        return self._quoted(check_name(name, what, self.longest_name))

    def table(self, name: Name, what: str = "table") -> str:
        """Return the name of a table, each part quoted."""
        return ".".join(self.column(part, what) for part in parts_of(name, what))

    def _quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(self, text: str) -> str:
        """Return a text as a value."""
        if "\x00" in text:
            raise InputError(f"class {text!r} holds a null character; rename it.")
        return f"'{text}'" if is_plain(text) else self._from_hexadecimal(hexadecimal(text))

    def _from_hexadecimal(self, digits: str) -> str:
        raise NotImplementedError

    def number(self, value: float) -> str:
        """Return a number as a value of double precision, to the last bit."""
        return f"CAST('{float(value)!r}' AS {self.double})"

    def vector(self, values: Iterable[float]) -> str:
        """Return numbers as an array: one text, which servers read faster than many numbers."""
        raise NotImplementedError

    def as_vector(self, column: str) -> str:
        """Return a column of numbers as an array of double precision."""
        return f"CAST({column} AS {self.array})"

    # Arrays

    def dot(self, a: str, b: str) -> str:
        """Return the sum of the products of two arrays."""
        raise NotImplementedError

    def squared_distance(self, a: str, b: str) -> str:
        """Return the sum of the squared differences of two arrays."""
        raise NotImplementedError

    def each(self, array: str, result: str) -> str:
        """Return an array of `result`, an expression of x, for each item x of an array."""
        raise NotImplementedError

    def total(self, array: str) -> str:
        """Return the sum of an array."""
        raise NotImplementedError

    def largest(self, array: str) -> str:
        """Return the largest item of an array."""
        raise NotImplementedError

    def place(self, array: str, item: str) -> str:
        """Return the place of the first such item of an array, from 1."""
        raise NotImplementedError

    def width(self, array: str) -> str:
        """Return the number of items of an array."""
        raise NotImplementedError

    def finite(self, array: str) -> str:
        """Return how many items of an array are finite numbers."""
        raise NotImplementedError

    def without_null(self, array: str) -> str:
        """Return an array that has no NULL in a form that no server takes to hold one."""
        return array

    def zeros(self, width: str) -> str:
        """Return an array of this many zeros."""
        raise NotImplementedError

    def exp(self, value: str) -> str:
        """Return the exponential of a number that is not positive."""
        return f"exp({value})"

    # The model, a table with a row for each class

    def model(self, table: str, alias: str, columns: Sequence[str]) -> str | None:
        """Return the query that gathers the rows of a model's table, None if they are not."""
        raise NotImplementedError

    def each_row(self, alias: str, table: str, result: str) -> str:
        """Return an array of `result`, an expression of the columns of c, by place."""
        raise NotImplementedError

    def at(self, alias: str, table: str, place: str, column: str) -> str:
        """Return the value of a column in the model's row at a place."""
        raise NotImplementedError

    # The fit

    def exploded(self, columns: str, array: str, source: str) -> str:
        """Return a query for one row (columns, i, x) for each item x of an array, i its place."""
        raise NotImplementedError

    def gathered(self, value: str, by: str) -> str:
        """Return the aggregate that makes an array of values, in the order of another column."""
        raise NotImplementedError

    def refuse(self, message: str) -> str:
        """Return an expression of double precision that ends the query with a message."""
        raise NotImplementedError


class DuckDB(Dialect):
    """DuckDB, 1.0 and later."""

    name = "duckdb"
    text = "VARCHAR"
    array = "DOUBLE[]"
    begin = "AS NOT MATERIALIZED ("

    def _from_hexadecimal(self, digits: str) -> str:
        return f"decode(unhex('{digits}'))"

    def vector(self, values: Iterable[float]) -> str:
        return f"CAST('[{_listed(values)}]' AS DOUBLE[])"

    def dot(self, a: str, b: str) -> str:
        return f"list_dot_product({a}, {b})"

    def squared_distance(self, a: str, b: str) -> str:
        return f"power(list_distance({a}, {b}), 2)"

    def each(self, array: str, result: str) -> str:
        return f"[{result} FOR x IN {array}]"

    def total(self, array: str) -> str:
        return f"list_sum({array})"

    def largest(self, array: str) -> str:
        return f"list_max({array})"

    def place(self, array: str, item: str) -> str:
        return f"list_position({array}, {item})"

    def width(self, array: str) -> str:
        return f"len({array})"

    def finite(self, array: str) -> str:
        return f"len([x FOR x IN {array} IF isfinite(x)])"

    def without_null(self, array: str) -> str:
        # Its products refuse a NULL in any row of a block, used or not, but not in new arrays.
        return f"[coalesce(x, 0) FOR x IN {array}]"

    def zeros(self, width: str) -> str:
        return f"[CAST(0 AS DOUBLE) FOR x IN range({width})]"

    def model(self, table: str, alias: str, columns: Sequence[str]) -> str | None:
        fields = ", ".join(f"'{column}': {column}" for column in columns)
        return f"SELECT list({{{fields}}} ORDER BY place) AS {alias} FROM {table}"

    def each_row(self, alias: str, table: str, result: str) -> str:
        return f"[{result} FOR c IN {alias}]"

    def at(self, alias: str, table: str, place: str, column: str) -> str:
        return f"({alias}[{place}]).{column}"

    def exploded(self, columns: str, array: str, source: str) -> str:
        items = f"unnest({array}) AS x, generate_subscripts({array}, 1) AS i"
        return f"SELECT {columns}, {items} FROM {source}"

    def gathered(self, value: str, by: str) -> str:
        return f"list({value} ORDER BY {by})"

    def refuse(self, message: str) -> str:
        return f"CAST(error({message}) AS DOUBLE)"


class Spark(Dialect):
    """Spark SQL, 3.4 and later."""

    name = "spark"
    text = "STRING"
    array = "ARRAY<DOUBLE>"
    stored = " USING parquet"

    def _quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def _from_hexadecimal(self, digits: str) -> str:
        return f"CAST(X'{digits}' AS STRING)"

    def vector(self, values: Iterable[float]) -> str:
        return f"CAST(split('{_listed(values)}', ',') AS ARRAY<DOUBLE>)"

    def dot(self, a: str, b: str) -> str:
        return self.total(f"zip_with({a}, {b}, (p, q) -> p * q)")

    def squared_distance(self, a: str, b: str) -> str:
        return self.total(f"zip_with({a}, {b}, (p, q) -> (p - q) * (p - q))")

    def each(self, array: str, result: str) -> str:
        return f"transform({array}, x -> {result})"

    def total(self, array: str) -> str:
        return f"aggregate({array}, CAST(0 AS DOUBLE), (t, x) -> t + x)"

    def largest(self, array: str) -> str:
        return f"array_max({array})"

    def place(self, array: str, item: str) -> str:
        return f"CAST(array_position({array}, {item}) AS INT)"

    def width(self, array: str) -> str:
        return f"size({array})"

    def finite(self, array: str) -> str:
        least, most = self.number(float("-inf")), self.number(float("inf"))
        return f"size(filter({array}, x -> x > {least} AND x < {most}))"

    def zeros(self, width: str) -> str:
        return f"array_repeat(CAST(0 AS DOUBLE), {width})"

    def model(self, table: str, alias: str, columns: Sequence[str]) -> str | None:
        fields = ", ".join(["place", *columns])
        return f"SELECT sort_array(collect_list(struct({fields}))) AS {alias} FROM {table}"

    def each_row(self, alias: str, table: str, result: str) -> str:
        return f"transform({alias}, c -> {result})"

    def at(self, alias: str, table: str, place: str, column: str) -> str:
        return f"get({alias}, {place} - 1).{column}"

    def exploded(self, columns: str, array: str, source: str) -> str:
        return f"SELECT {columns}, i, x FROM {source} LATERAL VIEW posexplode({array}) e AS i, x"

    def gathered(self, value: str, by: str) -> str:
        pairs = f"sort_array(collect_list(struct({by} AS i, {value} AS x)))"
        return f"transform({pairs}, e -> e.x)"

    def refuse(self, message: str) -> str:
        return f"CAST(raise_error({message}) AS DOUBLE)"


class Postgres(Dialect):
    """PostgreSQL, 12 and later, without extensions.

    It refuses products and exponentials that underflow: numbers may be 0, or from 1e-100 to 1e100
    in size.
    """

    name = "postgres"
    double = "double precision"
    text = "text"
    array = "double precision[]"
    longest_name = 63
    end = "OFFSET 0)"  # so that a step is not computed again for each use of its result

    def _from_hexadecimal(self, digits: str) -> str:
        return f"convert_from(decode('{digits}', 'hex'), 'UTF8')"

    def vector(self, values: Iterable[float]) -> str:
        return f"CAST('{{{_listed(values)}}}' AS double precision[])"

    def dot(self, a: str, b: str) -> str:
        return f"(SELECT sum(p * q) FROM unnest({a}, {b}) AS e(p, q))"

    def squared_distance(self, a: str, b: str) -> str:
        return f"(SELECT sum((p - q) * (p - q)) FROM unnest({a}, {b}) AS e(p, q))"

    def each(self, array: str, result: str) -> str:
        return f"ARRAY(SELECT {result} FROM unnest({array}) WITH ORDINALITY AS e(x, i) ORDER BY i)"

    def total(self, array: str) -> str:
        return f"(SELECT sum(x) FROM unnest({array}) AS e(x))"

    def largest(self, array: str) -> str:
        return f"(SELECT max(x) FROM unnest({array}) AS e(x))"

    def place(self, array: str, item: str) -> str:
        return f"array_position({array}, {item})"

    def width(self, array: str) -> str:
        return f"cardinality({array})"

    def finite(self, array: str) -> str:
        least, most = self.number(float("-inf")), self.number(float("inf"))
        items = f"unnest({array}) AS e(x)"
        return f"(SELECT count(*) FROM {items} WHERE x > {least} AND x < {most})"

    def zeros(self, width: str) -> str:
        return f"array_fill(CAST(0 AS double precision), ARRAY[{width}])"

    def exp(self, value: str) -> str:
        return f"exp(greatest({value}, -700))"  # below 1e-304, which is nothing beside 1

    def model(self, table: str, alias: str, columns: Sequence[str]) -> str | None:
        return None

    def each_row(self, alias: str, table: str, result: str) -> str:
        return f"ARRAY(SELECT {result} FROM {table} AS c ORDER BY c.place)"

    def at(self, alias: str, table: str, place: str, column: str) -> str:
        return f"(SELECT c.{column} FROM {table} AS c WHERE c.place = {place})"

    def exploded(self, columns: str, array: str, source: str) -> str:
        items = f"unnest({array}) WITH ORDINALITY AS e(x, i)"
        return f"SELECT {columns}, i, x FROM {source} CROSS JOIN LATERAL {items}"

    def gathered(self, value: str, by: str) -> str:
        return f"array_agg({value} ORDER BY {by})"

    def refuse(self, message: str) -> str:
        # There is no function that raises; the text which is not a number is in the message.
        return f"CAST({message} AS double precision)"


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (DuckDB(), Spark(), Postgres())
}


def find_dialect(name: str) -> Dialect:
    """Return a dialect by its name.

    >>> find_dialect("mysql")
    Traceback (most recent call last):
    typica.errors.InputError: dialect='mysql' is unknown; choose one of duckdb, spark, postgres.
    """
    if name not in DIALECTS:
        raise InputError(
            f"{given('dialect', name)} is unknown; choose one of {', '.join(DIALECTS)}."
        )
    return DIALECTS[name]


def _listed(values: Iterable[float]) -> str:
    return ",".join(map(repr, map(float, values)))
