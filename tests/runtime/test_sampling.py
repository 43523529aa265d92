"""What is said of a job that was over before anybody could measure it."""

import resource
from types import SimpleNamespace

import pytest

from stellwerk.runtime.sampling import Sampler

OWN_KIB = 14_000


@pytest.mark.parametrize(
    ("of_one_child_kib", "told_kib"),
    [(OWN_KIB, 0), (9_000, 0), (OWN_KIB * 5 // 4, 0), (20_000, 20_000)],
)
def test_a_peak_is_the_jobs_own_or_none(
    monkeypatch: pytest.MonkeyPatch, of_one_child_kib: int, told_kib: int
) -> None:
    """The kernel's figure of a small one is what forked it had, which says nothing of the job."""
    found = {resource.RUSAGE_SELF: OWN_KIB, resource.RUSAGE_CHILDREN: of_one_child_kib}
    monkeypatch.setattr(
        resource,
        "getrusage",
        lambda who: SimpleNamespace(ru_maxrss=found[who], ru_utime=0.0, ru_stime=0.0),
    )
    sampler = Sampler()
    assert sampler.final_peak_bytes() == told_kib * 1024
    sampler.peak_memory_bytes = 5 * 2**20
    assert sampler.final_peak_bytes() == max(5 * 2**20, told_kib * 1024)
