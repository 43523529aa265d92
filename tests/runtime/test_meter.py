"""What a keeper counts reaches the wrapper, and stays when the keeper has gone."""

import os

from stellwerk.runtime.guests import Guests
from stellwerk.runtime.loop import Loop
from stellwerk.runtime.meter import Meter


def test_numbers_are_shared_with_a_child() -> None:
    """Each has its place."""
    meter = Meter()
    pid = os.fork()
    if not pid:
        meter.count(7, typed=True)
        meter.count(2**40, typed=False)
        os._exit(0)
    os.waitpid(pid, 0)
    meter.tell_notice(30_999)
    assert (meter.typed_bytes, meter.carried_bytes, meter.grace_s) == (7, 2**40, 31)


def test_a_keeper_that_has_gone_still_counts() -> None:
    """What was typed and transferred never becomes less."""
    guests = Guests(Loop(), lambda: None)
    guests.keepers = {1: Meter(), 2: Meter()}
    for typed, meter in enumerate(guests.keepers.values()):
        meter.count(5, typed=bool(typed))
    told = {"guest_typed_bytes": 5, "guest_carried_bytes": 5}
    assert guests.carried() == told
    assert guests.child_ended(1)
    assert not guests.child_ended(1)
    assert guests.carried() == told
