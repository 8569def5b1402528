"""Parameters, declared once on a class: what each may be, how the shell writes it, what to say.

    params = {"k": count(), "temperature": positive()}

`check_parameters` checks them all before work starts; the methods' pages show their descriptions,
and `--param` reads texts by them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from typica.errors import InputError, a_kind, given
from typica.written_numbers import exact, meant_decimal


@dataclass(frozen=True)
class Parameter:
    """What a parameter may be.

    Parameters
    ----------
    accepts
        Whether a value is good.
    meaning
        Completes "it is ...".
    complaint
        The message about a bad value, with the fields name, value, kind (its type: "an int") and
        given (name and value as the caller wrote them).

    >>> even = Parameter(lambda v: v % 2 == 0, "an even number", "{name}={value!r} is odd; pass 2.")
    >>> even.describe(), even.parse("4")
    ('an even number', 4)
    >>> even.check("n", 3)
    Traceback (most recent call last):
    typica.errors.InputError: n=3 is odd; pass 2.
    """

    accepts: Callable[[Any], bool]
    meaning: str
    complaint: str

    def describe(self) -> str:
        """Return what the parameter may be, for people."""
        return self.meaning

    def check(self, name: str, value: Any) -> None:
        """Raise unless the parameter of this name may have the value."""
        if not self.accepts(value):
            kind, as_given = a_kind(value), given(name, value)
            raise InputError(
                self.complaint.format(name=name, value=value, kind=kind, given=as_given)
            )

    def parse(self, text: str) -> Any:
        """Return what a text from the shell stands for: JSON, Python's constants, or else itself.

        >>> [positive().parse(text) for text in ("50", "0.1", "true", "None", "cosine")]
        [50, 0.1, True, None, 'cosine']
        """
        constants = {"True": True, "False": False, "None": None}
        try:
            return json.loads(text)
        except ValueError:
            return constants.get(text, text)


@dataclass(frozen=True)
class FromFile(Parameter):
    """A parameter that may be in a file; in the shell, the file's name stands for it.

    holds: "features", a matrix as feature files have it, or "names", one per line.
    """

    holds: Literal["features", "names"] = "features"


def check_parameters(declared: Mapping[str, Parameter], owner: object) -> None:
    """Raise if a declared parameter, an attribute of its owner, has a value it must not have."""
    check_values(declared, {name: getattr(owner, name) for name in declared})


def check_values(declared: Mapping[str, Parameter], values: Mapping[str, Any]) -> None:
    """Raise if a value is not allowed for the parameter of its name.

    >>> check_values({"k": count()}, {"k": 0})
    Traceback (most recent call last):
    typica.errors.InputError: k=0 is not an integer of at least 1; pass k>=1.
    """
    for name, value in values.items():
        declared[name].check(name, value)


# Kinds of parameters


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number; a truth value is not.

    >>> is_number(2), is_number(np.float32(0.5)), is_number(True), is_number("2")
    (True, True, False, False)
    """
    real = isinstance(value, int | float | np.integer | np.floating)
    return real and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Tell whether a value is an integer; a truth value is not, nor is 2.0."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def number(within: Callable[[Any], bool], meaning: str, complaint: str) -> Parameter:
    """Declare a number within limits."""
    return Parameter(lambda value: is_number(value) and bool(within(value)), meaning, complaint)


def positive() -> Parameter:
    """Declare a positive finite number.

    >>> positive().check("temperature", 0)
    Traceback (most recent call last):
    typica.errors.InputError: temperature=0 is not a positive number; pass temperature>0.
    """
    complaint = "{name}={value!r} is not a positive number; pass {name}>0."
    return number(lambda value: 0 < value < np.inf, "a positive number", complaint)


def finite() -> Parameter:
    """Declare a finite number of any sign."""
    complaint = "{name}={value!r} is not a finite number; pass one, e.g. 0.5."
    return number(lambda value: -np.inf < value < np.inf, "a finite number", complaint)


def share(zero: bool = False, one: bool = False) -> Parameter:
    """Declare a share between 0 and 1. zero, one: whether 0 and 1 themselves are allowed.

    >>> share().check("alpha", 2)
    Traceback (most recent call last):
    typica.errors.InputError: alpha=2 is not a share; pass a number above 0 and below 1.
    """
    meaning = f"a number {_limits(zero, one)}"
    complaint = f"{{given}} is not a share; pass {meaning}."
    return Parameter(lambda value: _is_share(exact(value), zero, one), meaning, complaint)


def share_or_count(meaning: str, complaint: str, one: bool = False) -> Parameter:
    """Declare a share (a float) or a count (an integer). one: whether the share may be 1.0.

    >>> either = share_or_count("a share or a count", "{name}={value!r} is neither.")
    >>> either.accepts(0.5), either.accepts(5), either.accepts(1.0), either.accepts(0)
    (True, True, False, False)
    """

    def accepts(value: Any) -> bool:
        if is_whole(value):
            return bool(value >= 1)
        return isinstance(value, float | np.floating) and _is_share(exact(value), False, one)

    return Parameter(accepts, meaning, complaint)


def percentile() -> Parameter:
    """Declare a number from 0 to 100."""
    complaint = "{name}={value!r} is not a percentile; pass a number from 0 to 100."
    return number(lambda value: 0 <= value <= 100, "a percentile, from 0 to 100", complaint)


