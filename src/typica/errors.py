"""Errors and warnings, how their texts name what was passed, and the border that says where.

Every message follows one template: where, what was found, what to do. Inner code raises what was
found and what to do; the place is the public function that was called, and added by its border.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_REASON = 300  # characters of another library's message
_typed: ContextVar[bool] = ContextVar("typed", default=False)  # whether the shell is the caller


class InputError(ValueError):
    """Input that cannot be used: the message says where, what was found and what to do.

    place: the public function that was called, `CTM.fit`, or None where the message says enough, as
    in the shell, which nobody has told a function's name. problems: what is listed below the
    message.
    """

    place: str | None = None
    problems: Sequence[str] = ()

    def lines(self) -> list[str]:
        """Return the message and the problems, each of which is to be one line."""
        message = super().__str__()
        if self.place is not None and not _typed.get():
            message = f"{self.place}: {message}"
        return [message, *(f"  {problem}" for problem in self.problems)]

    def __str__(self) -> str:
        return "\n".join(self.lines())


class FormatError(InputError):
    """A file that is not what it should be: foreign, truncated, altered, or of a newer version."""


class CalibrationWarning(UserWarning):
    """The warning of a threshold that can do less than one would expect, e.g. reject nothing."""


class InputWarning(UserWarning):
    """The warning of input that can be used, but may not be what it is taken for."""


class LogitsWarning(InputWarning):
    """The warning of input that is taken as logits, though nobody said that it is."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of Typica that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "typica"


def argument(name: str, value: object = None) -> str:
    """Return how the user passes an argument: `model=FILE`, or `--model FILE` in the shell.

    A text in capitals stands for a value. Without a value the name is returned.

    >>> argument("model", "FILE"), argument("on_error", "skip"), argument("labels")
    ('model=FILE', "on_error='skip'", 'labels')
    >>> with in_shell():
    ...     argument("model", "FILE"), argument("on_error", "skip"), argument("trust", True)
    ('--model FILE', '--on-error skip', '--trust')
    """
    if _typed.get():
        option = "--" + name.replace("_", "-")
        return option if value is None or value is True else f"{option} {value}"
    if value is None:
        return name
    stands_for_one = isinstance(value, str) and value.isupper()
    return f"{name}={value}" if stands_for_one else f"{name}={value!r}"


def given(name: str, value: object) -> str:
    """Return how an error names what the user has passed: `alpha=2`, or `--alpha 2` if typed.

    >>> given("alpha", None), given("kind", "ROC")
    ('alpha=None', "kind='ROC'")
    """
    return f"{argument(name)} {value}" if _typed.get() else f"{name}={value!r}"


def by_caller(python: str, shell: str) -> str:
    """Return what to do in the words of whoever called: of Python, or of the shell."""
    return shell if _typed.get() else python


def counted(n: int, noun: str) -> str:
    """Return how many of something there are, for an error message.

    >>> counted(1, "input"), counted(2, "input"), counted(2, "class")
    ('1 input', '2 inputs', '2 classes')
    """
    if n == 1:
        return f"{n} {noun}"
    return f"{n} {noun}es" if noun.endswith(("s", "x")) else f"{n} {noun}s"


def a_kind(value: object) -> str:
    """Return what kind of thing a value is, with its article, for an error message.

    >>> a_kind(3), a_kind("three")
    ('an int', 'a str')
    """
    name = type(value).__name__
    sounds_open = name.startswith((*"aeioAEIO", "ndarray"))
    return f"an {name}" if sounds_open else f"a {name}"


def listed(things: Iterable[object], most: int = 8, *, quoted: bool = False) -> str:
    """Return the first few of some things, and how many more there are, for a message.

    >>> listed(["cat", "dog", "owl"], 2), listed(["cat"], quoted=True)
    ('cat, dog and 1 more', "'cat'")
    """
    texts = [repr(thing) if quoted else str(thing) for thing in things]
    shown = ", ".join(texts[:most])
    return f"{shown} and {len(texts) - most} more" if len(texts) > most else shown


