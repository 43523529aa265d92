"""Talks to a Stellwerk server from Python: `from stellwerk import Client`.

Standard library and msgspec only; what is heavier is loaded when a task file is read.
"""

from stellwerk.client.api import Client
from stellwerk.client.bulk import ChangedMany, Which
from stellwerk.client.connection import UnreachableError
from stellwerk.client.fleet import ClusterView
from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import (
    EventRecord,
    Explained,
    Row,
    ServerStatus,
    Show,
    Submission,
    Submitted,
)

__all__ = [
    "ApiError",
    "ChangedMany",
    "Client",
    "ClusterView",
    "EventRecord",
    "Explained",
    "Row",
    "ServerStatus",
    "Show",
    "Submission",
    "Submitted",
    "UnreachableError",
    "Which",
]
