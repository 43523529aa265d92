"""Says in words how much GPU memory work asks for and has never used."""

from __future__ import annotations

from stellwerk.core.lengths import own_keys
from stellwerk.core.model.lengths import Work
from stellwerk.core.model.quantity import GIB, show_bytes
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Workload
from stellwerk.core.peaks import Peaks


def advice(peaks: Peaks, work: Work, asked_bytes: int) -> str:
    """`asked 24 GiB of a GPU, never held more than 9.1 GiB in 5 runs: …`; "" where all is well."""
    found = peaks.enough(own_keys(work), asked_bytes)
    if found is None:
        return ""
    return (
        f"asked {show_bytes(found.asked_bytes)} of a GPU, never held more than "
        f"{show_bytes(found.most_bytes)} in {found.ends} runs: `--gpu-memory "
        f"{found.enough_bytes // GIB}GiB` would do"
    )


def advice_for(peaks: Peaks, workload: Workload, shape: Shape | None) -> str:
    """The same for a workload: by what its newest run was given, else by what it asks for."""
    work = Work(workload.project, workload.owner, workload.name, workload.task)
    return advice(peaks, work, _given(workload) or asked_of(shape))


def asked_of(shape: Shape | None) -> int:
    """How much of a card a shape names at most; 0 where it names no amount."""
    gpus = (one.request.gpu for one in (shape.alternatives if shape is not None else ()))
    return max((gpu.share_bytes for gpu in gpus if gpu is not None), default=0)


def _given(workload: Workload) -> int:
    parts = workload.runs[-1].allocation.nodes if workload.runs else ()
    return max((share.memory_bytes for part in parts for share in part.devices), default=0)
