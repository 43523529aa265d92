"""Says what is wrong with a placement itself, each with its place in the spec and a remedy."""

import re
from collections.abc import Iterable, Iterator

from stellwerk.core.model.placement import Placement, Predicate
from stellwerk.core.model.placing import Trouble
from stellwerk.core.model.selectors import Requirement, Selector
from stellwerk.core.place.compat import Rules, weighted
from stellwerk.core.place.expressions import Expressions
from stellwerk.core.place.groups import per_group

PREDICATE, TAINTS = "Predicate", "TaintToleration"
_NAME = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
VARIABLE = (
    "the one variable is `managedCluster` (metadata.name, metadata.labels, spec.taints, "
    'status.clusterClaims, status.allocatable, status.capacity, scores("name"))'
)
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def all_troubles(placement: Placement, rules: Rules, asking: Expressions) -> tuple[Trouble, ...]:
    """Everything that is wrong with a placement."""
    return (
        *of_predicates(placement.predicates, asking),
        *of_tolerations(placement),
        *of_prioritizers(placement, rules),
        *of_groups(placement),
        *_of_additions(placement),
    )


def of_predicates(rules: Iterable[Predicate], asking: Expressions) -> Iterator[Trouble]:
    """Selectors that make no sense, and expressions that can't be compiled."""
    for number, rule in enumerate(rules):
        path = f"predicates[{number}].requiredClusterSelector"
        for message, where in _of_selector(rule.labels, rule.claims):
            yield Trouble(PREDICATE, message, f"{path}.{where}")
        for place, expression in enumerate(rule.cel):
            refused = asking.check(expression)
            if refused is not None:
                where = f"{path}.celSelector.celExpressions[{place}]"
                yield Trouble(PREDICATE, str(refused), where, VARIABLE)


def of_tolerations(placement: Placement) -> Iterator[Trouble]:
    """Tolerations that contradict themselves."""
    for number, one in enumerate(placement.tolerations):
        path = f"tolerations[{number}]"
        if not one.key and one.operator != "Exists":
            help = "add `operator: Exists` to tolerate every taint, or name a key"
            yield Trouble(TAINTS, "If the key is empty, operator must be Exists.", path, help)
        if one.operator == "Exists" and one.value:
            message = "If the operator is Exists, the value should be empty."
            help = f"leave `value` out, or write `operator: Equal` to mean `{one.value}` alone"
            yield Trouble(TAINTS, message, path, help)


def of_prioritizers(placement: Placement, rules: Rules) -> Iterator[Trouble]:
    """A mode or a built-in score that there isn't."""
    if placement.mode not in {"", "Additive", "Exact"}:
        message = f"incorrect prioritizer policy mode: {placement.mode}"
        yield Trouble("", message, "prioritizerPolicy.mode", "write `Additive` or `Exact`")
        return
    for one in weighted(placement):
        path = "prioritizerPolicy.configurations"
        if one.resource or one.name in rules.built_ins:
            continue
        if not one.name:
            yield Trouble("", "scoreCoordinate field is required", path)
        elif one.name == "AddOn":
            yield Trouble("", "addOn should not be empty", path)
        else:
            help = f"there are {', '.join(rules.built_ins)}"
            yield Trouble("", f"incorrect builtin prioritizer: {one.name}", path, help)


def of_groups(placement: Placement) -> Iterator[Trouble]:
    """A size of groups that is none, and selectors that make no sense."""
    path = "decisionStrategy.groupStrategy"
    if per_group(placement.clusters_per_group, 1) is None:
        message = f"{placement.clusters_per_group} invalid type: string is not a percentage"
        help = "write a number such as `2`, or a share such as `25%`"
        yield Trouble("", message, f"{path}.clustersPerDecisionGroup", help)
    for number, rule in enumerate(placement.groups):
        for message, where in _of_selector(rule.labels, rule.claims):
            yield Trouble("", message, f"{path}.decisionGroups[{number}].{where}")


def _of_additions(placement: Placement) -> Iterator[Trouble]:
    for number, one in enumerate(placement.tolerations):
        if one.operator not in {"", "Equal", "Exists"}:
            message = f"there is no operator {one.operator}"
            yield Trouble(TAINTS, message, f"tolerations[{number}].operator", "Equal or Exists")
    for number, score in enumerate(placement.prioritizers):
        if not -10 <= score.weight <= 10:
            message = f"the weight {score.weight} of {score.title} isn't from -10 to 10"
            where = f"prioritizerPolicy.configurations[{number}].weight"
            yield Trouble("", message, where, "write a weight from -10 to 10")
    if placement.count is not None and placement.count < 0:
        message = f"{placement.count} clusters can't be chosen"
        yield Trouble("", message, "numberOfClusters", "write 0 or more, or leave it out for all")
    for field, value, least in (
        ("standby", placement.standby, 0),
        ("moveGain", placement.move_gain, 0),
        ("numNodes", placement.num_nodes, 1),
    ):
        if value < least:
            yield Trouble("", f"{field} is {value}", field, f"write {least} or more")
    for number, spread in enumerate(placement.spread):
        if spread.max_skew < 1:
            message = f"a skew of {spread.max_skew} can't be kept"
            where = f"spreadPolicy.spreadConstraints[{number}].maxSkew"
            yield Trouble("Spread", message, where, "write 1 or more")


def _of_selector(labels: Selector, claims: tuple[Requirement, ...]) -> Iterator[tuple[str, str]]:
    """What the reference finds wrong with a selector, and where."""
    for key, value in sorted(labels.equal.items()):
        yield from ((one, "labelSelector") for one in _of_key(key, (value,)))
    for where, conditions in (
        ("labelSelector", labels.requirements),
        ("claimSelector", claims),
    ):
        for one in conditions:
            yield from ((message, where) for message in _of_requirement(one))


def _of_requirement(one: Requirement) -> Iterator[str]:
    if one.operator not in OPERATORS:
        yield f'"{one.operator}" is not a valid label selector operator'
    elif one.operator in {"In", "NotIn"} and not one.values:
        yield "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    elif one.operator in {"Exists", "DoesNotExist"} and one.values:
        yield "values: Invalid value: values set must be empty for exists and does not exist"
    else:
        yield from _of_key(one.key, one.values)


def _of_key(key: str, values: tuple[str, ...]) -> Iterator[str]:
    prefix, slash, name = key.rpartition("/")
    good_prefix = not slash or (_PREFIX.fullmatch(prefix) is not None and len(prefix) <= 253)
    if not good_prefix or len(name) > 63 or _NAME.fullmatch(name) is None:
        yield f'key: Invalid value: "{key}": it isn\'t a qualified name'
    for value in values:
        if value and (len(value) > 63 or _NAME.fullmatch(value) is None):
            yield f'values: Invalid value: "{value}": it isn\'t the value of a label'
