"""The part of the live state that admission checks change: what each said of a workload."""

from stellwerk.core.model import events as ev
from stellwerk.core.model.admission import CheckState
from stellwerk.core.model.holding import Claim
from stellwerk.core.model.workload import Workload


def asked_of(claim: Claim) -> tuple[CheckState, ...]:
    """What its checks have said of a new claim: nothing yet."""
    return tuple(CheckState(name, since_ms=claim.since_ms) for name in claim.checks)


def fold_check(workload: Workload, at_ms: int, actor: str, event: ev.CheckSet) -> dict[str, object]:
    """What a word of a check changes; all Ready ends the count of those before it."""
    said = CheckState(event.check, event.state, event.message, actor, at_ms)
    checks = tuple(said if one.name == event.check else one for one in workload.checks)
    retries = workload.check_retries + (1 if event.state == "Retry" else 0)
    if all(one.state == "Ready" for one in checks):
        retries = 0
    return {"checks": checks, "check_retries": retries}
