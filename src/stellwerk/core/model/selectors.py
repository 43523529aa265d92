"""What a selector asks of labels or claims, in the words of Kubernetes."""

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
