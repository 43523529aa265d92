"""Finds drivers by name among the installed ones; a driver is imported when it is first used."""

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from stellwerk.core.model.errors import StellwerkError

GROUP = "stellwerk.drivers"


def driver_names(group: str = GROUP) -> tuple[str, ...]:
    """Names the drivers that are installed, without importing any of them."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def driver_factory(name: str, group: str = GROUP) -> Any:
    """Imports a driver's factory (its class, as a rule); calling it makes an unopened driver.

    Raises StellwerkError `driver/unknown` for a name that nothing offers, and `driver/broken` for
    one that is offered but can't be imported.
    """
    points = [point for point in entry_points(group=group) if point.name == name]
    if not points:
        raise _unknown(name, driver_names(group))
    return _load(points[0])


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise StellwerkError.of(
            "driver/broken",
            f"the driver `{point.name}` can't be loaded from `{point.value}`: {error}",
            "install what it needs, or reinstall Stellwerk",
        ) from error


def _unknown(name: str, known: tuple[str, ...]) -> StellwerkError:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        remedy = f"did you mean `{near[0]}`?"
    elif known:
        remedy = "there is " + ", ".join(f"`{each}`" for each in known)
    else:
        remedy = "no driver is installed: run `pip install .` (or `make run`) once"
    return StellwerkError.of("driver/unknown", f"there is no driver `{name}`", remedy)
