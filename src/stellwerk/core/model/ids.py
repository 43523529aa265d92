"""Names the identifiers of the system and derives the ones that follow from others.

A workload's id is given once, at submit, and never changes: it is what a job sees as
``SKYPILOT_TASK_ID``. A run's id is derived from it, so the same run is the same key everywhere.
"""

import hashlib
from typing import NewType

import msgspec

WorkloadId = NewType("WorkloadId", str)
RunId = NewType("RunId", str)
ShapeId = NewType("ShapeId", str)
DecisionId = NewType("DecisionId", str)
BlobHash = NewType("BlobHash", str)

DIGEST_LENGTH = 16
"""Hex digits kept of a content hash that names a shape or a decision (64 bits)."""


def run_id(workload: WorkloadId, number: int) -> RunId:
    """Names the ``number``-th run (from 1) of a workload: ``w-0abc…-1``."""
    return RunId(f"{workload}-{number}")


def workload_of(run: RunId) -> WorkloadId:
    """Gives the workload that a run belongs to."""
    return WorkloadId(run.rsplit("-", 1)[0])


def digest(value: object) -> str:
    """Hashes a struct by its canonical JSON: equal values give equal digests on every machine."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:DIGEST_LENGTH]
