"""Describes, queues, places, runs, watches, recovers and explains AI workloads.

`Client` and `Executor` are fetched at first use, so that the command line starts without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stellwerk.client import Client
    from stellwerk.client.python import CallError, Executor

__all__ = ["CallError", "Client", "Executor", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Client":
        return import_module("stellwerk.client").Client
    if name in {"CallError", "Executor"}:
        return getattr(import_module("stellwerk.client.python"), name)
    raise AttributeError(f"module `stellwerk` has no attribute `{name}`")
