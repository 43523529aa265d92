"""What the reference does with specs that make no sense, and with clusters in great number."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model.placement import (
    GroupRule,
    Placement,
    Predicate,
    Prioritizer,
    Toleration,
)
from stellwerk.core.model.selectors import Requirement, Selector
from tests.core.place.placing_worlds import SCORE, answer, cluster, fleet, held, placement

WORLD = fleet(cluster("a", 1), cluster("b", 2))
OLD = placement(compat="ocm")


@pytest.mark.parametrize(
    ("one", "plugin", "message"),
    [
        (replace(OLD, mode="Some"), "", "incorrect prioritizer policy mode: Some"),
        (replace(OLD, prioritizers=(Prioritizer("Spread", 1),)), "", "incorrect builtin"),
        (replace(OLD, prioritizers=(Prioritizer("Cost", 1),)), "", "incorrect builtin"),
        (replace(OLD, prioritizers=(Prioritizer("", 1),)), "", "scoreCoordinate field is required"),
        (
            replace(OLD, tolerations=(Toleration("k", "Exists", "v"),)),
            "TaintToleration",
            "If the operator is Exists, the value should be empty.",
        ),
        (
            replace(OLD, predicates=(Predicate(claims=(Requirement("k", "In", ()),)),)),
            "Predicate",
            "values set can't be empty",
        ),
        (
            replace(OLD, predicates=(Predicate(claims=(Requirement("k", "In", ("a b",)),)),)),
            "Predicate",
            "it isn't the value of a label",
        ),
        (
            replace(OLD, predicates=(Predicate(Selector({"-k": "v"})),)),
            "Predicate",
            "it isn't a qualified name",
        ),
    ],
)
def test_a_wrong_spec_empties_the_decision(one: Placement, plugin: str, message: str) -> None:
    """The first thing wrong ends the run, and nothing is left of what was decided."""
    _, choice = answer(one, WORLD, held("a"))
    assert choice.clusters == ()
    assert choice.status.code == "Misconfigured"
    assert choice.status.plugin == plugin
    assert message in choice.status.message
    assert choice.conditions[1].message == f"{plugin}:{choice.status.message}"
    _, kept = answer(replace(one, compat=""), WORLD, held("a"))
    assert sorted(kept.clusters) == (["a"] if kept.kept else ["a", "b"])


def test_a_wrong_spec_goes_unseen_where_no_cluster_reaches_it() -> None:
    """Without candidates the reference notices neither predicates nor tolerations."""
    one = replace(
        OLD, predicates=(Predicate(cel=("1 ==",)),), tolerations=(Toleration("", "Equal"),)
    )
    _, choice = answer(one, fleet())
    assert choice.status.code == "Success"
    _, told = answer(replace(one, compat=""), fleet())
    assert len(told.troubles) == 2


def test_a_wrong_size_of_groups_has_no_objects() -> None:
    """Clusters are chosen, and no decision object carries them."""
    one = replace(OLD, clusters_per_group="half")
    _, choice = answer(one, WORLD)
    assert choice.clusters == ("b", "a")
    assert choice.groups == ()
    assert choice.conditions[1].status == "True"


@pytest.mark.parametrize(
    ("size", "sizes"),
    [("2", [2, 2, 1]), ("25%", [2, 2, 1]), ("0", [5]), ("-3", [5]), ("99", [5]), ("100%", [5])],
)
def test_sizes_of_groups(size: str, sizes: list[int]) -> None:
    """A number, or a share that is rounded up; what makes no sense means all."""
    world = fleet(*(cluster(f"c{number}", number) for number in range(5)))
    for mode in ("", "ocm"):
        _, choice = answer(placement(compat=mode, clusters_per_group=size), world)
        assert [len(group.clusters) for group in choice.groups] == sizes


def test_an_object_carries_a_hundred() -> None:
    """Numbers go on through all groups."""
    world = fleet(*(cluster(f"c{number:03}", number % 7) for number in range(230)))
    rule = GroupRule("first", Selector(requirements=(Requirement("no", "DoesNotExist"),)))
    _, choice = answer(replace(OLD, groups=(rule,), clusters_per_group="50%"), world)
    assert [group.objects for group in choice.groups] == [
        ("p-decision-1", "p-decision-2"),
        ("p-decision-3", "p-decision-4"),
    ]


def test_scores_as_they_are_told() -> None:
    """The reference adds what is told, whatever it is; a score that isn't there is 0."""
    world = fleet(cluster("a", 10**9), cluster("b"), cluster("c", -7))
    _, choice = answer(replace(OLD, prioritizers=(replace(SCORE, weight=-2),)), world)
    assert choice.clusters == ("c", "b", "a")
    assert choice.totals == (14, 0, -2 * 10**9)