def closest(name: str, names: Iterable[str], most: int = 3, cutoff: float = 0.5) -> list[str]:
    """Return, for a message, the names most like a wrong one, best first; none if none is alike.

    cutoff: how much alike, from 0 to 1.

    >>> closest("ctn", ["ctm", "knn", "vim"])
    ['ctm']
    """
    return difflib.get_close_matches(name, list(names), n=most, cutoff=cutoff)


@contextlib.contextmanager
def in_shell() -> Iterator[None]:
    """Let errors that are raised within the block name options of the shell, as `argument` does."""
    token = _typed.set(True)
    try:
        yield
    finally:
        _typed.reset(token)


@contextlib.contextmanager
def about(thing: str) -> Iterator[None]:
    """Begin the message of input errors that leave the block with what they are about.

    >>> with about("train.csv, line 3"):
    ...     raise InputError("'x' is not a number; fix it.")
    Traceback (most recent call last):
    typica.errors.InputError: train.csv, line 3: 'x' is not a number; fix it.
    """
    try:
        yield
    except InputError as error:
        error.args = (f"{thing}: {error.args[0]}",)
        raise


@contextlib.contextmanager
def at(place: str) -> Iterator[None]:
    """Name a place in the input errors that leave the block, where `border` cannot know its name.

    >>> with at("zoo.load('vgg')"):
    ...     raise InputError("no weights come with it; pass weights=FILE.")
    Traceback (most recent call last):
    typica.errors.InputError: zoo.load('vgg'): no weights come with it; pass weights=FILE.
    """
    try:
        yield
    except InputError as error:
        error.place = place
        raise


def border(public: Callable[P, R]) -> Callable[P, R]:
    """Name the decorated function, or class and method, in the input errors that leave it.

    Where one public function calls another, the one that the user called is named. Of a generator,
    errors are named as they come. Arguments that it does not take are refused under that name too.

    >>> @border
    ... def halve(number):
    ...     raise InputError("'x' is not a number; pass one.")
    >>> halve("x")
    Traceback (most recent call last):
    typica.errors.InputError: halve: 'x' is not a number; pass one.
    """

    @functools.wraps(public)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            made = public(*args, **kwargs)
        except InputError as error:
            error.place = _place(public, args)
            raise
        except TypeError:
            _check_call(public, args, kwargs)
            raise
        return _named(made, _place(public, args)) if yields else made

    yields = inspect.isgeneratorfunction(public)
    return guarded


def _named(generator: Any, place: str) -> Any:
    """Return a generator whose input errors name the public function that made it."""
    with at(place):
        yield from generator


def _place(public: Callable[..., object], args: tuple[object, ...]) -> str:
    """Return `CTM.fit` for a method, `CTM` to make or call one, `evaluate` for a function."""
    owner, _, name = public.__qualname__.rpartition(".")
    if not owner or owner.endswith("<locals>") or not args:
        return name
    kind = args[0] if isinstance(args[0], type) else type(args[0])
    constructs = name in ("__init__", "__post_init__", "__call__", "forward")
    return kind.__name__ if constructs else f"{kind.__name__}.{name}"


def _check_call(
    public: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, Any]
) -> None:
    """Raise a TypeError that names the public function, if it does not take these arguments.

    Python would name the class that the method was written in, which may be a private one.
    """
    signature = inspect.signature(public)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        place = _place(public, args)
        known = signature.parameters.values()
        by_place = [p for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        by_name = [p.name for p in known if p.kind is p.KEYWORD_ONLY]
        if by_name and len(args) > len(by_place):
            raise TypeError(f"{place}: {error}; pass {', '.join(by_name)} by name.") from None
        raise TypeError(f"{place}: {error}.") from None


def reason_of(error: BaseException, length: int = _REASON) -> str:
    """Return the first line of another library's error, which may have many, or its kind."""
    text = getattr(error, "strerror", None) or str(error)
    first = text.strip().partition("\n")[0].removesuffix(":")
    return first[:length] or type(error).__name__
