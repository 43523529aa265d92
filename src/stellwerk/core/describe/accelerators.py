"""Decides which accelerators are wanted: one kind, a set of kinds, or an order of preference."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from stellwerk.core.describe.fields import did_you_mean, expected
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.device_table import DEVICES
from stellwerk.core.model.devices import (
    ACCELERATOR_HELP,
    AcceleratorSelector,
    NamedAccelerator,
    parse_accelerator,
)
from stellwerk.core.model.quantity import BadQuantity

MOST_KINDS = 100
MOST_ALONE = 1024
"""A number up to this is a count without a kind; a larger one may be a name: `4090`."""

ANY_KIND = "any:"
"""Before a number: so many of whichever kind. A flag takes the number alone as well."""

Accelerator = NamedAccelerator | AcceleratorSelector


def any_kind(count: int) -> AcceleratorSelector:
    """So many accelerators of whichever kind and size."""
    return AcceleratorSelector(0, at_least=True, count=count, text=f"{ANY_KIND}{count}")


_T = TypeVar("_T")


class Wish(Struct, frozen=True):
    """The kinds that will do; `ordered` for a list, which is an order of preference."""

    kinds: tuple[Accelerator, ...]
    ordered: bool = False


def accelerators(report: Report, node: Node, path: str) -> Wish | None:
    """A reader: `A100:4`, `24GB+:2`, a list of such, or a map of names to counts."""
    if node.text is not None:
        one = _one(report, node, path, node.text)
        return Wish((one,)) if one else None
    if node.kind == "list":
        return _of_list(report, node, path)
    if node.kind == "map":
        return _of_map(report, node, path)
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        _only_a_number(report, node, path, node.as_text())
    else:
        expected(report, node, path, "a name, a list or a map of names", ACCELERATOR_HELP)
    return None


def _only_a_number(report: Report, node: Node, path: str, written: str) -> None:
    count = written if written.isdigit() and int(written) > 0 else "1"
    remedy = (
        f"write `A100:{count}`, or, for any kind with enough memory, `8GB+:{count}`; "
        f"`--gpus {count}` takes any kind"
    )
    message = f"`{path}` takes a kind of accelerator, not `{written[:60]}` alone"
    report.problem("spec/accelerator", node, path, message, remedy)


def one_accelerator(report: Report, node: Node, path: str) -> Wish | None:
    """A reader for an entry of `any_of` or `ordered`: those are the choice already."""
    wish = accelerators(report, node, path)
    if wish is not None and (node.kind == "list" or len(wish.kinds) > 1):
        report.problem(
            "spec/choice",
            node,
            path,
            "an entry of `any_of` or `ordered` takes one kind of accelerator",
            "make an entry of each kind",
        )
        return None
    return wish


def _of_list(report: Report, node: Node, path: str) -> Wish | None:
    found: list[Accelerator] = []
    for i, item in enumerate(_few(report, node, path, node.items)):
        where = f"{path}[{i}]"
        if item.text is None:
            expected(report, item, where, "an accelerator such as `A100:2`")
        elif (one := _one(report, item, where, item.text)) and one not in found:
            found.append(one)
    _check_some(report, node, path)
    return Wish(tuple(found), ordered=True) if found else None


def _of_map(report: Report, node: Node, path: str) -> Wish | None:
    found: list[Accelerator] = []
    for entry in _few(report, node, path, node.entries):
        where = f"{path}.{entry.key}"
        count = entry.value.value
        if entry.value.is_null:
            written = entry.key
        elif isinstance(count, int | float) and not isinstance(count, bool):
            written = f"{entry.key}:{count}"
        else:
            expected(report, entry.value, where, "a number of accelerators")
            continue
        one = _one(report, entry.key_node, where, written)
        if one and one not in found:
            found.append(one)
    _check_some(report, node, path)
    return Wish(tuple(found)) if found else None


def _few(report: Report, node: Node, path: str, kinds: list[_T]) -> list[_T]:
    if len(kinds) > MOST_KINDS:
        message = f"`{path}` names {len(kinds)} accelerators, {MOST_KINDS} may be"
        report.problem("spec/too-large", node, path, message)
    return kinds[:MOST_KINDS]


def _check_some(report: Report, node: Node, path: str) -> None:
    if not node.items and not node.entries:
        report.problem("spec/value", node, path, f"`{path}` names no accelerator", ACCELERATOR_HELP)


def _one(report: Report, node: Node, path: str, written: str) -> Accelerator | None:
    if written.strip().isdigit() and int(written) <= MOST_ALONE:
        _only_a_number(report, node, path, written.strip())
        return None
    found = parse_accelerator(written)
    if isinstance(found, BadQuantity):
        report.problem("spec/accelerator", node, path, found.message, found.help)
        return None
    if isinstance(found, NamedAccelerator) and not found.known:
        names = (device.name for device in DEVICES)
        report.notice(
            "spec/unknown-accelerator",
            node,
            path,
            f"`{found.name[:60]}` isn't in the table of devices; only a cluster that has a card "
            "of this very name will do",
            "" if report.told else did_you_mean(found.name, names, cutoff=0.7),
        )
    return found
