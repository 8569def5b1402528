"""The errors and warnings that Typica raises on purpose.

Every message follows one template: where, what was found, what to do.
"""


class InputError(ValueError):
    """Input that cannot be used: the message says where, what was found and what to do."""


class FormatError(InputError):
    """A file that is not what it should be: foreign, truncated, altered, or written by a newer version."""


class CalibrationWarning(UserWarning):
    """A threshold that can do less than one would expect, e.g. reject nothing."""
