"""Choosing under spread constraints: the best ranked that keeps the skew, one after the other."""

from random import Random

import numpy as np
import pytest

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.placement import SpreadConstraint
from stellwerk.core.place.spread import Spread


def some_clusters(chance: Random) -> tuple[Cluster, ...]:
    """With up to three labels, each of three values."""
    return tuple(
        Cluster(
            f"c{number:02}",
            "ocm",
            (),
            labels={key: chance.choice("abc") for key in "xyz" if chance.random() < 0.8},
        )
        for number in range(chance.randint(1, 15))
    )


def some_constraints(chance: Random) -> tuple[SpreadConstraint, ...]:
    """One to three, hard or not; nobody has the label `none`."""
    return tuple(
        SpreadConstraint(
            key,
            max_skew=chance.randint(1, 3),
            when_unsatisfiable="DoNotSchedule" if chance.random() < 0.5 else "ScheduleAnyway",
        )
        for key in chance.sample(["x", "y", "z", "none"], chance.randint(1, 3))
    )


def keeps(one: SpreadConstraint, labels: dict[str, str], domains: dict[str, int]) -> bool:
    """Whether one more in its domain leaves the counts within the skew."""
    own = labels.get(one.topology_key)
    return own is not None and domains[own] + 1 - min(domains.values()) <= one.max_skew


def chosen_plainly(
    clusters: tuple[Cluster, ...],
    constraints: tuple[SpreadConstraint, ...],
    ranked: list[int],
    count: int,
) -> list[int]:
    """As the law says it: at each step all that are left are asked, the best ranked first."""
    counts = [
        {each.labels[one.topology_key]: 0 for each in clusters if one.topology_key in each.labels}
        for one in constraints
    ]
    left, chosen = list(ranked), list[int]()
    while len(chosen) < count:
        verdicts = {
            place: [
                keeps(one, clusters[place].labels, domains)
                for one, domains in zip(constraints, counts, strict=True)
            ]
            for place in left
        }
        hard = [one.when_unsatisfiable == "DoNotSchedule" for one in constraints]
        may = [
            place
            for place in left
            if all(kept or not must for kept, must in zip(verdicts[place], hard, strict=True))
        ]
        best = [place for place in may if all(verdicts[place])] or may
        if not best:
            break
        left.remove(best[0])
        chosen.append(best[0])
        for one, domains in zip(constraints, counts, strict=True):
            own = clusters[best[0]].labels.get(one.topology_key)
            if own is not None:
                domains[own] += 1
    return chosen


@pytest.mark.parametrize("seed", range(150))
def test_the_best_ranked_that_keeps_the_skew_is_next(seed: int) -> None:
    """As if all were asked anew at each step, whatever the constraints and the ranking."""
    chance = Random(seed)
    clusters, constraints = some_clusters(chance), some_constraints(chance)
    size = len(clusters)
    ranked, count = chance.sample(range(size), size), chance.randint(0, size)
    spread = Spread(FleetColumns(Fleet(clusters)), constraints, np.arange(size))
    found = spread.take(np.array(ranked, np.int64), count)
    assert found == chosen_plainly(clusters, constraints, ranked, count)
