"""Prices over columns: the same as asked cluster by cluster, whatever is demanded."""

from random import Random

import numpy as np
import pytest

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.cluster import Cluster, Costs
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import GpuRequest, Request
from stellwerk.core.place.filters_limits import price_of, prices


def a_cluster(chance: Random, number: int) -> Cluster:
    """One with a price for a node, and for some kinds of cards."""
    kinds = {kind: chance.random() for kind in ("A100", "H100") if chance.random() < 0.6}
    price = chance.choice((chance.random(), chance.random(), -9.0, float("nan"), float("inf")))
    return Cluster(f"c{number}", "ocm", (), costs=Costs(price, kinds))


@pytest.mark.parametrize("seed", range(20))
def test_columns_know_the_price_of_any_demand(seed: int) -> None:
    """To the last digit, and many demands need no more columns than there are kinds."""
    chance = Random(seed)
    columns = FleetColumns(Fleet(tuple(a_cluster(chance, number) for number in range(6))))
    for _ in range(20):
        gpu = GpuRequest(chance.randint(1, 64), kind=chance.choice(("", "A100", "H100", "L4")))
        demand = chance.choice((None, Request(1000), Request(1000, gpu=gpu)))
        nodes = chance.randint(1, 99)
        found = prices(columns, Placement("lab", "p", demand=demand, num_nodes=nodes))
        alone = [price_of(one, demand, nodes) for one in columns.clusters]
        assert np.array_equal(found, alone, equal_nan=True)
    assert len(columns._numbers) <= 5
