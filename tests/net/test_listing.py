"""What users can reach changes only where surface.txt is written again, for all to see."""

from __future__ import annotations

import sys

import pytest
from net import surface


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other Pythons write types otherwise")
def test_what_users_can_reach_is_what_is_listed():
    assert surface.changes(list(surface.listing())) == []
