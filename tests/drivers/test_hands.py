"""What a far hand refuses, as an error with a name of its own."""

import errno

import pytest

from stellwerk.drivers.agents.hands import refusal_of


@pytest.mark.parametrize(
    ("told", "code", "final"),
    [
        ({"code": "machine", "errno": errno.ENOSPC}, "snapshot/disk-full", True),
        ({"code": "machine", "errno": errno.EDQUOT}, "snapshot/disk-full", True),
        ({"code": "machine", "errno": errno.EIO}, "runtime/machine", False),
        ({"code": "content_missing"}, "snapshot/missing", True),
        ({"code": "outside"}, "runtime/outside", True),
    ],
)
def test_a_full_disk_and_a_used_up_quota_are_one_cause(
    told: dict[str, object], code: str, final: bool
) -> None:
    """Which is final, since another try would find the same."""
    refusal = refusal_of("pc07", {**told, "message": "it says why"})
    assert (refusal.code, refusal.final) == (code, final)
    assert "pc07" in refusal.message
    assert "it says why" in refusal.message
