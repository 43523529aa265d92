"""What the runtime finds of GPUs beside plain figures: slices, shared memory, links, AMD's."""

import os
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from stellwerk.runtime import amd, nvlink, nvml, probe
from stellwerk.runtime.helper import limit_gpu_memory
from stellwerk.runtime.system import memory_sizes

GIB = 1024**3


@pytest.fixture(autouse=True)
def driver(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in is what is asked, and nothing of an earlier answer is remembered."""
    monkeypatch.setenv("STELLWERK_NVML_LIBRARY", library)
    nvlink._known.clear()


def test_slices_are_devices_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a number after its card's, its own name for CUDA, and memory of its own."""
    monkeypatch.setenv("STAND_IN_SLICES", "2")
    found = [gpu for gpu in nvml.devices()["gpus"] if "part_of" in gpu]
    assert [(gpu["index"], gpu["part_of"], gpu["uuid"]) for gpu in found] == [
        (200, 1, "MIG-0000"),
        (201, 1, "MIG-0001"),
    ]
    assert {gpu["memory_bytes"] for gpu in found} == {10 * GIB}
    assert found[0]["name"].endswith("MIG 1g.10gb")


def test_memory_of_the_machine_is_that_of_a_device_without_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a driver tells no sizes; what is in use is what the processes say."""
    monkeypatch.setenv("STAND_IN_UNIFIED", "1")
    first = nvml.devices()["gpus"][0]
    assert first["unified"]
    assert first["memory_bytes"] == memory_sizes()["MemTotal"]
    assert first["memory_used_bytes"] == GIB // 4


def test_links_are_asked_for_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is joined is told, and remembered when the driver tells it no more."""
    monkeypatch.setenv("STAND_IN_NVLINK", "1")
    joined = {"links": 2, "peers": ["00000000:3C:00.0"], "switch": False}
    assert nvml.devices()["gpus"][0]["nvlink"] == joined
    monkeypatch.delenv("STAND_IN_NVLINK")
    assert nvml.devices()["gpus"][0]["nvlink"] == joined
    nvlink._known.clear()
    assert nvml.devices()["gpus"][0]["nvlink"] is None


def test_a_look_costs_far_less_than_half_a_percent_of_a_core() -> None:
    """With a hundred processes on a card, at one look in four seconds."""
    nvml.devices()
    before = time.process_time()
    for _ in range(10):
        nvml.devices()
    assert (time.process_time() - before) / 10 < 0.005 * 4


def test_cards_of_amd_are_read_from_what_their_driver_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Total, used and per process; processors in the topology are no cards."""
    write = {
        "class/kfd/kfd/topology/nodes/0/gpu_id": "0",
        "class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 64",
        "class/kfd/kfd/topology/nodes/1/gpu_id": "51125",
        "class/kfd/kfd/topology/nodes/1/properties": "drm_render_minor 128\nunique_id 4660\n",
        "class/drm/renderD128/device/mem_info_vram_total": str(64 * GIB),
        "class/drm/renderD128/device/mem_info_vram_used": str(5 * GIB),
        "class/drm/renderD128/device/gpu_busy_percent": "71",
        "class/drm/renderD128/device/product_name": "AMD Instinct MI210",
        f"class/kfd/kfd/proc/{os.getpid()}/vram_51125": str(4 * GIB),
        "class/kfd/kfd/proc/17/vram_99": str(GIB),
    }
    for path, text in write.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text + "\n")
    (card,) = amd.devices(str(tmp_path))
    assert (card["vendor"], card["uuid"], card["name"]) == (
        "amd",
        "GPU-0000000000001234",
        "AMD Instinct MI210",
    )
    assert (card["memory_bytes"], card["memory_free_bytes"]) == (64 * GIB, 59 * GIB)
    assert (card["utilisation_percent"], card["index"]) == (71, 0)
    assert [(one["pid"], one["memory_bytes"]) for one in card["processes"]] == [
        (os.getpid(), 4 * GIB)
    ]
    monkeypatch.setenv("STELLWERK_SYS", str(tmp_path))
    told = probe.probe(str(tmp_path))["gpus"]
    assert [(gpu["index"], gpu.get("vendor", "nvidia")) for gpu in told][-1] == (3, "amd")


def test_pytorch_is_limited_by_a_line_of_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """On each device that the job sees; nothing is loaded where it has whole cards."""
    told: list[tuple[float, int]] = []

    class Cuda:
        device_count = staticmethod(lambda: 2)
        set_per_process_memory_fraction = staticmethod(
            lambda fraction, device: told.append((fraction, device))
        )

    torch = ModuleType("torch")
    torch.cuda = Cuda  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delenv("STELLWERK_GPU_MEMORY_FRACTION", raising=False)
    assert limit_gpu_memory() is None
    assert told == []
    monkeypatch.setenv("STELLWERK_GPU_MEMORY_FRACTION", "0.4500")
    assert limit_gpu_memory() == 0.45
    assert told == [(0.45, 0), (0.45, 1)]