def count(least: int = 1) -> Parameter:
    """Declare an integer of at least `least`.

    >>> count(2).check("tail", 1)
    Traceback (most recent call last):
    typica.errors.InputError: tail=1 is not an integer of at least 2; pass tail>=2.
    """
    meaning = f"an integer of at least {least}"
    complaint = f"{{name}}={{value!r}} is not {meaning}; pass {{name}}>={least}."
    return Parameter(lambda value: is_whole(value) and value >= least, meaning, complaint)


def sklearn_seed() -> Parameter:
    """Declare a seed that scikit-learn takes.

    >>> sklearn_seed().check("seed", 2**32)
    Traceback (most recent call last):
    typica.errors.InputError: seed=4294967296 is not a seed; pass an integer from 0 to 2**32 - 1.
    """
    meaning = "an integer from 0 to 2**32 - 1"
    complaint = f"{{name}}={{value!r}} is not a seed; pass {meaning}."
    return Parameter(lambda value: is_whole(value) and 0 <= value < 2**32, meaning, complaint)


def truth() -> Parameter:
    """Declare True or False."""
    complaint = "{name}={value!r} is not a truth value; pass True or False."
    return Parameter(lambda value: isinstance(value, bool | np.bool), "True or False", complaint)


def choice(*options: str | None, advice: str | None = None) -> Parameter:
    """Declare one of a few options; `advice` replaces the usual words on what to do.

    >>> choice("inner", "cosine").describe()
    "'inner' or 'cosine'"
    >>> choice("inner", "cosine").check("metric", "dot")
    Traceback (most recent call last):
    typica.errors.InputError: metric='dot' is unknown; choose one of inner, cosine.
    """
    *first, last = map(repr, options)
    meaning = f"{', '.join(first)} or {last}"
    advice = advice or f"choose one of {', '.join(map(str, options))}"
    return Parameter(
        lambda value: value in options, meaning, f"{{name}}={{value!r}} is unknown; {advice}."
    )


def matrix(row: str) -> FromFile:
    """Declare a matrix, or None. row: what each of its rows is.

    >>> matrix("prototype").check("positive", "names.npy")
    Traceback (most recent call last):
    typica.errors.InputError: positive is a str and not a matrix; pass one row per prototype.
    """
    return FromFile(
        lambda value: value is None or (_is_listed(value) and _is_matrix(value)),
        f"a matrix, one row per {row}, or None",
        f"{{name}} is {{kind}} and not a matrix; pass one row per {row}.",
    )


def names() -> FromFile:
    """Declare a list of distinct names, integers or texts, or None.

    >>> names().accepts(["cat", "dog"]), names().accepts(["cat", "cat"]), names().accepts("cat")
    (True, False, False)
    """
    return FromFile(
        lambda value: value is None or (_is_listed(value) and _are_names(value)),
        "a list of distinct names, or None",
        "{name} is {kind} and not a list of distinct names; pass one for each row.",
        "names",
    )


def _is_listed(value: Any) -> bool:
    return isinstance(value, list | tuple) or hasattr(value, "__array__")


def _is_matrix(value: Any) -> bool:
    try:
        return np.ndim(value) == 2
    except ValueError:  # rows of several lengths
        return False


def _are_names(value: Any) -> bool:
    listed = np.asarray(value)
    texts = listed.dtype.kind == "O" and all(isinstance(name, str) for name in listed.flat)
    named = texts or listed.dtype.kind in "iuU"
    return named and listed.ndim == 1 and len(set(listed.tolist())) == len(listed)


def optional(parameter: Parameter) -> Parameter:
    """Let a parameter be None as well.

    >>> optional(percentile()).describe()
    'a percentile, from 0 to 100, or None'
    """
    return Parameter(
        lambda value: value is None or parameter.accepts(value),
        f"{parameter.meaning}, or None",
        parameter.complaint,
    )


def random_numbers(seed: Any) -> np.random.Generator:
    """Check that a parameter is a seed, and return a generator of random numbers.

    >>> random_numbers(-1)
    Traceback (most recent call last):
    typica.errors.InputError: seed=-1 is not a seed; pass an integer of at least 0, or None.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        what = f"{given('seed', seed)} is not a seed"
        raise InputError(f"{what}; pass an integer of at least 0, or None.") from None


def check_share(value: Any, name: str, zero: bool = False, one: bool = False) -> Fraction:
    """Check that a parameter is a share between 0 and 1, and return it as an exact fraction.

    A float is what its decimal notation says, and 1 - 0.9, which prints as 0.09999999999999998, is
    one tenth: the decimal of at most 15 places that lies within the rounding error of a number
    below 1. zero, one: whether 0 and 1 themselves are allowed.

    >>> check_share(0.1, "alpha") == check_share(1 - 0.9, "alpha") == Fraction(1, 10)
    True
    """
    share(zero, one).check(name, value)
    found = exact(value)
    return found if not isinstance(value, float | np.floating) else meant_decimal(found)


def _is_share(found: Fraction, zero: bool, one: bool) -> bool:
    large_enough = found > 0 or (zero and found == 0)
    small_enough = found < 1 or (one and found == 1)
    return large_enough and small_enough


def _limits(zero: bool, one: bool) -> str:
    least = "at least" if zero else "above"
    most = "at most" if one else "below"
    return f"{least} 0 and {most} 1"
