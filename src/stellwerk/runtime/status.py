"""Decides what status.json says: how far a run is, for clients and for the next agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .files import JSONObject
from .system import now_ms

if TYPE_CHECKING:
    from .wrapper import Wrapper


def status_record(wrapper: Wrapper) -> JSONObject:
    """What is known of a run that hasn't ended."""
    pids = {rank: pid for pid, rank in wrapper.rank_of.items()}
    ranks = {
        str(rank.rank): {"pid": pids.get(rank.rank), "code": wrapper.codes.get(rank.rank)}
        for rank in wrapper.spec.ranks
    }
    sessions = [*pids.values(), *([wrapper.before.setup_pid] if wrapper.before.setup_pid else [])]
    return {
        "v": 1,
        **wrapper.spec.identity._asdict(),
        "phase": wrapper.phase,
        "detail": wrapper.before.detail,
        "at_ms": now_ms(),
        "started_at_ms": wrapper.started_at_ms,
        "setup": wrapper.before.setup_state,
        "shell": wrapper.before.shell,
        "ranks": ranks,
        "sessions": sorted(sessions),
        "takes": ["exec"],
        "gang": wrapper.barrier.as_json(),
        "notice": wrapper.notice.as_json(),
        "log_over": wrapper.log_over,
        "left_over": wrapper.left_over,
        "message": wrapper.message,
    }
