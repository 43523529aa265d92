"""Decides what of the checkpoints of several hosts of one run belongs together, and who gets what.

What a host was given when the run began, and hasn't changed since, says nothing of what the run has
saved: a host that holds only that is no saver. Of what savers have counts what all have saved. Each
host then gets all of it, its own where several have saved a file of one name; so what rank 0 alone
has saved is everywhere, and no host goes on from another checkpoint than the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stellwerk.drivers.agents.checkpoint_places import Held
from stellwerk.drivers.agents.checkpoint_store import Whole
from stellwerk.runtime.carrying import Piece
from stellwerk.runtime.checkpoints import step_of

Given = Mapping[str, str]
"""What a host had when a run began: the content of each file, by its path."""


class Together(NamedTuple):
    """What each host is to get. ``apart``: the hosts have no step in common, each has its own."""

    parts: list[list[Piece]]
    apart: bool = False


def given_of(pieces: Iterable[Piece]) -> dict[str, str]:
    """What is remembered of that which a host gets."""
    return {piece.path: _content(piece) for piece in pieces if not piece.dir}


def put_together(
    held: Sequence[Held], given: Sequence[Given] = (), *, patient: bool = True
) -> Together | None:
    """What hosts of one run have together.

    None where that can't be told yet: without ``patient`` a host that has saved nothing may only be
    slower than the others.
    """
    if len(held) == 1:
        return Together([held[0].pieces])
    own = [_own(one, before) for one, before in zip(held, _for_all(given, held), strict=True)]
    savers = [index for index, paths in enumerate(own) if paths]
    if not savers:
        return Together([one.pieces for one in held])
    steps = {index: found for index in savers if (found := _steps(held[index], own[index]))}
    if not patient and len(steps) < len(held) and (steps or len(savers) < len(held)):
        return None
    common = set.intersection(*steps.values()) if steps else set()
    if steps and not common:
        return Together([one.pieces for one in held], apart=True)
    chosen = _Chosen(held, own, savers, common)
    return Together([chosen.of(index) for index in range(len(held))])


def apart_in_words(held: Sequence[Held], nodes: Sequence[str]) -> str:
    """Which step each host has saved last: `pc1: step-4.pt, pc2: step-3.pt`."""
    last = [one.look.found[-1].name if one.look.found else "nothing" for one in held]
    return ", ".join(f"{node}: {name}" for node, name in zip(nodes, last, strict=True))


def part_for(whole: Whole, index: int, hosts: int) -> list[Piece]:
    """What a host gets of a copy: its own first, and what only others have.

    Of hosts that are apart it gets nothing but its own.
    """
    has_own = len(whole.parts) == hosts
    if whole.apart:
        return list(whole.parts[index]) if has_own else []
    first = whole.parts[index] if has_own else whole.parts[0]
    pieces: dict[str, Piece] = {}
    for part in (first, *whole.parts):
        _add(pieces, part)
    return [pieces[path] for path in sorted(pieces)]


def has_it(whole: Whole, index: int, hosts: int, state: str) -> bool:
    """Whether a host that is in a state has what it is to get of a copy."""
    if len(whole.states) != hosts or whole.states[index] != state:
        return False
    is_all_there_was = not whole.as_held or whole.as_held[index]
    return is_all_there_was and len(part_for(whole, index, hosts)) == len(whole.parts[index])


class _Chosen:
    """What counts of what savers hold: nothing that is newer than what all have, or half there."""

    def __init__(
        self,
        held: Sequence[Held],
        own: Sequence[frozenset[str]],
        savers: Sequence[int],
        common: set[int],
    ) -> None:
        self._held = held
        self._own = own
        self._savers = savers
        self._common = common
        self._last = max(common, default=0)

    def of(self, index: int) -> list[Piece]:
        """What a host gets: its own, what others have saved, and what was there before."""
        order = sorted(self._savers, key=lambda saver: saver != index)
        pieces: dict[str, Piece] = {}
        for is_own in (True, False):
            for saver in order:
                _add(pieces, self._layer(saver, is_own=is_own))
        return [pieces[path] for path in sorted(pieces)]

    def _layer(self, saver: int, *, is_own: bool) -> list[Piece]:
        own = self._own[saver]
        entries = {_entry(path) for path in own}
        return [
            piece
            for piece in self._held[saver].pieces
            if (piece.path in own or (piece.dir and _entry(piece.path) in entries)) == is_own
            and self._counts(_entry(piece.path), is_own=_entry(piece.path) in entries)
        ]

    def _counts(self, entry: str, *, is_own: bool) -> bool:
        step = step_of(entry)
        if step is None or not self._common:
            return True
        return step in self._common if is_own else step <= self._last


def _add(pieces: dict[str, Piece], more: Iterable[Piece]) -> None:
    """Adds what isn't there; nothing below what is a file already."""
    for piece in more:
        above = piece.path.rpartition("/")[0]
        if piece.path not in pieces and (not above or above not in pieces or pieces[above].dir):
            pieces[piece.path] = piece


def _for_all(given: Sequence[Given], held: Sequence[Held]) -> Sequence[Given]:
    return given if len(given) == len(held) else [{} for _ in held]


def _own(held: Held, given: Given) -> frozenset[str]:
    """The files of a host that it hasn't been given as they are."""
    return frozenset(
        piece.path
        for piece in held.pieces
        if not piece.dir and given.get(piece.path) != _content(piece)
    )


def _steps(held: Held, own: Iterable[str]) -> set[int]:
    entries = {_entry(path) for path in own}
    return {one.step for one in held.look.found if one.step is not None and one.name in entries}


def _content(piece: Piece) -> str:
    return piece.hash or f"-> {piece.link}"


def _entry(path: str) -> str:
    return path.partition("/")[0]
