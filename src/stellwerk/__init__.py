"""Describes, queues, places, runs, watches, recovers and explains AI workloads.

`Client` is fetched at first use, so that the command line starts without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stellwerk.client import Client

__all__ = ["Client", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Client":
        return import_module("stellwerk.client").Client
    raise AttributeError(f"module `stellwerk` has no attribute `{name}`")
