"""Talks to a Stellwerk server from Python: `from stellwerk import Client`.

Standard library and msgspec only; what is heavier is loaded when a task file is read.
"""

from stellwerk.client.api import Client
from stellwerk.client.bulk import ChangedMany, Which
from stellwerk.client.connection import UnreachableError
from stellwerk.client.execs import ExecError
from stellwerk.client.fleet import ClusterView
from stellwerk.client.refusals import ApiError
from stellwerk.client.server_wire import ServerStatus
from stellwerk.client.wire import (
    EventRecord,
    Explained,
    Row,
    Show,
    Submission,
    Submitted,
)
from stellwerk.core.model.errors import SpecError, StellwerkError

__all__ = [
    "ApiError",
    "ChangedMany",
    "Client",
    "ClusterView",
    "EventRecord",
    "ExecError",
    "Explained",
    "Row",
    "ServerStatus",
    "Show",
    "SpecError",
    "StellwerkError",
    "Submission",
    "Submitted",
    "UnreachableError",
    "Which",
]
