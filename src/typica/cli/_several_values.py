"""Options that take several values in a row."""

from __future__ import annotations

_SEVERAL = ("--columns",)


def spread(arguments: list[str]) -> list[str]:
    """Return arguments in which an option of several values is repeated for each of them.

    Its values end at the next option.

    >>> spread(["fit", "a.parquet", "--columns", "f0", "f1", "--alpha", "0.1"])
    ['fit', 'a.parquet', '--columns', 'f0', '--columns', 'f1', '--alpha', '0.1']
    """
    found: list[str] = []
    option = None  # the one whose values these are
    for argument in arguments:
        if argument.startswith("-") and argument != "-":
            option = argument if argument in _SEVERAL else None
            first = True
        elif option is not None:
            if not first:
                found.append(option)
            first = False
        found.append(argument)
    return found
