"""Methods by name: those in the files of their package, and those of installed plugins."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, Generic, TypeVar

from typica import plugins
from typica.errors import InputError, a_kind, by_caller, closest

T = TypeVar("T")


class Registry(Generic[T]):
    """The methods of one package: each the class whose `kind` is the name of its module.

    package: the package's dotted name, and the group of entry points by which other packages add to
    it; what: the word for its methods in messages. Modules whose names start with an underscore,
    and `base`, hold no methods.

    >>> Registry("typica.detectors", "detector").find("CTM").__name__
    'CTM'
    """

    def __init__(self, package: str, what: str) -> None:
        self.package = package
        self.what = what

    def names(self) -> list[str]:
        """Return the names of all methods, sorted."""
        return sorted({*self._own(), *plugins.installed(self.package)})

    def _own(self) -> list[str]:
        path = importlib.import_module(self.package).__path__
        names = (module.name for module in pkgutil.iter_modules(path))
        return [name for name in names if not name.startswith("_") and name != "base"]

    def find(self, name: str) -> type[T]:
        """Return the class of a method by its name, in any case and with - for _."""
        if not isinstance(name, str):
            raise InputError(f"{a_kind(name)} is no name; {self._lists_all()}.")
        wanted = name.lower().replace("-", "_")
        if wanted not in self.names():
            close = ", ".join(closest(wanted, self.names()))
            best = f"the closest: {close}; " if close else ""
            raise InputError(f"{self.what} {name!r} is unknown; {best}{self._lists_all()}.")
        if wanted not in self._own():
            return self._plugin(wanted)
        module = importlib.import_module(f"{self.package}.{wanted}")
        found: type[T] = next(item for item in vars(module).values() if _is_kind(item, wanted))
        return found

    def _lists_all(self) -> str:
        """Return what lists all names, for a message."""
        python = f"typica.list_{self.what}s() lists all"
        shell = f"choose one of {', '.join(self.names())}"
        if self.what == "detector":
            shell = "`typica detectors` lists all"
        return by_caller(python, shell)

    def _plugin(self, name: str) -> type[T]:
        found: type[T] = plugins.load(plugins.installed(self.package)[name])
        if not _is_kind(found, name):
            raise InputError(
                f"{self.what} {name!r}: the package that brings it has no class of that name; "
                f"write @storable({name!r}) above it."
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


def _is_kind(item: Any, kind: str) -> bool:
    return isinstance(item, type) and getattr(item, "kind", None) == kind
