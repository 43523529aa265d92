"""How machines are named, and where they stand."""

import pytest

from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.ssh.hosts import read_host


def test_behind_its_name_stands_where_a_machine_is() -> None:
    """By level; its name is the same with it and without."""
    host = read_host("ada@pc01:2222  switch=sw1 rack=r-2")
    assert (str(host), host.domains) == ("ada@pc01:2222", {"switch": "sw1", "rack": "r-2"})
    assert read_host("pc01").domains == {}
    for wrong in ("pc01 sw1", "pc01 switch=", "pc01 =sw1", "pc01 a=b=c"):
        with pytest.raises(StellwerkError):
            read_host(wrong)


def test_behind_its_name_stands_who_comes_first_there() -> None:
    """A rule is no level; what can't be done, or is no time, is refused in words."""
    host = read_host("pc01 console=notice quiet=5m rack=r2")
    assert (host.console, host.quiet_ms, host.domains) == ("notice", 300_000, {"rack": "r2"})
    assert (read_host("pc01").console, read_host("pc01").quiet_ms) == ("", 0)
    for wrong in ("console=suspend", "console=maybe", "quiet=0s", "quiet=25h", "quiet=soon"):
        with pytest.raises(StellwerkError) as refused:
            read_host(f"pc01 {wrong}")
        assert refused.value.problems[0].help
