"""Filters of other libraries' warnings that say nothing here; within `catch_warnings`."""

from __future__ import annotations

import warnings


def ignore_missing_names() -> None:
    """Filter out the warning of scikit-learn that an array has no column names.

    Within `warnings.catch_warnings`, for rows of files: their columns are compared by name where
    they are read.
    """
    warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)


def ignore_broken_metadata() -> None:
    """Filter out what Pillow warns of broken metadata, which no pixel depends on.

    Within `warnings.catch_warnings`, for processes that are ours: the shell, and the server.
    """
    warnings.filterwarnings("ignore", module=r"PIL\.(Jpeg|Png|Tiff)ImagePlugin$")
