"""What samples say of devices: nothing where they can't say of which machine a device is."""

from types import SimpleNamespace
from typing import Any

import pytest

from stellwerk.core.model.telemetry import GpusHeld
from stellwerk.server.gpu_views import on_gpus
from stellwerk.testing.builders import an_allocation

HELD = GpusHeld(1_000, ())


def services(*nodes: str) -> Any:
    """A server on which one run is live, with a card on each of some nodes."""
    parts = tuple(an_allocation("lab", node, devices={0: 5}).nodes[0] for node in nodes)
    run = SimpleNamespace(allocation=SimpleNamespace(nodes=parts))
    work = SimpleNamespace(owner="ada", name="train", live_run=run)
    state = SimpleNamespace(running={"w-1": "w-1-1"}, workloads={"w-1": work})
    measures = SimpleNamespace(gpus=lambda run: HELD)
    return SimpleNamespace(engine=SimpleNamespace(state=state, measures=measures))


@pytest.mark.parametrize(
    ("nodes", "held"), [(("n1",), HELD), (("n1", "n1"), HELD), (("n1", "n2"), None)]
)
def test_a_sample_counts_where_all_of_a_run_is_on_one_machine(
    nodes: tuple[str, ...], held: GpusHeld | None
) -> None:
    """Two machines have a device 0 each, and both would be shown with the figures of one."""
    eyes: Any = SimpleNamespace(how=lambda owner: "all")
    found = on_gpus(services(*nodes), eyes)["w-1-1"]
    assert (found.name, found.held) == ("train", held)
