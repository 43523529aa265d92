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
