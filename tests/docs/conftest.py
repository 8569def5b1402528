"""What the tests of the documentation share."""

from __future__ import annotations

import sys
from functools import cache

import pytest
from helpers.pages import DOCS

from typica.bench import digits

sys.path[:0] = [str(DOCS), str(DOCS / "tools")]


@pytest.fixture(scope="session")
def loaded():
    """Load the suite digits, once: pages load it each for themselves."""
    return cache(digits.load)


@pytest.fixture
def quick_digits(loaded, monkeypatch):
    """Let every page have the same suite, which is what `load` gives each time."""
    monkeypatch.setattr(digits, "load", loaded)
