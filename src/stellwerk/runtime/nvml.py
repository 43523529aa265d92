"""Reads GPUs through NVIDIA's management library where the driver brought it."""

from __future__ import annotations

from typing import Optional

from .files import JSONObject


def devices() -> tuple[list[JSONObject], Optional[str], Optional[str]]:
    """GPUs, why there are none, and the driver's version."""
    return [], "no NVIDIA driver on this machine (libnvidia-ml.so.1 isn't there)", None
