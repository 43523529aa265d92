"""Expressions about clusters: what they may use, how they are bounded, and when they are asked."""

import numpy as np
import pytest

from stellwerk.core.inventory.columns import Bits, FleetColumns
from stellwerk.core.model.cluster import Cluster, ScoreObject, Taint
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.place.expressions import YES, Expressions

GIB = 1 << 30
ONE = Cluster(
    name="a",
    driver="ocm",
    nodes=(),
    labels={"tier": "gold", "version": "v1.28.3"},
    claims={"gpus": '{"models": ["a100", "h100"]}'},
    taints=(Taint("k", "NoSelect", "v", 1_700_000_000_000),),
    allocatable={"nvidia.com/gpu": 8000, "cpu": 1500, "memory": 16 * GIB * 1000},
    scores={"gpu": ScoreObject({"free": 40})},
    available="True",
)
ASKING = Expressions()

TRUE = [
    'url("https://me@Example.com:80/a?k=1&k=%20x+y&bad=%zz").getHost() == "Example.com:80"',
    'url("https://h/a?k=1&k=%20x+y&bad=%zz").getQuery() == {"k": ["1", " x y"]}',
    'url("https://[::1]:80/a b").getHostname() == "::1"',
    'url("https://[::1]:80/a b").getEscapedPath() == "/a%20b"',
    'url("https://h").getPort() == "" && url("//h/p").getHost() == ""',
    'url("/p").getScheme() == "" && url("mailto:me").getScheme() == "mailto"',
    'isURL("/p") && !isURL("../p") && !isURL("https://a:b") && !isURL("http://h/%zz")',
    'managedCluster.metadata.name == "a"',
    'managedCluster.metadata.labels["tier"] == "gold"',
    'managedCluster.metadata.labels.?zone.orValue("none") == "none"',
    "managedCluster.metadata.?annotations.hasValue() == false",
    'managedCluster.spec.taints.exists(t, t.key == "k" && t.effect == "NoSelect")',
    'managedCluster.spec.taints[0].timeAdded == "2023-11-14T22:13:20Z"',
    'managedCluster.status.conditions.exists(c, c.type.endsWith("Available"))',
    'managedCluster.status.allocatable["memory"] == "16Gi"',
    'managedCluster.status.allocatable["cpu"] == "1500m"',
    'quantity(managedCluster.status.allocatable["cpu"]).isLessThan(quantity("2"))',
    'quantity("16Gi").compareTo(quantity("16G")) == 1',
    'quantity("1000m") == quantity("1")',
    'quantity("1.5").add(quantity("500m")).asInteger() == 2',
    'quantity("50k").sub(20000).asInteger() == 30000',
    'quantity("1500m").isInteger() == false && quantity("-3").sign() == -1',
    'isQuantity("1e3") && !isQuantity("1x")',
    'semver("1.28.3").isLessThan(semver("1.29.0"))',
    "semver(managedCluster.metadata.labels.version, true).minor() == 28",
    'semver("1.0.0-rc.1").compareTo(semver("1.0.0")) == -1',
    'semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.10"))',
    'isSemver("v1.2", true) && !isSemver("v1.2")',
    'managedCluster.scores("gpu").filter(s, s.name == "free")[0].value == 40',
    'managedCluster.status.clusterClaims.exists(c, "h100" in c.value.parseJSON().models)',
    '"a-b".split("-").size() == 2 && "Ab".lowerAscii() == "ab"',
    '"node17".find("[0-9]+") == "17" && "a1b22".findAll("[0-9]+").size() == 2',
    '"abc".matches("^a.c$")',
    "[1, 2].sum() == 3 && [2, 1].max() == 2 && [1, 2].isSorted()",
    'isIP("10.0.0.1") && cidr("10.0.0.0/8").containsIP("10.1.2.3")',
]


