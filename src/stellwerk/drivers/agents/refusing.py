"""Tells of a start that was refused for good, once, wherever on its way that was found out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stellwerk.core.model.reports import Report, StartRefused
from stellwerk.drivers.base import DriverError, StartOrder


@contextmanager
def refusal_told(tell: Callable[[Report], None], cluster: str, order: StartOrder) -> Iterator[None]:
    """Reports what a start inside ends with, where trying again can't help, and passes it on."""
    try:
        yield
    except DriverError as error:
        if error.final:
            tell(StartRefused(cluster, order.run, order.generation, error.code, error.message))
        raise
