"""Chooses a flavor for each pod set and resource group, in the order that the queue lists them.

One flavor serves all resources of a group. What earlier pod sets of the workload take counts. The
search stops early where the queue's fungibility says so, and goes on there in the next cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from stellwerk.core.model.queueing import FlavorQuotas, Fungibility, Pair, PodSet, QueuedWorkload
from stellwerk.core.queue.entries import (
    Assigned,
    Mode,
    PodSetFit,
    QueueState,
    Tried,
    Verdict,
    World,
)
from stellwerk.core.queue.packing import pack
from stellwerk.core.queue.tolerates import misses, tolerates
from stellwerk.core.queue.tree import level_that_fits

Oracle = Callable[[Pair, int], tuple[Mode, int]]
"""What evicting for so much of a pair alone would come to, and how far it would borrow then."""


class _Found(NamedTuple):
    """A flavor: ``mode`` and ``level`` of its worst resource, and ``widest`` of all levels."""

    flavor: str
    mode: Mode
    level: int
    modes: dict[str, Mode]
    widest: int = 0


class Assigner:
    """Assigns flavors to one workload, as often as its size is tried."""

    def __init__(
        self,
        world: World,
        queue: QueueState,
        workload: QueuedWorkload,
        oracle: Oracle,
        *,
        fair: bool,
        tried: Tried,
    ) -> None:
        self.world = world
        self.queue = queue
        self.workload = workload
        self.oracle = oracle
        self.tried = tried
        preemption = queue.spec.preemption
        self.may_borrow_and_evict = preemption.borrow != "Never" or (
            fair and preemption.reclaim != "Never"
        )

    def assign(self, counts: Sequence[int]) -> Assigned:
        """Flavors for so many pods of each set."""
        result = Assigned(self.queue)
        for index, (pods, count) in enumerate(zip(self.workload.pod_sets, counts, strict=True)):
            fit = self._pod_set(result, index, pods, count)
            if fit is None:
                result.mode = Mode.NO_FIT
                return result
            result.pod_sets.append(fit)
            for resource, flavor in fit.flavors.items():
                pair = Pair(flavor, resource)
                result.usage[pair] = result.usage.get(pair, 0) + fit.requests[resource]
            result.mode = min((result.mode, *fit.modes.values()))
        if self.world.rooms and result.mode > Mode.NO_FIT:
            pack(self.world, result)
        return result

    def _pod_set(self, result: Assigned, index: int, pods: PodSet, count: int) -> PodSetFit | None:
        requests = self.queue.requests(pods, count)
        fit = PodSetFit(pods, count, requests, {}, {})
        done: dict[int, None] = {}
        for resource in requests:
            group = self.queue.group_of.get(resource)
            if group is None:
                result.verdicts.append(Verdict(pods.name, "", resource, "uncovered"))
                return None
            if group in done:
                continue
            done[group] = None
            found = self._group(result, index, group, fit)
            if found is None:
                return None
            result.level = max(result.level, found.widest)
            for name, mode in found.modes.items():
                fit.flavors[name], fit.modes[name] = found.flavor, mode
        return fit

    def _group(self, result: Assigned, index: int, group: int, fit: PodSetFit) -> _Found | None:
        """The best flavor of a group for all of its resources."""
        spec, rules = self.queue.spec.groups[group], self.queue.spec.fungibility
        asked = {
            name: amount
            for name, amount in fit.requests.items()
            if self.queue.group_of.get(name) == group
        }
        best: _Found | None = None
        last = len(spec.flavors) - 1
        at = self.tried.get((index, group), -1)
        while at < last:
            at += 1
            one = spec.flavors[at]
            verdict = self._unfit(one, group, fit.pods)
            if verdict is not None:
                result.verdicts.append(verdict)
                continue
            found = self._flavor(result, one, fit.pods.name, asked)
            if found.mode > Mode.NO_FIT:
                if _is_enough(found, rules):
                    best = found
                    break
                if best is None or _is_better(found, best, rules):
                    best = found
        if best is not None and at < last:
            result.tried[index, group] = at
        return best

    def _unfit(self, one: FlavorQuotas, group: int, pods: PodSet) -> Verdict | None:
        """Why pods can't run on nodes of a flavor at all, if they can't."""
        flavor = self.world.flavors.get(one.flavor)
        if flavor is None:
            return Verdict(pods.name, one.flavor, "", "missing")
        if flavor.taints:
            taint = tolerates(flavor.taints, (*pods.tolerations, *flavor.tolerations))
            if taint is not None:
                note = f"{taint.key}={taint.value}:{taint.effect}"
                return Verdict(pods.name, one.flavor, "", "taint", note=note)
        if pods.node_selector or pods.affinity:
            key = misses(pods, flavor, self.queue.keys[group])
            if key:
                return Verdict(pods.name, one.flavor, "", "selector", note=key)
        if pods.topology is not None and not flavor.topology:
            return Verdict(pods.name, one.flavor, "", "no_topology")
        if pods.topology is None and flavor.topology and not self.queue.only_packs:
            return Verdict(pods.name, one.flavor, "", "only_topology")
        return None

    def _flavor(
        self, result: Assigned, one: FlavorQuotas, pods: str, asked: Mapping[str, int]
    ) -> _Found:
        """What a flavor comes to: as good as for the worst of its resources."""
        rules = self.queue.spec.fungibility
        worst, widest = _Found(one.flavor, Mode.FIT, 0, {}), 0
        modes: dict[str, Mode] = {}
        for resource, amount in asked.items():
            pair = Pair(one.flavor, resource)
            wanted = amount + result.usage.get(pair, 0)
            verdict, borrowed = self._quota(pair, wanted, pods)
            result.verdicts.append(verdict)
            this = _Found(one.flavor, verdict.mode, borrowed, {})
            if _is_better(worst, this, rules):
                worst = this
            if verdict.mode is Mode.NO_FIT:
                return this
            widest = max(widest, borrowed)
            modes[resource] = verdict.mode
        return worst._replace(modes=modes, widest=widest)

    def _quota(self, pair: Pair, wanted: int, pods: str) -> tuple[Verdict, int]:
        node = self.queue.node
        available = max(0, node.available(pair))
        verdict = Verdict(pods, *pair, "short", wanted, available, node.potential(pair))
        if wanted > verdict.most:
            return verdict._replace(code="exceeds"), 0
        level, is_part = level_that_fits(node, pair, wanted)
        if wanted <= available:
            code = "borrows" if level else "fits"
            return verdict._replace(code=code, mode=Mode.FIT), level
        if wanted <= node.nominal.get(pair, 0) or is_part or self.may_borrow_and_evict:
            mode, level = self.oracle(pair, wanted)
            return verdict._replace(mode=mode), level
        return verdict, level


def _is_enough(found: _Found, rules: Fungibility) -> bool:
    """Whether the search may stop at a flavor."""
    borrows = found.level > 0
    if found.mode is Mode.FIT:
        return not borrows or rules.borrow == "MayStopSearch"
    return (
        found.mode >= Mode.PREEMPT
        and rules.preempt == "MayStopSearch"
        and (not borrows or rules.borrow == "MayStopSearch")
    )


def _is_better(one: _Found, other: _Found, rules: Fungibility) -> bool:
    """Whether a later flavor is better than an earlier one."""
    if rules.preference == "PreemptionOverBorrowing":
        return (-one.level, one.mode) > (-other.level, other.mode)
    return (one.mode, -one.level) > (other.mode, -other.level)
