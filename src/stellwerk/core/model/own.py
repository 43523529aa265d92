"""What is decided for work that has wishes: its own placement, shared by all work of one shape.

The placement itself follows from the shape, which the submission says; only its decision is a fact.
"""

from msgspec import Struct

from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.reasons import Reason

OWN = "own"
"""The namespace under which own placements are told."""


def own_key(shape: ShapeId) -> str:
    """``own/SHAPE``, the key of the placement that work of a shape has for its wishes."""
    return f"{OWN}/{shape}"


class OwnOption(Struct, frozen=True, omit_defaults=True):
    """A cluster, the alternative that may run there, and what that would take; None = unknown.

    Seconds count from the decision.
    """

    cluster: str
    alternative: int = 0
    starts_s: float | None = None
    finishes_s: float | None = None
    cost_usd: float | None = None
    usd_per_hour: float | None = None

    @property
    def figures(self) -> dict[str, float]:
        """The numbers that are known."""
        names = ("starts_s", "finishes_s", "cost_usd", "usd_per_hour")
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}


class OwnRefusal(Struct, frozen=True, omit_defaults=True):
    """Why an alternative may not start on a cluster, with what would turn it.

    ``room`` is told where the cluster, as it is observed, would have room. ``later``: time alone
    turns it.
    """

    cluster: str
    alternative: int = 0
    reasons: tuple[Reason, ...] = ()
    room: tuple[Reason, ...] = ()
    later: bool = False


class OwnDecided(Struct, frozen=True, omit_defaults=True):
    """Where work with wishes may start, best first; whether there is room is asked when it does.

    ``broken``: the wishes, or the policy that they narrow, make no sense; then nothing else is
    said. ``at_ms`` is when it was decided.
    """

    ranked: tuple[OwnOption, ...] = ()
    refused: tuple[OwnRefusal, ...] = ()
    broken: tuple[Reason, ...] = ()
    at_ms: int = 0

    @property
    def matters(self) -> tuple[object, ...]:
        """What makes two decisions different ones: not the numbers that change nothing."""
        return (
            tuple((one.cluster, one.alternative) for one in self.ranked),
            tuple((one.cluster, one.alternative, one.later, _kinds(one)) for one in self.refused),
            self.broken,
        )


def _kinds(refusal: OwnRefusal) -> tuple[tuple[str, ...], ...]:
    """Which rules refuse; a moment at which a window opens counts, a price that drifts doesn't."""
    return tuple(
        (one.code, *(str(one.params.get(name, "")) for name in ("rule", "data", "opens", "better")))
        for one in (*refusal.reasons, *refusal.room)
    )
