"""The one table of what differs between the reference's behaviour (`compat: ocm`) and the default.

The pipeline asks these switches and nothing else, so both ways share every other rule.
"""

from msgspec import Struct

from stellwerk.core.model.placement import Compat, Placement, Prioritizer

REFERENCE_BUILT_INS = ("Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory")
OWN_BUILT_INS = ("Cost", "Start", "Transfer", "Latency", "Energy", "Reliability", "Fragmentation")
ADDITIVE = (Prioritizer("Balance"), Prioritizer("Steady"))
"""What counts without being listed, in mode Additive."""


class Rules(Struct, frozen=True):
    """The switches.

    ``checks_first``: everything wrong with a spec is told before anything is computed, else only
    what the run comes across. ``keeps_last``: a broken spec keeps the last good decision, else it
    empties it. ``knows_unknown``: a stale or missing score is unknown and ranks behind all known
    ones, else it is 0. ``prefer_lowers``: PreferNoSelect costs points, else nothing. ``clamps``
    scores to -100..100. ``spreads`` over domains. ``opens``: windows of clusters count.
    ``keeps_rank``: groups are in order of rank, else of names. ``stays``: a chosen cluster is left
    only for a clearly better one.
    """

    built_ins: tuple[str, ...]
    checks_first: bool = True
    keeps_last: bool = True
    knows_unknown: bool = True
    prefer_lowers: bool = True
    clamps: bool = True
    spreads: bool = True
    opens: bool = True
    keeps_rank: bool = True
    stays: bool = True


RULES: dict[Compat, Rules] = {
    "": Rules(REFERENCE_BUILT_INS + OWN_BUILT_INS),
    "ocm": Rules(
        REFERENCE_BUILT_INS,
        checks_first=False,
        keeps_last=False,
        knows_unknown=False,
        prefer_lowers=False,
        clamps=False,
        spreads=False,
        opens=False,
        keeps_rank=False,
        stays=False,
    ),
}


def rules_of(placement: Placement) -> Rules:
    """The switches that hold for a placement."""
    return RULES[placement.compat]


def weighted(placement: Placement) -> tuple[Prioritizer, ...]:
    """The prioritizers that count: of the same coordinate the last, none with weight 0."""
    listed = (*(() if placement.mode == "Exact" else ADDITIVE), *placement.prioritizers)
    last = {(one.resource, one.name): one for one in listed}
    return tuple(one for one in last.values() if one.weight)
