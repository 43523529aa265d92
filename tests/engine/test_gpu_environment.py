"""What a job is told of its GPUs: by names that stay, and how much of a shared one is its."""

from msgspec.structs import replace

from stellwerk.core.model.cluster import Device
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.resources import DeviceShare, NodeAllocation
from stellwerk.engine.gpu_environment import gpu_environment
from stellwerk.testing.builders import a_node

CARDS = tuple(
    Device(n, "A100", 40 * GIB, uuid=f"GPU-{n}", reserved_bytes=GIB, vendor="nvidia")
    for n in range(2)
)
SHARED = (
    "STELLWERK_GPU_MEMORY_FRACTION",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "TF_FORCE_GPU_ALLOW_GROWTH",
)


def told(
    devices: tuple[Device, ...], *shares: tuple[int, int], own: tuple[str, ...] = ()
) -> dict[str, str]:
    node = replace(a_node(), devices=devices)
    held = tuple(DeviceShare(index, bytes_) for index, bytes_ in shares)
    return gpu_environment(NodeAllocation("n1", 1000, devices=held), node, own)


def test_whole_cards_are_named_as_their_driver_does() -> None:
    """Numbers change when a card falls off the bus; those who need them have them beside."""
    found = told(CARDS, (1, 39 * GIB), (0, 39 * GIB))
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-0"
    assert (found["STELLWERK_GPU_INDICES"], found["CUDA_DEVICE_ORDER"]) == ("1,0", "PCI_BUS_ID")
    assert not [name for name in SHARED if name in found]
    nameless = tuple(replace(card, uuid="") for card in CARDS)
    assert told(nameless, (1, 39 * GIB))["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_share_is_told_to_each_framework_in_its_words() -> None:
    """JAX leaves a little for the context; what the task sets itself stays."""
    found = told(CARDS, (0, 10 * GIB), (1, 10 * GIB))
    assert [found[name] for name in SHARED] == ["0.2500", "0.237", "0=10240M,1=10240M", "true"]
    assert found["STELLWERK_GPU_MEMORY_BYTES"] == str(10 * GIB)
    kept = told(CARDS, (0, 10 * GIB), own=("XLA_PYTHON_CLIENT_MEM_FRACTION",))
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in kept
    assert kept["STELLWERK_GPU_MEMORY_FRACTION"] == "0.2500"


def test_a_slice_is_named_and_whole() -> None:
    """By its own name alone, since it has no number that CUDA knows."""
    piece = Device(201, "H100-MIG-1g.10gb", 10 * GIB, uuid="MIG-b", part_of=1)
    found = told((piece,), (201, 10 * GIB))
    assert (found["CUDA_VISIBLE_DEVICES"], found["STELLWERK_GPU_INDICES"]) == ("MIG-b", "1")
    assert "STELLWERK_GPU_MEMORY_BYTES" not in found


def test_cards_of_amd_are_counted_among_what_is_left() -> None:
    """ROCm takes the first variable before it counts for the second."""
    cards = tuple(Device(n, "MI210", 64 * GIB, uuid=f"GPU-{n:x}", vendor="amd") for n in (1, 2))
    found = told((CARDS[0], *cards), (2, 64 * GIB))
    assert (found["ROCR_VISIBLE_DEVICES"], found["HIP_VISIBLE_DEVICES"]) == ("GPU-2", "0")
    assert found["CUDA_VISIBLE_DEVICES"] == ""
    nameless = tuple(replace(card, uuid="") for card in cards)
    assert told(nameless, (2, 64 * GIB))["ROCR_VISIBLE_DEVICES"] == "1"


def test_who_was_given_none_sees_none() -> None:
    """On a machine with cards; where there are none, nothing is said."""
    assert told(CARDS) == {"CUDA_VISIBLE_DEVICES": ""}
    assert told(()) == {}
