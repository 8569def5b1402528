"""Names and texts in SQL, so that none of them can end its quotes.

A text with more than letters, digits and a few marks is written in hexadecimal, so that no server
setting (backslashes), no client (`;`, `:name`) and no template (`${name}`) misreads it. A name has
no such form; one that cannot be written safely between quotes is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from typica.errors import InputError

_MARKS = frozenset(" _-.,/()+")


def is_plain(text: str) -> bool:
    """Tell whether a text may stand between quotes as it is.

    >>> is_plain("snow leopard"), is_plain("l'été"), is_plain("${env:HOME}")
    (True, False, False)
    """
    return all(letter.isalnum() or letter in _MARKS for letter in text)


def hexadecimal(text: str) -> str:
    """Return the bytes of a text in UTF-8, in hexadecimal.

    >>> hexadecimal("a'")
    '6127'
    """
    return text.encode().hex()


def check_name(name: object, what: str, longest: int | None = None) -> str:
    """Return the name of a table or column; refuse one that cannot be quoted.

    longest: how many bytes of a name a server keeps, if it cuts off the rest.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"{what} {name!r} is not a name; pass a text.")
    if not name.isprintable() or "${" in name:
        raise InputError(
            f"{what} {name!r} cannot be written in SQL; give it a plain name, in a view, say."
        )
    if longest is not None and len(name.encode()) > longest:
        raise InputError(
            f"{what} {name!r} is longer than the {longest} bytes of a name; "
            "give it a shorter one, in a view, say."
        )
    return name


def parts_of(name: str | Sequence[str], what: str) -> list[str]:
    """Return the parts of a table's name: catalogue, schema and table, as far as they are given.

    A text is split at its dots, except between double quotes; a sequence is used as it is.

    >>> parts_of("main.rows", "table"), parts_of('"a.b".rows', "table"), parts_of(["a.b"], "table")
    (['main', 'rows'], ['a.b', 'rows'], ['a.b'])
    """
    if not isinstance(name, str):
        return [check_name(part, what) for part in name]
    parts = [""]
    quoted = False
    for letter in name:
        if letter == '"':
            quoted = not quoted
        elif letter == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    if quoted:
        raise InputError(f"{what} {name!r} has an odd number of quotes; close the last one.")
    if len(parts) > 3:
        raise InputError(
            f"{what} {name!r} has {len(parts)} parts; pass at most catalogue.schema.table, "
            "with double quotes around a part that has a dot."
        )
    return [check_name(part, what) for part in parts]
