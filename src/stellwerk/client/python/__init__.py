"""Python functions as workloads: `from stellwerk import Executor`."""

from stellwerk.client.python.executor import Executor, Future
from stellwerk.client.python.outcome import CallError

__all__ = ["CallError", "Executor", "Future"]
