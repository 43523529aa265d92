"""The own placements of work that has wishes, as lines of the list of placements."""

from stellwerk.core.model.own import OWN, OwnDecided, own_key
from stellwerk.core.view import View
from stellwerk.server import standing_models as models

DECIDED = "WishesDecided"


def own_rows(view: View) -> list[models.PlacementRow]:
    """One line for each, with who waits for it."""
    names = {one.id: (one.heads[0].name, one.count) for one in view.shapes if one.heads}
    return [
        _row(own_key(id), id, decided, _who(*names.get(id, ("", 0))))
        for id, decided in sorted(view.own.items())
    ]


def _row(key: str, name: str, decided: OwnDecided, who: str) -> models.PlacementRow:
    clusters = list(dict.fromkeys(one.cluster for one in decided.ranked))
    met = "True" if clusters else "False"
    reason = "SomeMeetThem" if clusters else "Broken" if decided.broken else "NoneMeetsThem"
    return models.PlacementRow(
        key=key,
        namespace=OWN,
        name=name,
        clusters=clusters,
        wanted=1,
        candidates=len(clusters),
        conditions=[models.ConditionView(DECIDED, met, reason, "")],
        since_ms=decided.at_ms or None,
        applied_ms=decided.at_ms,
        by=who,
        kept=False,
        decision="",
    )


def _who(first: str, count: int) -> str:
    return f"{first} and {count - 1} more" if count > 1 else first