@pytest.mark.parametrize("expression", TRUE)
def test_what_an_expression_may_use(expression: str) -> None:
    """Each is true of the cluster."""
    assert ASKING.matches(expression, ONE) is True


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ('managedCluster.metadata.labels["no"] == "x"', 'Key not found in map : "no"'),
        ('managedCluster.scores("no").size() == 0', 'there is no score object "no"'),
        ('quantity("much").isGreaterThan(quantity("3"))', "`much` isn't a quantity"),
        ('quantity("1").compareTo(semver("1.0.0")) == 0', "can't be compared"),
        ('"{".parseJSON().a == 1', "failed to parse json"),
        ("managedCluster.metadata.name", "it gives string, not true or false"),
        ('url("https://a:b/").getHost() == ""', "its host or port is wrong"),
        ('url("../a").getHost() == ""', "neither absolute nor begins with /"),
        (f'url(["/{900 * "x"}"].map(x, x + x + x + x + x)[0]).getPort() == ""', "at most 4096"),
        ('quantity("1").getHost() == ""', "it isn't a URL"),
        ('"aaaaaaaaaaaaaaaaaaaaaaaa!".find("(a+)+$") == ""', "too costly"),
    ],
)
def test_what_throws_says_why(expression: str, part: str) -> None:
    """A runtime error is a text, never an exception."""
    said = ASKING.matches(expression, ONE)
    assert isinstance(said, str)
    assert part in said


@pytest.mark.parametrize(
    ("expression", "line", "column"),
    [
        ("nosuchvariable.x == 1", 1, 15),
        ("1 ==", 1, 5),
        ("true &&\n  nothing(1)", 2, 10),
        ("(" * 200 + "1" + ")" * 200, 0, 0),
        ('"' + "x" * 5000 + '" == ""', 0, 0),
    ],
)
def test_what_cannot_be_compiled_says_where(expression: str, line: int, column: int) -> None:
    """An expression that makes no sense, is too deep or too long is refused with its place."""
    refused = ASKING.check(expression)
    assert refused is not None
    assert refused.message
    assert (refused.line, refused.column) == (line, column)


def test_a_library_that_is_absent_is_refused_by_name() -> None:
    """With what to write in its place."""
    refused = ASKING.check('!format.dns1123Label().validate("a").hasValue()')
    assert refused is not None
    assert (refused.line, refused.column) == (1, 2)
    assert "`format` isn't there: write the pattern with `matches`" in refused.message


def test_loops_are_bounded() -> None:
    """A hundred thousand steps are too many, and the cluster alone is told so."""
    digits = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    expression = "a + b + c + d + e >= 0"
    for name in "edcba":
        expression = f"{digits}.all({name}, {expression})"
    said = ASKING.matches(expression, ONE)
    assert isinstance(said, str)
    assert said.startswith("it takes more than 10,000 steps")


def columns() -> FleetColumns:
    """Three clusters."""
    return FleetColumns(
        Fleet(
            clusters=tuple(
                Cluster(
                    name=name,
                    driver="ocm",
                    nodes=(),
                    labels={"tier": name},
                    scores={"gpu": ScoreObject({"free": 1}), "net": ScoreObject({"free": 1})},
                )
                for name in "abc"
            )
        )
    )


def everybody(fleet: FleetColumns) -> Bits:
    """All rows."""
    return np.ones(fleet.size, np.bool_)


def test_a_cluster_is_asked_once_per_change() -> None:
    """Only what changed is evaluated again, and a score only where it is read."""
    fleet, asking = columns(), Expressions()
    label = 'managedCluster.metadata.labels["tier"] == "b"'
    score = 'managedCluster.scores("gpu")[0].value > 5'
    for expression in (label, score):
        asking.verdicts(expression, fleet, everybody(fleet))
    assert asking.evaluated == 6

    def asked_again(free: dict[str, int]) -> int:
        before = asking.evaluated
        scores = {name: ScoreObject({"free": value}) for name, value in free.items()}
        one = fleet.clusters[1]
        fleet.update([Cluster(one.name, "ocm", (), labels=one.labels, scores=scores)])
        said = [asking.verdicts(each, fleet, everybody(fleet)).said[1] for each in (label, score)]
        assert said[0] == YES
        assert (said[1] == YES) == (free["gpu"] > 5)
        return asking.evaluated - before

    assert asked_again({"gpu": 1, "net": 7}) == 0
    assert asked_again({"gpu": 9, "net": 7}) == 1
    before = asking.evaluated
    fleet.update([Cluster("b", "ocm", (), labels={"tier": "x"})])
    assert asking.verdicts(label, fleet, everybody(fleet)).said[1] != YES
    failed = asking.verdicts(score, fleet, everybody(fleet))
    assert "there is no score object" in failed.errors[1]
    assert asking.evaluated == before + 2
    fleet.update([Cluster("aa", "ocm", ())], ["c"])
    moved = asking.verdicts(score, fleet, everybody(fleet))
    assert asking.evaluated == before + 3, "only the new one is asked"
    assert (fleet.clusters[2].name, list(moved.errors)) == ("b", [2, 1])
