"""What `make gpu` tries on a real card, with the stand-in for its driver: the same program."""

import subprocess
from pathlib import Path

import pytest

from tests.runtime.stand_in import NO_COMPILER

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER)
def test_jobs_share_a_card_and_who_harms_is_stopped() -> None:
    """Two jobs by declared memory, a third waits for memory, a warning, a stop."""
    done = subprocess.run(
        [str(ROOT / "scripts" / "gpu"), "--stand-in"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GPU memory asked" in done.stdout
    assert done.stdout.endswith("all held\n")


def test_a_machine_without_a_gpu_is_refused_in_words() -> None:
    """With the reason why none can be asked."""
    env = {
        "PATH": "/usr/bin:/bin",
        "STELLWERK_NVML_LIBRARY": "libnone.so.1",
        "HOME": "/nonexistent",
    }
    done = subprocess.run(
        [str(ROOT / "scripts" / "gpu")], check=False, capture_output=True, text=True, env=env
    )
    assert done.returncode == 2
    assert "no GPU to try anything with: no NVIDIA driver here" in done.stdout
