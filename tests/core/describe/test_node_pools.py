"""What SkyPilot's pools of hosts become: clusters with their hosts, and all faults at once."""

import pytest

from stellwerk.core.describe.node_pools import Pool, PoolHost, read_node_pools
from stellwerk.core.model.errors import SpecError

POOLS = """
k017:
  user: ada
  identity_file: ~/.ssh/room
  password: secret
  hosts:
    - pc01
    - 10.0.0.2
    - ip: pc03
      user: bob
      identity_file: ~/.ssh/bob
My_Server:
  hosts: [big]
"""


def test_a_pool_becomes_a_cluster_with_its_hosts() -> None:
    """What a host says of itself holds before what its pool says; passwords aren't used."""
    found = read_node_pools(POOLS)
    ada = "~/.ssh/room"
    hosts = (
        PoolHost("pc01", "ada", ada),
        PoolHost("10.0.0.2", "ada", ada),
        PoolHost("pc03", "bob", "~/.ssh/bob"),
    )
    assert found.pools == (Pool("k017", hosts), Pool("my-server", (PoolHost("big"),)))
    assert [str(one) for one in hosts] == ["ada@pc01", "ada@10.0.0.2", "bob@pc03"]
    assert [one.code for one in found.notices] == ["spec/password", "spec/renamed"]


def test_all_faults_are_told_with_their_places() -> None:
    """A key that nobody knows, a pool without hosts, a host that is none."""
    text = "a:\n  hots: [x]\nb:\n  hosts:\n    - {user: ada}\n    - [1]\n"
    with pytest.raises(SpecError) as caught:
        read_node_pools(text, file="pools.yaml")
    places = [one.place for one in caught.value.problems]
    assert len(places) >= 3
    assert all(place.startswith("pools.yaml:") for place in places)
    assert any("did you mean `hosts`" in one.help for one in caught.value.problems)
    with pytest.raises(SpecError):
        read_node_pools("- pc01\n")
