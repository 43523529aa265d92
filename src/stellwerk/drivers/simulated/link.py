"""The way between drivers and a simulated place: orders and reports meet their fates here.

One way serves every driver that is opened on the place, one after the other or side by side, so an
outage outlives a killed control plane, and a repeated order meets another fate than the first.
"""

from collections.abc import Callable
from typing import Protocol

from stellwerk.core.model.reports import ClusterReport, Inventory, Reachability, Report
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.simulated.faults import Faults, Reboot
from stellwerk.drivers.simulated.place import SimulatedPlace


class Listener(Protocol):
    """Who hears what arrives from the place: a driver."""

    def deliver(self, report: Report) -> None:
        """A report has arrived."""
        ...


class Link:
    """Carries orders to the place and reports back, as well as the faults let it."""

    def __init__(self, place: SimulatedPlace, faults: Faults | None = None) -> None:
        self.place = place
        self.faults = faults or Faults()
        self.clock = place.clock
        self._cuts = 0
        self._serial = 0
        self._attempts: dict[tuple[str, str], int] = {}
        self._listeners: dict[Listener, Callable[[], None]] = {}
        for outage in self.faults.outages:
            self.clock.at(outage.from_ms, self.cut)
            self.clock.at(outage.to_ms, self.restore)
        for reboot in self.faults.reboots:
            self._schedule(reboot)

    @property
    def cluster(self) -> str:
        """The place's name."""
        return self.place.cluster.name

    @property
    def reachable(self) -> bool:
        """Whether the place answers now."""
        return not self._cuts and not self._all_down()

    def check(self) -> None:
        """Raises DriverError if the place can't be reached."""
        if not self.reachable:
            raise DriverError("driver/unreachable", f"{self.cluster} does not answer", final=False)

    # orders

    def send(self, verb: str, run: str, carry_out: Callable[[], None]) -> None:
        """Brings an order to the place; raises DriverError as it does, or for want of an answer."""
        self.check()
        attempt = self._attempts.get((verb, run), 0)
        self._attempts[verb, run] = attempt + 1
        fate = self.faults.order_fate(verb, run, attempt)
        if fate == "arrives":
            carry_out()
            return
        if fate == "vanishes":
            self._repair_later()
            return
        if fate == "loses its answer":
            _carry_out_unheard(carry_out)
        elif fate == "arrives late":
            delay = self.faults.order_delay(verb, run, attempt)
            self.clock.after(delay, lambda: self._arrive_late(carry_out))
        raise DriverError("driver/no-answer", f"no answer to {verb} {run}", final=False)

    def _arrive_late(self, carry_out: Callable[[], None]) -> None:
        if self.reachable:
            _carry_out_unheard(carry_out)

    # reports

    def connect(self, listener: Listener) -> None:
        """Has a driver hear what changes from now on, after the facts and an inventory."""
        self.disconnect(listener)

        def report(report: Report) -> None:
            self.report(listener, report)

        self._listeners[listener] = self.place.watch(report)
        self.report(listener, ClusterReport(self.place.facts()), may_be_lost=False)
        inventory = Inventory(self.cluster, self.place.listing(), self.clock.now_ms)
        self.report(listener, inventory, may_be_lost=False)

    def disconnect(self, listener: Listener) -> None:
        """Has a driver hear nothing more."""
        unwatch = self._listeners.pop(listener, None)
        if unwatch is not None:
            unwatch()

    def report(self, listener: Listener, report: Report, *, may_be_lost: bool = True) -> None:
        """Sends a report on its way."""
        self._serial += 1
        delays = self.faults.report_delays(self._serial, may_be_lost=may_be_lost)
        if not delays:
            self._repair_later()
        for delay in delays:
            if delay:
                self.clock.after(delay, lambda: self._arrive(listener, report))
            else:
                self._arrive(listener, report)

    def _arrive(self, listener: Listener, report: Report) -> None:
        if listener in self._listeners:
            listener.deliver(report)

    def _repair_later(self) -> None:
        self.clock.after(self.faults.repair_ms, self._reconnect_all)

    def _reconnect_all(self) -> None:
        if self.reachable:
            for listener in tuple(self._listeners):
                self.connect(listener)

    # outages and machines

    def cut(self) -> None:
        """Cuts the way; what runs at the place goes on."""
        was_reachable = self.reachable
        self._cuts += 1
        self._changed(was_reachable)

    def restore(self) -> None:
        """Takes back one cut."""
        was_reachable = self.reachable
        self._cuts = max(0, self._cuts - 1)
        self._changed(was_reachable)

    def node_dies(self, name: str) -> None:
        """A machine dies, and all that runs on it."""
        was_reachable = self.reachable
        self.place.node_dies(name)
        self._changed(was_reachable, facts=True)

    def node_returns(self, name: str) -> None:
        """A dead machine is back; one that isn't dead stays as it is."""
        if self.place.down.get(name):
            was_reachable = self.reachable
            self.place.node_returns(name)
            self._changed(was_reachable, facts=True)

    def _schedule(self, reboot: Reboot) -> None:
        self.clock.at(reboot.at_ms, lambda: self.node_dies(reboot.node))
        self.clock.at(reboot.back_ms, lambda: self.node_returns(reboot.node))

    def _all_down(self) -> bool:
        return all(self.place.down.get(node.name) for node in self.place.cluster.nodes)

    def _changed(self, was_reachable: bool, *, facts: bool = False) -> None:
        if was_reachable and not self.reachable:
            for listener in tuple(self._listeners):
                self._listeners[listener]()
                listener.deliver(Reachability(self.cluster, "unreachable", "no answer"))
        elif self.reachable and not was_reachable:
            for listener in tuple(self._listeners):
                listener.deliver(Reachability(self.cluster, "reachable"))
                self.connect(listener)
        elif self.reachable and facts:
            self._reconnect_all()


def _carry_out_unheard(carry_out: Callable[[], None]) -> None:
    try:
        carry_out()
    except DriverError:
        return  # whoever gave the order has stopped listening, so nobody learns of the refusal
