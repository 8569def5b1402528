"""Methods by name, in a package of one method per file: a file added is added everywhere."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, Generic, TypeVar

from typica.errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """The methods of one package: each the class whose `kind` is the name of its module.

    package: the package's dotted name; what: the word for its methods in messages. Modules whose
    names start with an underscore, and `base`, hold no methods.

    >>> Registry("typica.detectors", "detector").find("CTM").__name__
    'CTM'
    """

    def __init__(self, package: str, what: str) -> None:
        self.package = package
        self.what = what

    def names(self) -> list[str]:
        """Return the names of all methods, sorted."""
        path = importlib.import_module(self.package).__path__
        names = (module.name for module in pkgutil.iter_modules(path))
        return sorted(name for name in names if not name.startswith("_") and name != "base")

    def find(self, name: str) -> type[T]:
        """Return the class of a method by its name, in any case and with - for _."""
        wanted = name.lower().replace("-", "_")
        if wanted not in self.names():
            raise InputError(
                f"{self.what} {name!r} is unknown; choose one of {', '.join(self.names())}."
            )
        module = importlib.import_module(f"{self.package}.{wanted}")
        found: type[T] = next(
            item
            for item in vars(module).values()
            if getattr(item, "kind", None) == wanted and isinstance(item, type)
        )
        return found

    def make(self, name: str, **params: Any) -> T:
        """Make an unfitted instance of a method by its name."""
        cls: Any = self.find(name)
        known = sorted(cls().get_params(deep=False))
        unknown = sorted(set(params) - set(known))
        if unknown:
            takes = ", ".join(known) or "none"
            raise InputError(
                f"{self.what} {name!r} has no parameter {unknown[0]!r}; it takes {takes}."
            )
        made: T = cls(**params)
        return made
