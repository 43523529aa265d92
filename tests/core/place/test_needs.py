"""What a cluster can't do keeps a task away from it; what it doesn't say, it is asked to try."""

from msgspec.structs import replace

from stellwerk.core.inventory.facts import cluster_of
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.resources import IMAGES, NAMESPACES, Shape
from stellwerk.core.place.decide import never_fits
from stellwerk.testing.builders import a_cluster, a_shape

NO_VIEW = (
    "it mounts outside of `~/sky_workdir`, or runs in an image, for which {} gives no user a view "
    "of their own"
)


def needing(*needs: str) -> Shape:
    shape = a_shape()
    return replace(shape, alternatives=(replace(shape.alternatives[0], needs=needs),))


def sentences(shape: Shape, *clusters: Cluster) -> list[str]:
    return [render(reason).sentence for reason in never_fits(shape, list(clusters))]


def test_a_cluster_that_says_no() -> None:
    """Each need has its own sentence, with the cluster's own words and a way out."""
    both = a_cluster("lab", claims={NAMESPACES: "no: not permitted", IMAGES: "no: no podman"})
    told = sentences(needing(IMAGES, NAMESPACES), both)
    assert told == [
        "it runs in an image, which lab can't get: no podman",
        NO_VIEW.format("lab") + " (not permitted)",
    ]
    [reason] = never_fits(needing(NAMESPACES), [both])
    assert "user namespaces allowed on lab" in render(reason).remedy
    assert sentences(needing(), both) == []


def test_another_cluster_may_be_able() -> None:
    """One that can, or that has not said, keeps the task from being refused."""
    no = a_cluster("no", claims={NAMESPACES: "no"})
    yes = a_cluster("yes", claims={NAMESPACES: "yes"})
    silent = a_cluster("silent")
    assert sentences(needing(NAMESPACES), no, yes) == []
    assert sentences(needing(NAMESPACES), no, silent) == []
    assert sentences(needing(NAMESPACES), no) == [NO_VIEW.format("no")]


def test_claims_come_from_the_probe() -> None:
    """As far as the runtime says anything; one of an earlier version doesn't."""

    def claims(**facts: object) -> dict[str, str]:
        found = cluster_of({"hostname": "a", **facts}, name="a", driver="local").claims
        return {name: found[name] for name in (NAMESPACES, IMAGES) if name in found}

    assert claims() == {}
    assert claims(namespaces=True, image_tool="podman") == {
        NAMESPACES: "yes",
        IMAGES: "yes: by podman",
    }
    assert claims(namespaces=False, namespaces_trouble="denied", image_tool=None) == {
        NAMESPACES: "no: denied",
        IMAGES: "no: none of podman, docker and apptainer is there",
    }
