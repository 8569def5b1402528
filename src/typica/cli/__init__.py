"""The `typica` command. Commands read files, call the library and show the result; none decides."""

from typica.cli._main import main

__all__ = ["main"]
