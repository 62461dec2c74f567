"""What a sample says while it imports what a machine may lack."""

import warnings

from common.errors import importing


def test_a_recommendation_of_pyopencls_packages_is_not_shown(recwarn):
    with importing():
        warnings.warn("Unable to import recommended hash 'siphash24.siphash13'", stacklevel=1)
        warnings.warn("another", stacklevel=1)
    assert [str(item.message) for item in recwarn] == ["another"]
