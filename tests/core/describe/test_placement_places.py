"""Where something of a placement stands in a fleet file."""

from stellwerk.core.describe.placement_places import places_in

TEXT = """kind: List
items:
- kind: Placement
  metadata: {name: p}
  spec:
    predicates:
    - requiredClusterSelector: {}
---
kind: Cluster
name: a
---
kind: Placement
metadata: {name: p, namespace: n}
spec:
  tolerations:
  - {key: a}
  - key: b
"""


def test_what_is_written_has_its_place() -> None:
    """In lists of objects too; of what isn't written, what it would be in."""
    wanted = [
        ("default/p", "predicates[0].requiredClusterSelector.celSelector"),
        ("n/p", "tolerations[1]"),
        ("n/p", "tolerations[7].key"),
        ("n/p", "numberOfClusters"),
        ("n/q", "tolerations[1]"),
    ]
    assert places_in(TEXT, wanted) == {
        wanted[0]: (7, 32),
        wanted[1]: (17, 5),
        wanted[2]: (16, 3),
        wanted[3]: (15, 3),
    }
