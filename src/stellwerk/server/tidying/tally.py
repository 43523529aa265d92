"""What a sweep is to do, and what became of each kind: gathered while it goes on, then told."""

import msgspec

from stellwerk.server.tidying.rules import KINDS, Kind, Rule


class SweptKind(msgspec.Struct, frozen=True):
    """What of one kind was removed (or would be), and what is left of it.

    `keep_ms` null is "for ever"; what isn't counted is null too. `failed` could not be removed.
    """

    kind: Kind
    about: str
    count: int
    bytes: int
    left: int | None
    left_bytes: int | None
    keep_ms: int | None
    failed: int = 0


class Swept(msgspec.Struct, frozen=True):
    """All kinds; with `more` another sweep would remove more. `skipped` are out of reach."""

    dry_run: bool
    at_ms: int
    items: list[SweptKind]
    more: bool
    skipped: list[str] = []


class Tally:
    """The orders of one sweep, and its outcome so far."""

    def __init__(self, rules: dict[Kind, Rule], now_ms: int, *, dry_run: bool) -> None:
        self.rules = rules
        self.now_ms = now_ms
        self.dry_run = dry_run
        self.more = False
        self.skipped: list[str] = []
        self.unseen: dict[str, None] = {}
        self._items: dict[Kind, SweptKind] = {}

    def before_ms(self, kind: Kind) -> int | None:
        """What of this kind is older may go; None if none of it may."""
        rule = self.rules.get(kind)
        return None if rule is None or rule.keep_ms is None else self.now_ms - rule.keep_ms

    def says(
        self,
        kind: Kind,
        gone: tuple[int, int] = (0, 0),
        left: tuple[int | None, int | None] = (None, None),
        failed: int = 0,
    ) -> None:
        """Notes an outcome (counts and bytes); several of one kind are added up."""
        before = self._items.get(kind)
        if before is not None:
            gone = (gone[0] + before.count, gone[1] + before.bytes)
            left = (_sum(left[0], before.left), _sum(left[1], before.left_bytes))
            failed += before.failed
        keep_ms = self.rules[kind].keep_ms
        self._items[kind] = SweptKind(kind, KINDS[kind], *gone, *left, keep_ms, failed)

    def swept(self) -> Swept:
        """The outcome of all kinds, in their order."""
        items = [self._items[kind] for kind in KINDS if kind in self._items]
        return Swept(self.dry_run, self.now_ms, items, self.more, self.skipped)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
