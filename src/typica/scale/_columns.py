"""Features, labels and ids out of Arrow's columns."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.errors import InputError, argument, given, listed
from typica.extras import need

LABELS = ("label", "labels")
FEATURES = "features"


@dataclass(frozen=True)
class Columns:
    """Which columns hold what.

    Parameters
    ----------
    features
        One column of lists, or one column of numbers for each feature.
    labels, ids
        One column each, or None.
    skip
        Skip rows without a whole embedding, in place of an error.
    width
        How many numbers an embedding has, if that is known: others are skipped too.
    """

    features: str | tuple[str, ...]
    labels: str | None = None
    ids: str | None = None
    skip: bool = False
    width: int | None = None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of features, whether of lists or of numbers."""
        return (self.features,) if isinstance(self.features, str) else self.features

    @property
    def names(self) -> list[str]:
        """All columns that are read, each once."""
        wanted = (*self.numbers, self.labels, self.ids)
        return list(dict.fromkeys(name for name in wanted if name is not None))


@dataclass(frozen=True)
class Wanted:
    """The columns that a user asks for; see `open_tables`.

    names: those of the columns that a detector was fitted on, in their order, if it knows them.
    on_error: "stop" or "skip" at a row without a whole embedding.
    """

    features: str | None = None
    columns: Sequence[str] | None = None
    labels: Any = None
    ids: str | None = None
    find_labels: bool = False
    names: Sequence[str] | None = None
    on_error: str = "stop"

    def __post_init__(self) -> None:
        if self.on_error not in ("stop", "skip"):
            raise InputError(f"{given('on_error', self.on_error)}: choose stop or skip.")
        if self.features is not None and self.columns is not None:
            both = f"{argument('features')} and {argument('columns')}"
            raise InputError(f"{both}: pass one column of lists, or several columns of numbers.")
        if self.columns is not None and not self._columns_are_names():
            raise InputError(f"{argument('columns')} {self.columns!r}: pass a list of names.")
        if self.features is not None and not isinstance(self.features, str):
            raise InputError(f"{given('features', self.features)}: pass the name of a column.")

    def _columns_are_names(self) -> bool:
        """Tell whether the columns are names: at least one, each a text."""
        if isinstance(self.columns, str) or not isinstance(self.columns, Collection):
            return False
        return len(self.columns) > 0 and all(isinstance(name, str) for name in self.columns)

    def found_in(self, schema: Any, constants: Sequence[str] = ()) -> Columns:
        """Return the columns of a table to read; constants: those that its folders give."""
        labels = self.labels if isinstance(self.labels, str) else None
        if self.labels is None and self.find_labels:
            labels = label_column({*schema.names, *constants})
        features: str | tuple[str, ...]
        if self.columns is not None:
            features = self.in_order(named_columns(self.columns, schema.names))
        elif self._is_by_name(schema):
            features = self.in_order(tuple(schema.names))
        else:
            features = self.features or _column_of_lists(schema)
        return Columns(features, labels, self.ids, self.on_error == "skip")

    def _is_by_name(self, schema: Any) -> bool:
        """Tell whether the detector's columns are read: they are there, or no lists are."""
        if self.features is not None or self.names is None:
            return False
        return set(self.names) <= set(schema.names) or not _columns_of_lists(schema)

    def in_order(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return columns of numbers in the order that the detector knows, without others."""
        if self.names is None:
            return columns
        missing = set(self.names).difference(columns)
        if missing:
            name = next(name for name in self.names if name in missing)
            raise InputError(
                f"has no column {name!r} of features, which the detector was fitted on; use the "
                "names that the columns had there."
            )
        return tuple(self.names)


def named_columns(wanted: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to read of tables in parts; a pattern stands for those that it matches.

    >>> named_columns(["f*"], ["id", "f0", "f1", "f10"])
    ('f0', 'f1', 'f10')
    """
    names: list[str] = []
    for name in wanted:
        found = [name] if name in there else fnmatch.filter(there, name)
        names += found or [name]
    return tuple(dict.fromkeys(names))


def _columns_of_lists(schema: Any) -> list[str]:
    return [field.name for field in schema if _is_list(storage_type(field.type))]


def _column_of_lists(schema: Any) -> str:
    lists = _columns_of_lists(schema)
    if FEATURES in lists:
        return FEATURES
    if len(lists) == 1:
        return str(lists[0])
    found = f"{len(lists)} columns of lists" if lists else "no column of lists"
    named = f" ({', '.join(lists[:5])})" if lists else ""
    raise InputError(
        f"{found}{named}; pass {argument('features', 'COLUMN')}, or "
        f"{argument('columns')} with one column for each feature."
    )


def label_column(names: Collection[str]) -> str | None:
    """Return the column, of tables or an engine's frame, whose name is that of labels, or None."""
    return next((name for name in LABELS if name in names), None)


def missing_column(name: str, there: Iterable[str]) -> InputError:
    """Return the complaint that tables, or an engine's frame, have no column of this name."""
    known = listed(there) or "none"
    return InputError(f"there is no column {name!r}, only {known}; name one of these.")


def check_schema(schema: Any, columns: Columns, constants: Sequence[str] = ()) -> None:
    """Refuse a table that lacks a column or has one of the wrong type.

    constants: columns that the file's folders give.
    """
    for name in columns.names:
        if name not in schema.names and name not in constants:
            raise missing_column(name, schema.names)
        if schema.names.count(name) > 1:
            raise InputError(f"there are several columns {name!r}; give each a name of its own.")
    for name in columns.numbers:
        if name not in schema.names:
            raise InputError(
                f"the column {name!r} comes from the names of folders; features are in the files, "
                "name columns of these."
            )
        _check_features(name, schema.field(name).type, isinstance(columns.features, str))
    if columns.labels is not None and columns.labels in schema.names:
        found = schema.field(columns.labels).type
        if not _is_label(found):
            raise InputError(
                f"the column {columns.labels!r} is of {found}; labels are integers or strings."
            )


def _check_features(name: str, kind: Any, lists: bool) -> None:
    """Refuse a column that is not one of numbers, or of lists of numbers."""
    found = storage_type(kind)
    if lists and _is_list(found):
        found = storage_type(found.value_type)
    elif lists:
        found = None
    if found is None or not _is_number(found):
        wanted = "lists of numbers" if lists else "numbers"
        raise InputError(f"the column {name!r} is of {kind}; features are {wanted}.")


def opened_columns(schema: Any, wanted: Wanted, width: int | None = None) -> Columns:
    """Return the columns of a table to read; refuse a table that lacks them or has other types."""
    columns = wanted.found_in(schema)
    check_schema(schema, columns)
    check_width(schema, columns, width)
    return replace(columns, width=width)


def check_ids(schema: Any, name: str | None, expected: Any) -> None:
    """Refuse a table whose ids are texts if those of the first file are of another type."""
    if name is None or name not in schema.names:
        return
    found = schema.field(name).type
    if _is_text(found) and not _is_text(expected):
        raise InputError(
            f"the column {name!r} is of {found}, and of {expected} in the first file; "
            "write ids of one type."
        )


def check_width(schema: Any, columns: Columns, width: int | None) -> None:
    """Refuse features of a width that is not expected, if the schema tells the width."""
    found = schema_width(schema, columns)
    if width is not None and found not in (None, width):
        raise wrong_table_width(found, width)


def wrong_table_width(found: int | None, width: int) -> InputError:
    """Return the error of a table whose rows do not have the width of others, or the expected."""
    return InputError(f"{found} features per row instead of {width}; pass rows of one layer.")


def schema_width(schema: Any, columns: Columns) -> int | None:
    """Return how many features a row has, if the schema tells."""
    if not isinstance(columns.features, str):
        return len(columns.features)
    found = storage_type(schema.field(columns.features).type)
    size = getattr(found, "list_size", None)
    return None if size is None else int(size)


def _types() -> Any:
    return need("pyarrow.types", "parquet")


def _is_list(found: Any) -> bool:
    types = _types()
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    views = [getattr(types, name, None) for name in ("is_list_view", "is_large_list_view")]
    return any(kind(found) for kind in (*kinds, *filter(None, views)))


def _is_number(found: Any) -> bool:
    types = _types()
    kinds = (types.is_floating, types.is_integer, types.is_boolean, types.is_null)
    return any(kind(found) for kind in kinds)


def _is_label(found: Any) -> bool:
    types = _types()
    if types.is_dictionary(found):
        return _is_label(found.value_type)
    return bool(types.is_integer(found) or types.is_boolean(found) or _is_text(found))


def _is_text(found: Any) -> bool:
    types = _types()
    if types.is_dictionary(found):
        return _is_text(found.value_type)
    view = getattr(types, "is_string_view", None)
    kinds = (types.is_string, types.is_large_string, *filter(None, [view]))
    return any(kind(found) for kind in kinds)


def storage_type(found: Any) -> Any:
    """Return what an extension type, such as a tensor of fixed shape, is stored as."""
    return getattr(found, "storage_type", found)


def take(
    batch: Any, columns: Columns, numbers: Sequence[int]
) -> tuple[AnyArray, AnyArray | None, Any]:
    """Return features, labels and ids of a record batch; bad ones are refused by their row.

    numbers: of the rows, for messages. Features are not copied if Arrow has them as one run of
    numbers.
    """
    if isinstance(columns.features, str):
        features = _matrix_of_lists(batch.column(columns.features), columns.features, numbers)
    else:
        features = _side_by_side(batch, columns.features, numbers)
    labels = None
    if columns.labels is not None:
        labels = take_labels(batch.column(columns.labels), columns.labels, numbers)
    ids = None if columns.ids is None else batch.column(columns.ids)
    return features, labels, ids


def without_embedding(batch: Any, columns: Columns) -> NDArray[np.bool_]:
    """Tell which rows of a record batch have no whole embedding: null, nulls or NaN, infinity.

    Or another width, if it is known which one they have.
    """
    bad = np.zeros(len(batch), dtype=np.bool_)
    for name in columns.numbers:
        column = getattr(batch.column(name), "storage", batch.column(name))
        bad |= _as_bools(column.is_null())
        rows = np.arange(len(batch))
        if isinstance(columns.features, str):
            lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
            bad |= lengths != (columns.width or lengths)
            bad |= lengths == 0
            rows = np.repeat(rows, lengths)
            column = getattr(column.flatten(), "storage", column.flatten())
        missing = _as_bools(column.is_null())
        if _types().is_floating(column.type):
            missing |= ~np.isfinite(column.to_numpy(zero_copy_only=False))
        bad[rows[missing]] = True
    return bad


def _as_bools(column: Any) -> NDArray[np.bool_]:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _matrix_of_lists(column: Any, name: str, numbers: Sequence[int]) -> AnyArray:
    """Return a column of lists in a record batch as a matrix; refuse bad rows by their number."""
    column = getattr(column, "storage", column)
    _check_whole(column, name, numbers)
    rows = len(column)
    width = getattr(column.type, "list_size", None)
    if width is None and rows:
        width = _one_width(column, name, numbers)
    values = getattr(column.flatten(), "storage", column.flatten())
    if values.null_count:
        place = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise _empty(name, numbers[place // int(width or 1)])
    return _arrow_numbers(values).reshape(rows, int(width or 0))


def _one_width(column: Any, name: str, numbers: Sequence[int]) -> int:
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    other = lengths != lengths[0]
    if other.any():
        row = int(np.argmax(other))
        raise InputError(
            f"row {numbers[row]} of the column {name!r} has {lengths[row]} numbers and row "
            f"{numbers[0]} has {lengths[0]}; write rows of one length."
        )
    return int(lengths[0])


def _side_by_side(batch: Any, names: Sequence[str], numbers: Sequence[int]) -> AnyArray:
    """Return columns of numbers in a record batch as a matrix."""
    columns = []
    for name in names:
        column = getattr(batch.column(name), "storage", batch.column(name))
        _check_whole(column, name, numbers)
        columns.append(_arrow_numbers(column))
    return np.column_stack(columns)


def _arrow_numbers(values: Any) -> AnyArray:
    """Return a record batch's array as NumPy's, with numbers for true and false."""
    if _types().is_boolean(values.type):
        values = values.cast("uint8")
    numbers: AnyArray = values.to_numpy(zero_copy_only=False)
    return numbers


def _check_whole(column: Any, name: str, numbers: Sequence[int]) -> None:
    if column.null_count:
        place = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise _empty(name, numbers[place])


def _empty(name: str, row: int) -> InputError:
    return InputError(
        f"row {row} of the column {name!r} is empty; fill it in or leave it out, or, if it is an "
        f"embedding, pass {argument('on_error', 'skip')}."
    )


def take_labels(column: Any, name: str, numbers: Sequence[int]) -> AnyArray:
    """Return a column of labels in a record batch as integers or strings."""
    _check_whole(column, name, numbers)
    types = _types()
    if types.is_dictionary(column.type):
        codes = column.indices.to_numpy(zero_copy_only=False)
        return np.asarray(take_labels(column.dictionary, name, numbers)[codes])
    if types.is_integer(column.type) or types.is_boolean(column.type):
        return _arrow_numbers(column)
    if not len(column):
        return np.empty(0, dtype=np.str_)
    encoded = column.dictionary_encode()
    names = np.array(encoded.dictionary.to_pylist(), dtype=np.str_)
    return np.asarray(names[encoded.indices.to_numpy(zero_copy_only=False)])
