from hypothesis import given

from mtlmon.testing import assert_holds
from mtlmon.testing import strategies as mtl

POLICY = "send IMPLIES NOT PREVIOUS[0,10] ONCE[0,10] send"


def throttle(events):
    """Passes over what comes within 10 time units of the last one sent."""
    last = None
    for time_stamp, atoms in events:
        if "send" in atoms and (last is None or time_stamp - last >= 10):
            last = time_stamp
            yield time_stamp, {"send"}


@given(mtl.traces(POLICY))
def test_throttle(trace):
    assert_holds(POLICY, throttle(trace), unknown="ignore")
