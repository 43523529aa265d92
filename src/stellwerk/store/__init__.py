"""Keeps what must not be lost: commands, the journal, state images, read models, blobs, secrets."""

from stellwerk.store.blobs import BlobStore, Collected, chunks_of
from stellwerk.store.errors import PASSING, StoreError
from stellwerk.store.inbox import Ack, NewCommand
from stellwerk.store.journal import Batch
from stellwerk.store.placements import Placed, StandingBatch
from stellwerk.store.references import Marks
from stellwerk.store.secrets import SecretInfo, SecretStore, SecretValue
from stellwerk.store.store import Store
from stellwerk.store.together import Together
from stellwerk.store.views import Picked, Position, Wait, WorkloadFilter, WorkloadRow

__all__ = [
    "PASSING",
    "Ack",
    "Batch",
    "BlobStore",
    "Collected",
    "Marks",
    "NewCommand",
    "Picked",
    "Placed",
    "Position",
    "SecretInfo",
    "SecretStore",
    "SecretValue",
    "StandingBatch",
    "Store",
    "StoreError",
    "Together",
    "Wait",
    "WorkloadFilter",
    "WorkloadRow",
    "chunks_of",
]
