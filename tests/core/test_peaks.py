"""Peaks of GPU memory are learned by script and name, forgotten in time, and bounded."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.lengths import History, learn_peak, own_keys
from stellwerk.core.model.lengths import Work
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.resources import DeviceShare
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.peaks import MOST_KEYS, WINDOW, Peaks
from stellwerk.server.gpu_advice import advice, advice_for, asked_of
from stellwerk.testing.builders import a_request, a_run, a_shape, a_workload, an_allocation

WORK = Work("p", "ada", "train-7", "hash")


def learned(*gib: float) -> Peaks:
    peaks = Peaks()
    for one in gib:
        peaks.learn(own_keys(WORK), round(one * GIB))
    return peaks


def test_what_would_have_been_enough_is_said_with_numbers() -> None:
    """A tenth more than was ever held, in whole GiB; from two runs on, by task or by name."""
    assert advice(learned(9.1), WORK, 24 * GIB) == ""
    peaks = learned(9.1, 4, 7)
    assert advice(peaks, WORK, 24 * GIB) == (
        "asked 24 GiB of a GPU, never held more than 9.1 GiB in 3 runs: `--gpu-memory 11GiB` would "
        "do"
    )
    assert advice(peaks, Work("p", "ada", "train-8", ""), 24 * GIB)
    assert advice(peaks, Work("p", "ben", "train-8", ""), 24 * GIB) == ""
    assert advice(peaks, WORK, 13 * GIB) == ""
    assert advice(peaks, WORK, 0) == ""


def test_old_peaks_are_forgotten() -> None:
    """What was held once, two windows of ends ago, bounds nothing any more."""
    peaks = learned(20, *[5] * (WINDOW - 1), *[5] * WINDOW)
    assert peaks.most(own_keys(WORK))[0] == 20 * GIB
    peaks.learn(own_keys(WORK), 5 * GIB)
    assert peaks.most(own_keys(WORK)) == (5 * GIB, WINDOW + 1)


def test_what_is_kept_is_bounded_and_survives_an_image() -> None:
    """The keys that were added to last are kept."""
    peaks = Peaks()
    for number in range(MOST_KEYS + 5):
        peaks.learn([f"k{number}"], GIB)
    assert len(peaks.image()) == MOST_KEYS
    assert "k0" not in peaks.image()
    history = History()
    history.peaks.learn(["k"], GIB)
    assert History(history.image()).peaks.image() == history.peaks.image()


def test_only_a_good_end_teaches() -> None:
    """A run that failed may have ended before it took most."""
    history = History()
    run = replace(
        a_run(allocation=an_allocation()), end=RunEnd("exited", 0, peak_gpu_card_bytes=3 * GIB)
    )
    work = a_workload(runs=(run,))
    learn_peak(history, replace(work, phase="Failed"))
    assert history.peaks.image() == {}
    for _ in range(2):
        learn_peak(history, replace(work, phase="Succeeded"))
    shape = a_shape(a_request(gpus=1, gpu_share_gib=10))
    assert asked_of(shape) == 10 * GIB
    assert advice_for(history.peaks, work, shape).startswith("asked 10 GiB of a GPU, never held")
    (part,) = run.allocation.nodes
    whole = replace(part, devices=(DeviceShare(0, 80 * GIB),))
    given_all = replace(run, allocation=replace(run.allocation, nodes=(whole,)))
    told = advice_for(history.peaks, replace(work, runs=(given_all,)), shape)
    assert told.startswith("asked 80 GiB of a GPU")


@given(st.lists(st.integers(0, 80), min_size=2, max_size=12), st.integers(1, 80))
def test_what_is_said_to_do_would_have_done(gib: list[int], asked: int) -> None:
    """And is less than was asked for."""
    found = learned(*gib).enough(own_keys(WORK), asked * GIB)
    if found is not None:
        assert max(gib) * GIB <= found.enough_bytes < asked * GIB
