"""What of other people's work somebody is shown: all, that it is there and what it holds, or none.

Texts, variables, output, folders and results are left out, and so is why something failed,
since that quotes output.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from litestar import Request
from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.workload import Workload
from stellwerk.server import models
from stellwerk.server.people import Caller, People, refusal
from stellwerk.server.policy import Refused, may_have_priority, sees
from stellwerk.server.services import Services
from stellwerk.server.waiting_models import StandingView

AnyRequest = Request[Any, Any, Any]
Head = TypeVar("Head", bound=models.Headline)


class Seeing(Struct, frozen=True):
    """Through whose eyes answers are looked at."""

    caller: Caller
    people: People

    def how(self, owner: str) -> str:
        """`all`, `names` or `nothing` of somebody's work."""
        return sees(self.caller.actor, owner, self.people.policy)

    @property
    def is_own_only(self) -> bool:
        """Whether others' work isn't there for this caller."""
        return self.how("") == "nothing"

    @property
    def sees_all(self) -> bool:
        """Whether nothing is left out."""
        return self.how("") == "all"

    def owner_to_list(self, asked: str) -> str | None:
        """Whose work a list is about: "" for everybody's; None where nothing of it is told."""
        if not self.is_own_only:
            return asked
        return self.caller.actor.name if asked in {"", self.caller.actor.name} else None

    def headline(self, row: Head) -> Head:
        """A line of a list, or a page, as it may be seen."""
        ended = row.reason is not None and row.reason.tier == "ended"
        if self.how(row.owner) == "all" or not ended:
            return row
        return replace(row, reason=None)

    def rows(self, found: models.Rows) -> models.Rows:
        """A list."""
        if self.sees_all:
            return found
        return replace(found, items=[self.headline(row) for row in found.items])

    def show(self, page: models.Show) -> models.Show:
        """Everything about one workload, or what is left of that."""
        if self.how(page.owner) == "all":
            return page
        return replace(  # `can_read`: so that nothing is offered which would be refused
            self.headline(page),
            can_read=False,
            task="",
            element=None,
            runs=[_without_output(run) for run in page.runs],
            reasons=[one for one in page.reasons if one.tier != "ended"],
            snapshot=None,
            work_dir=None,
            output_dir=None,
            checkpoint_dir=None,
            checkpoint=None,
            metrics={},
            timeline=[],
        )

    def _standing(self, found: models.Explain) -> StandingView | None:
        one = found.standing
        if one is None or not self.is_own_only or self.sees_all:
            return one
        seen = [each for each in one.contenders if self.how(each.owner) != "nothing"]
        more = one.more_contenders + len(one.contenders) - len(seen)
        hidden = [each.name for each in one.contenders if each not in seen]
        ways = [each for each in one.ways if each.change.removeprefix("cancel ") not in hidden]
        return replace(one, contenders=seen, more_contenders=more, ways=ways)

    def explain(self, found: models.Explain, owner: str) -> models.Explain:
        """Why something is where it is; of others that hold room it may be only their number."""
        holders = [one for one in found.holders if self.how(one.owner) != "nothing"]
        more = found.more_holders + len(found.holders) - len(holders)
        found = replace(found, holders=holders, more_holders=more, standing=self._standing(found))
        if self.how(owner) == "all":
            return found
        return replace(found, reasons=[one for one in found.reasons if one.tier != "ended"])


async def find_seen(eyes: Seeing, services: Services, ref: str) -> Workload:
    """A workload by its name or id; where others' isn't seen, theirs isn't there, like any other.

    Raises StellwerkError.
    """
    if not eyes.is_own_only:
        return await services.find(ref)
    try:
        found = await services.find(ref)
    except StellwerkError:
        raise nothing(ref) from None
    if eyes.how(found.owner) == "nothing":
        raise nothing(ref)
    return found


def nothing(ref: str) -> StellwerkError:
    """Says that there is no such workload, and names no other."""
    message = f"there is no workload `{ref[:80]}`"
    return StellwerkError.of("find/workload", message, "`stw ps -A` lists yours")


def seeing(request: AnyRequest) -> Seeing:
    """Through the eyes of who calls."""
    state = request.scope["state"]
    return Seeing(state["caller"], state["people"])


def check_priority(request: AnyRequest, priority: int) -> None:
    """Refuses a priority that whoever calls may not give."""
    eyes = seeing(request)
    verdict = may_have_priority(eyes.caller.actor, priority, eyes.people.policy)
    if isinstance(verdict, Refused):
        raise refusal(verdict)


def caller_of(request: AnyRequest) -> Caller:
    """Who calls, with as whom their work runs."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


def whose(owner_of: Callable[[str], str]) -> Callable[[str], str]:
    """Asks for the owner of each workload once."""
    known: dict[str, str] = {}

    def ask(workload: str) -> str:
        if workload not in known:
            known[workload] = owner_of(workload)
        return known[workload]

    return ask


def _without_output(run: models.RunView) -> models.RunView:
    end = run.end and replace(run.end, message="", last_lines=[])
    return replace(run, end=end, reason=None)


def idempotency_key(request: AnyRequest) -> str:
    """By which a request that is sent again is known; "" where it says nothing."""
    return request.headers.get("idempotency-key", "")
