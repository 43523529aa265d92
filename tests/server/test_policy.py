"""Who may do what: properties of the rule, and that every address has one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from litestar.handlers import HTTPRouteHandler

from stellwerk.server.app import HANDLERS
from stellwerk.server.permissions import RULES, rule_of_address
from stellwerk.server.policy import (
    SERVER,
    Actor,
    Allowed,
    Policy,
    Refused,
    Thing,
    Verb,
    may,
    may_have_priority,
    sees,
)

NAMES = st.sampled_from(("ada", "ben", "cyd"))
ACTORS = st.builds(Actor, NAMES, is_admin=st.booleans())
VERBS = st.sampled_from(("look", "read", "steer", "enter", "use", "tend", "govern"))
ABOUT_WORK = st.sampled_from(("look", "read", "steer", "enter"))
POLICIES = st.builds(Policy, st.sampled_from(("all", "names", "own")), st.integers(-10, 10))
WORK = st.builds(lambda owner: Thing("workload", "fit", owner), NAMES)


@given(name=NAMES, verb=ABOUT_WORK, policy=POLICIES)
def test_owners_do_everything_to_their_own(name: str, verb: str, policy: Policy) -> None:
    """Whatever the settings say."""
    thing = Thing("workload", "fit", name)
    assert isinstance(may(Actor(name), verb, thing, policy), Allowed)  # type: ignore[arg-type]


@given(actor=ACTORS, thing=WORK, policy=POLICIES)
def test_nobody_acts_as_somebody_else(actor: Actor, thing: Thing, policy: Policy) -> None:
    """Commands inside of a job are its owner's alone; only an administrator changes its course."""
    if actor.name == thing.owner:
        return
    assert isinstance(may(actor, "enter", thing, policy), Refused)
    steered = may(actor, "steer", thing, policy)
    assert isinstance(steered, Allowed) == actor.is_admin


@given(actor=ACTORS, verb=VERBS, thing=WORK, policy=POLICIES)
def test_a_refusal_says_whose_it_is_or_nothing_at_all(
    actor: Actor, verb: str, thing: Thing, policy: Policy
) -> None:
    """Where others' work isn't seen, a refusal doesn't tell that it is there."""
    verdict = may(actor, verb, thing, policy)  # type: ignore[arg-type]
    if isinstance(verdict, Allowed):
        return
    hidden = sees(actor, thing.owner, policy) == "nothing"
    assert verdict.hidden == hidden
    assert (thing.owner in verdict.message) != hidden
    assert verdict.code == ("find/workload" if hidden else "auth/not-yours")


@given(actor=ACTORS, thing=WORK)
def test_more_visibility_takes_nothing_away(actor: Actor, thing: Thing) -> None:
    """From `own` over `names` to `all`, what was allowed stays allowed."""
    verbs: tuple[Verb, ...] = ("look", "read", "steer", "enter")
    for verb in verbs:
        allowed = [
            isinstance(may(actor, verb, thing, policy), Allowed)
            for policy in (Policy("own"), Policy("names"), Policy("all"))
        ]
        assert allowed == sorted(allowed)


def test_what_concerns_everybody_is_for_administrators() -> None:
    """And looking at the server for all."""
    assert isinstance(may(Actor("ada"), "govern", SERVER, Policy()), Refused)
    assert isinstance(may(Actor("ada", is_admin=True), "govern", SERVER, Policy()), Allowed)
    assert isinstance(may(Actor("ada"), "look", SERVER, Policy()), Allowed)
    cluster = Thing("cluster", "k017", "ben")
    assert isinstance(may(Actor("ada"), "look", cluster, Policy()), Allowed)
    assert isinstance(may(Actor("ada"), "tend", cluster, Policy()), Refused)


@given(actor=ACTORS, priority=st.integers(-20, 20), policy=POLICIES)
def test_a_priority_has_a_bound(actor: Actor, priority: int, policy: Policy) -> None:
    """Lower is always possible; higher only for administrators."""
    verdict = may_have_priority(actor, priority, policy)
    assert isinstance(verdict, Allowed) == (priority <= policy.max_priority or actor.is_admin)


def test_every_address_has_a_rule() -> None:
    """A new address without one is closed to all but root, and fails here."""
    handlers = [one for one in HANDLERS if isinstance(one, HTTPRouteHandler)]
    assert len(handlers) == len(HANDLERS)
    addresses = [
        f"{method} /v1{path}".replace(":str}", "}")
        for handler in handlers
        for path in handler.paths
        for method in handler.http_methods
    ]
    assert len(addresses) > 40
    assert [one for one in addresses if one not in RULES] == []
    assert rule_of_address("GET", "/v1/nowhere") is None


@pytest.mark.parametrize("address", sorted(RULES))
def test_a_rule_about_a_thing_finds_it_in_the_path(address: str) -> None:
    """What a rule is about is what its address names."""
    kind, within = RULES[address].kind, RULES[address].within
    named = {"workload": "{ref}", "cluster": "{name}"}.get(kind, "")
    assert within or named in address
