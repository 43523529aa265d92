"""Runs on a real cluster when things go wrong: rights, evictions, images, an API server away."""

import asyncio
import contextlib
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.core.model.reports import StartRefused
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.kubernetes.api import Api, config_of
from stellwerk.drivers.kubernetes.driver import KubernetesDriver
from stellwerk.drivers.kubernetes.rbac import rbac_of
from stellwerk.testing.driver_session import Program, Session
from tests.lab import control_plane, kubernetes_node
from tests.lab.control_plane import ControlPlane
from tests.lab.kubernetes_node import BUSYBOX, PYTHON, Node, python_files
from tests.lab.test_kubernetes_conformance import NODE, PodPlace

MISSING = control_plane.missing() or kubernetes_node.missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

FEW_RIGHTS, NO_RIGHTS = "few-rights-token", "no-rights-token"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with one node, and two users who aren't administrators."""
    folder = tmp_path_factory.mktemp("kubernetes")
    (folder / "plane").mkdir()
    plane = ControlPlane(folder / "plane", "member")
    plane.tokens |= {FEW_RIGHTS: ("few", "people"), NO_RIGHTS: ("none", "people")}
    node = Node(plane, folder / "node", NODE, number=9)
    try:
        plane.start()
        node.start({PYTHON: python_files()})
        yield plane
    finally:
        node.stop_all()
        plane.stop_all()


@pytest.fixture
def place(plane: ControlPlane, tmp_path: Path) -> Iterator[PodPlace]:
    place = PodPlace(tmp_path, plane)
    yield place
    place.clear()


def with_token(place: PodPlace, folder: Path, token: str) -> KubernetesDriver:
    """A driver that logs in with a token."""
    driver = place.driver()
    assert isinstance(driver, KubernetesDriver)
    file = place.plane.write_kubeconfig(folder / "kubeconfig", token)
    driver._connect = lambda: Api(config_of(file, "member"), "default")
    return driver


def grant(plane: ControlPlane) -> None:
    """Gives one of the users what `stw kubernetes rbac` prints."""
    kinds = {
        "Role": "namespaces/default/roles",
        "RoleBinding": "namespaces/default/rolebindings",
        "ClusterRole": "clusterroles",
        "ClusterRoleBinding": "clusterrolebindings",
    }
    for one in rbac_of("default", "few"):
        plane.apply(f"{RBAC}/{kinds[one['kind']]}/stellwerk", one)


def test_the_printed_rights_are_enough(place: PodPlace, tmp_path: Path) -> None:
    """A login with exactly those looks at nodes, runs a job, reads its log and forgets it."""
    grant(place.plane)

    async def scene() -> None:
        session = Session(place)
        session.driver = with_token(place, tmp_path, FEW_RIGHTS)
        await session.open()
        (node,) = (await session.driver.probe()).nodes
        assert (node.name, node.state) == (NODE, "ready")
        run = await session.start("w-1-1", Program(lasts_ms=100, prints="few\n"))
        assert (await session.ends("w-1-1")).code == 0
        assert await session.log("w-1-1") == b"few\n"
        await session.driver.forget(run)
        await session.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("token", "code"), [(NO_RIGHTS, "kubernetes/forbidden"), ("expired", "kubernetes/login")]
)
def test_who_may_not_is_told_so(place: PodPlace, tmp_path: Path, token: str, code: str) -> None:
    """Neither a lack of rights nor a login that isn't valid any more is mistaken for an end."""

    async def scene() -> None:
        driver = with_token(place, tmp_path, token)
        with pytest.raises(DriverError) as caught:
            await driver.open()
        assert (caught.value.code, caught.value.final) == (code, False)
        await driver.close()

    asyncio.run(scene())


def test_a_context_that_is_not_there(plane: ControlPlane) -> None:
    """What there is is named."""
    with pytest.raises(DriverError) as caught:
        config_of(plane.kubeconfig, "nowhere")
    assert "`nowhere`" in caught.value.message
    assert "member" in caught.value.message


def test_an_image_without_python_is_refused(place: PodPlace) -> None:
    """In words, and for good: the job would never begin."""

    async def scene() -> None:
        session = await Session(place).open()
        order = place.order("w-1-1", Program(), generation=1, epoch=1)
        await session.driver.start(replace(order, image=BUSYBOX))
        await session.until(lambda: any(isinstance(x, StartRefused) for x in session.heard))
        (told,) = [x for x in session.heard if isinstance(x, StartRefused)]
        assert told.code == "kubernetes/no-python"
        assert "busybox" in told.message
        await session.close()

    asyncio.run(scene())


def evict(plane: ControlPlane, owner: str) -> None:
    """Has Kubernetes evict the pods of a place."""
    pods = plane.call("GET", f"{PODS}?labelSelector=stellwerk/owner={owner}")
    items = pods["items"]
    assert isinstance(items, list)
    for pod in items:
        name = pod["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        with contextlib.suppress(urllib.error.HTTPError):
            plane.call("POST", f"{PODS}/{name}/eviction", eviction)


def test_an_eviction_is_a_notice(place: PodPlace) -> None:
    """The job saves within its grace and goes back; nothing of it is lost."""

    async def scene() -> None:
        session = await Session(place).open()
        await session.start("w-1-1", Program(lasts_ms=60_000, on_notice="saves", prints="ready\n"))
        await session.until_it_printed("w-1-1")
        await asyncio.to_thread(evict, place.plane, place.owner)
        end = await session.ends("w-1-1")
        assert (end.code, end.put_back, end.checkpointed) == (85, True, True)
        assert await session.log("w-1-1") == b"ready\n"
        await session.close()

    asyncio.run(scene())


def until_empty(place: PodPlace, path: str) -> None:
    """Waits until a list of the API server has nothing left; the test has a time limit."""
    while place.plane.call("GET", path)["items"]:
        time.sleep(0.2)


def test_an_eviction_while_nobody_listens(place: PodPlace) -> None:
    """The pod is gone when the server comes back: its run is lost with its machine."""

    async def scene() -> None:
        session = await Session(place).open()
        await session.start("w-1-1", Program(lasts_ms=60_000, prints="ready\n"))
        await session.until_it_printed("w-1-1")
        await session.close()
        path = f"{PODS}?labelSelector=stellwerk/owner={place.owner}"
        await asyncio.to_thread(place.plane.call, "DELETE", f"{path}&gracePeriodSeconds=0")
        await asyncio.to_thread(until_empty, place, path)
        again = await Session(place).open()
        end = await again.ends("w-1-1")
        assert end.how == "machine_lost"
        await again.close()

    asyncio.run(scene())


def test_an_api_server_that_is_away(place: PodPlace) -> None:
    """It can't be reached for a while: no run is lost by that, and its end is told afterwards."""

    async def scene() -> None:
        session = await Session(place).open()
        await session.start("w-1-1", Program(lasts_ms=3_000, code=3, prints="ready\n"))
        await session.until_it_printed("w-1-1")
        await asyncio.to_thread(place.plane.stop, "kube-apiserver", 9)
        await asyncio.sleep(4)
        assert "Ended" not in session.phases("w-1-1")
        await asyncio.to_thread(place.plane.start_api_server)
        end = await session.ends("w-1-1")
        assert (end.how, end.code) == ("exited", 3)
        assert await session.log("w-1-1") == b"ready\n"
        await session.close()

    asyncio.run(scene())
