"""What work asks of quota: cards, parts of them, their memory, slices."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.queueing import FlavorQuotas, Quota, ResourceGroup
from stellwerk.core.model.resources import GpuRequest, Request
from stellwerk.core.queue.asked import GPU_MEMORY, requests_of
from stellwerk.testing.builders import a_cluster, a_device, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
SHARE = GpuRequest(2, share_bytes=18 * GIB)
WHOLE = GpuRequest(2, kind="A100-80GB")
HALF = GpuRequest(1, kind="A100-80GB", fraction_milli=500)
LARGE = GpuRequest(1, memory_min_bytes=24 * GIB)
ANY = GpuRequest(1)
SLICE = GpuRequest(1, kind="H100-MIG-1g.10gb")


@pytest.mark.parametrize(
    ("gpu", "covered", "expected"),
    [
        (SHARE, (), {GPU: 2000}),
        (SHARE, (GPU,), {GPU: 2000}),
        (SHARE, (GPU, GPU_MEMORY), {GPU_MEMORY: 36}),
        (WHOLE, (GPU, GPU_MEMORY), {GPU: 2000, GPU_MEMORY: 160}),
        (WHOLE, (GPU_MEMORY,), {GPU_MEMORY: 160}),
        (HALF, (GPU_MEMORY,), {GPU_MEMORY: 40}),
        (HALF, (GPU,), {GPU: 500}),
        (LARGE, (GPU_MEMORY,), {GPU_MEMORY: 24}),
        (ANY, (GPU_MEMORY,), {GPU: 1000}),
        (SLICE, (GPU, MIG), {MIG: 1000}),
        (SLICE, (GPU_MEMORY,), {GPU_MEMORY: 10}),
    ],
)
def test_memory_of_cards_counts_where_it_is_covered(
    gpu: GpuRequest, covered: tuple[str, ...], expected: dict[str, int]
) -> None:
    """In bytes; a card of which nobody knows the size is counted as a card, so not let through."""
    found = requests_of(Request(cpus_milli=0, gpu=gpu), covered)
    del found["cpu"]
    if GPU_MEMORY in found:
        found[GPU_MEMORY] //= GIB * 1000
    assert found == expected


def a_hall(memory_gib: int, *cards: int) -> Hall:
    """One machine with cards of these sizes, and a queue with so much quota of their memory."""
    node = a_node(cpus=32, memory_gib=64)
    devices = tuple(a_device(index, "A100", gib) for index, gib in enumerate(cards))
    hall = Hall(a_cluster("lab", replace(node, devices=devices)))
    (group,) = a_queue("team", 32).groups
    (flavor,) = group.flavors
    quotas = {**flavor.quotas, GPU_MEMORY: Quota(memory_gib * GIB * 1000)}
    covering = ResourceGroup(("cpu", GPU_MEMORY), (FlavorQuotas(flavor.flavor, quotas),))
    hall.apply(queueing(replace(a_queue("team", 32), groups=(covering,))))
    return hall


def test_memory_has_quota_and_must_fit_on_a_card() -> None:
    """Of 40 GiB two shares of 18 start; one of 30 has quota beside small cards, and no room."""
    share = a_shape(a_request(gpus=1, gpu_share_gib=18))
    hall = a_hall(40, 80, 80)
    keys = [hall.submit(share, queue="team") for _ in range(3)]
    assert hall.settle() == keys[:2]
    assert hall.told(keys[2]) == ["queue_quota"]
    holding = hall.workload(keys[0]).runs[-1].holding
    assert holding is not None
    assert holding.amounts[GPU_MEMORY] == 18 * GIB * 1000
    small = a_hall(40, 24, 24)
    large = small.submit(a_shape(a_request(gpus=1, gpu_share_gib=30)), queue="team")
    assert small.settle() == []
    assert "never_fits" in small.told(large)
