"""What a selector asks of labels or claims, in the words of Kubernetes."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class Requirement(Struct, frozen=True, omit_defaults=True):
    """One condition on a key; ``NotIn`` and ``DoesNotExist`` also hold where the key is missing."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class Selector(Struct, frozen=True, omit_defaults=True):
    """All conditions must hold; one without conditions matches everything."""

    equal: dict[str, str] = {}
    requirements: tuple[Requirement, ...] = ()


def meets(values: Mapping[str, str], one: Requirement) -> bool:
    """Whether labels or claims meet a condition."""
    has = one.key in values
    match one.operator:
        case "In":
            return has and values[one.key] in one.values
        case "NotIn":
            return not has or values[one.key] not in one.values
        case "Exists":
            return has
        case _:
            return not has


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether labels meet all conditions of a selector."""
    return all(labels.get(key) == value for key, value in selector.equal.items()) and all(
        meets(labels, one) for one in selector.requirements
    )
