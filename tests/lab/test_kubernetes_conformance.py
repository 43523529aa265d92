"""The Kubernetes driver keeps what every driver promises, on a real API server with a kubelet."""

import asyncio
import hashlib
import itertools
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.drivers.base import Driver, StartOrder
from stellwerk.drivers.kubernetes.api import Api, config_of
from stellwerk.drivers.kubernetes.driver import KubernetesDriver
from stellwerk.runtime.bundle import packed
from stellwerk.testing.builders import an_order
from stellwerk.testing.driver_session import Program
from stellwerk.testing.driver_suite import DriverSuite
from tests.drivers.machine import Blobs, order_of
from tests.lab import control_plane, kubernetes_node
from tests.lab.control_plane import ControlPlane, a_control_plane
from tests.lab.kubernetes_node import PYTHON, Node, python_files

MISSING = control_plane.missing() or kubernetes_node.missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

NODE = "node-1"
_NUMBERS = itertools.count(1)


@cache
def the_runtime() -> tuple[bytes, str]:
    """The runtime as it is now, with its hash."""
    content = packed()
    return content, hashlib.sha256(content).hexdigest()


class PodPlace:
    """What one Stellwerk has on a cluster; each place is a Stellwerk of its own."""

    def __init__(self, folder: Path, plane: ControlPlane) -> None:
        self.owner = f"k{os.getpid()}-{next(_NUMBERS)}"
        self.folder = folder
        self.plane = plane
        self.blobs = Blobs(folder / "blobs")

    def driver(self) -> Driver:
        return KubernetesDriver(
            cluster="member",
            connect=lambda: Api(config_of(self.plane.kubeconfig, self.plane.name), "default"),
            owner=self.owner,
            image=PYTHON,
            folder=self.folder / "logs",
            runtime=the_runtime(),
            blobs=self.blobs,
            now_ms=lambda: time.time_ns() // 1_000_000,
            pull="Never",
        )

    def vanish(self, driver: Driver) -> None:
        assert isinstance(driver, KubernetesDriver)
        driver.vanish()

    def order(self, run: str, program: Program, *, generation: int, epoch: int) -> StartOrder:
        order = order_of(run, program, generation=generation, epoch=epoch)
        ranks = tuple(replace(rank, node=NODE) for rank in order.ranks)
        return replace(order, ranks=ranks, allocation=None)

    def refused_order(self, run: str) -> StartOrder:
        return an_order(run, snapshot="missing")

    async def pass_time(self) -> None:
        await asyncio.sleep(0.02)

    def clear(self) -> None:
        """Removes the Jobs of this place, with their pods."""
        path = "/apis/batch/v1/namespaces/default/jobs"
        pods = "/api/v1/namespaces/default/pods"
        chosen = f"?labelSelector=stellwerk/owner={self.owner}"
        self.plane.call("DELETE", f"{path}{chosen}&propagationPolicy=Background")
        self.plane.call("DELETE", f"{pods}{chosen}&gracePeriodSeconds=0")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with one node that runs pods."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with a_control_plane(folder / "plane", "member") as plane:
        node = Node(plane, folder / "node", NODE, number=8)
        try:
            node.start({PYTHON: python_files()})
            yield plane
        finally:
            node.stop_all()


class TestKubernetesDriver(DriverSuite):
    """Every test of the suite, each in pods of its own."""

    @pytest.fixture
    def place(self, plane: ControlPlane, tmp_path: Path) -> Iterator[PodPlace]:
        place = PodPlace(tmp_path, plane)
        yield place
        place.clear()
