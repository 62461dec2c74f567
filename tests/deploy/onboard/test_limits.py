"""The limits that host and board share."""

from common import manifest
from deploy.onboard import limits


def test_a_name_is_the_same_on_the_host_and_on_boards():
    assert manifest.NAME.pattern == limits.NAME
