"""What else has a name: `train` stays the first of that name when `train-2` runs by now.

A name means one workload for ever. Who names one that is over may mean a later one: these lines
say which there are, and leave the choice to whoever typed it.
"""

from collections.abc import Sequence

from stellwerk.client.api import Client
from stellwerk.client.parts import list_query
from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import Headline, Row
from stellwerk.core.model.gates import ARRAY_LABEL

READ = 200
TOLD = 3


def later_ones(client: Client, named: str, work: Headline) -> list[str]:
    """`newer: train-3 (Running), train-2 (Failed)`, for a name that was typed and is over.

    Nothing for an id or for a name with a number, which can't be meant for another one.
    """
    if not work.ended or named != work.name or _base_of(work.name) != work.name:
        return []
    found = [one for one in _numbered(client, work.name, all=True) if _is_later(one, work)]
    told = ", ".join(f"{one.name} ({one.phase})" for one in found[:TOLD])
    more = f" and {len(found) - TOLD} more" if len(found) > TOLD else ""
    return [f"newer: {told}{more}"] if found else []


def live_ones(client: Client, name: str, verb: str) -> list[str]:
    """`long-2 is Running: stw cancel long-2`, for each of the same name that isn't over."""
    base = _base_of(name)
    found = [one for one in _numbered(client, base, all=False) if one.name != name]
    lines = [f"{one.name} is {one.phase}: stw {verb} {one.name}" for one in found[:TOLD]]
    more = len(found) - TOLD
    return [*lines, f"and {more} more: stw ps"] if more > 0 else lines


def _is_later(one: Row, work: Headline) -> bool:
    return one.id != work.id and one.submitted_ms >= work.submitted_ms


def _numbered(client: Client, base: str, *, all: bool) -> Sequence[Row]:
    """Those of this name with or without a number, newest first; not the elements of arrays."""
    try:
        rows = client.listing(list_query(all=all, name=f"{base}*"), limit=READ).items
    except ApiError:
        return []  # it is a remark beside an answer that is there already
    return [one for one in rows if _base_of(one.name) == base and ARRAY_LABEL not in one.labels]


def _base_of(name: str) -> str:
    """`fit` for `fit-2`: how the server numbers those that would have the same name."""
    base, dash, digits = name.rpartition("-")
    is_number = digits.isascii() and digits.isdecimal() and not digits.startswith("0")
    return base if dash and base and is_number and digits != "1" else name
