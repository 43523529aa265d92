"""What Kubernetes adds to CEL: quantities, versions, addresses, lists, patterns, JSON, URLs.

A value of one of those kinds is a map with its canonical text, so that equal amounts are equal
values. Only this module knows the library that evaluates.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import msgspec

from stellwerk.core.place import expression_urls as urls

Map = dict[str, Any]

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE]))?",
    re.ASCII,
)
_SCALE = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_VERSION = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)
_NESTED = re.compile(r"[*+}]\)*[*+{]|\([^()]*[*+{|][^()]*\)[*+{]")
LONGEST_TEXT = 1 << 16


def quantity(text: str) -> Map:
    """Reads a quantity: `4`, `500m`, `16Gi`, `1e3`."""
    return _amount(_number(text))


def is_quantity(text: str) -> bool:
    """Whether a text is a quantity."""
    return _QUANTITY.fullmatch(text) is not None


def semver(text: str) -> Map:
    """Reads a version: `1.28.3`, `1.0.0-rc.1`."""
    return {"semver": text, "order": _order(text)}


def is_semver(text: str) -> bool:
    """Whether a text is a version."""
    return _VERSION.fullmatch(text) is not None


def loose_semver(text: str, normalize: bool) -> Map:
    """Reads a version, on demand with a leading `v` and missing parts."""
    return semver(_normal(text) if normalize else text)


def is_loose_semver(text: str, normalize: bool) -> bool:
    """Whether a text is a version, on demand after it was completed."""
    return is_semver(_normal(text) if normalize else text)


def compared(left: Map, right: Map) -> int:
    """Compares two quantities or two versions: -1, 0, 1."""
    one, other = _value(left), _value(right)
    if type(one) is not type(other):
        raise ValueError("a quantity and a version can't be compared")
    return int(one > other) - int(one < other)


def parse_json(text: str) -> Any:
    """Reads JSON."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"the JSON has {len(text)} characters, at most {LONGEST_TEXT} may be")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"failed to parse json: {error}") from error


def environment(scores: Callable[[Any, str], list[Map]]) -> Any:
    """Makes the environment in which expressions are compiled."""
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

    kind = cel.Type
    value, list_of = kind.Map(kind.STRING, kind.DYN), kind.List(kind.DYN)
    types = {
        "v": value, "s": kind.STRING, "b": kind.BOOL, "i": kind.INT, "d": kind.DOUBLE,
        "a": kind.DYN, "l": list_of, "m": value,
    }  # fmt: skip

    def declared(name: str, overloads: list[tuple[str, Callable[..., Any]]]) -> Any:
        made = []
        for signature, work in overloads:
            member = signature[0] == "."
            given, _, result = signature.lstrip(".").partition(">")
            id = f"stellwerk_{name}_{'of_' if member else ''}{given}"
            made.append(
                cel.Overload(id, types[result], [types[one] for one in given], member, work)
            )
        return cel.FunctionDecl(name, made)

    table = {**_functions(), "scores": [(".ms>l", scores)]}
    return cel.NewEnv(
        variables={"managedCluster": value},
        extensions=[
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
            ext_bindings.ExtBindings(),
            ext_math.ExtMath(),
            ext_encoders.ExtEncoders(),
        ],
        functions=[declared(name, overloads) for name, overloads in table.items()],
    )


def _functions() -> dict[str, list[tuple[str, Callable[..., Any]]]]:
    """The functions by name: ``.`` a member, then the kinds of its values, then what it gives."""
    return {
        "quantity": [("s>v", quantity)],
        "isQuantity": [("s>b", is_quantity)],
        "semver": [("s>v", semver), ("sb>v", loose_semver)],
        "isSemver": [("s>b", is_semver), ("sb>b", is_loose_semver)],
        "isGreaterThan": [(".vv>b", lambda one, other: compared(one, other) > 0)],
        "isLessThan": [(".vv>b", lambda one, other: compared(one, other) < 0)],
        "compareTo": [(".vv>i", compared)],
        "sign": [(".v>i", lambda one: compared(one, _amount(Fraction(0))))],
        "add": [(".vv>v", lambda one, other: _amount(_value(one) + _value(other))),
                (".vi>v", lambda one, other: _amount(_value(one) + other))],
        "sub": [(".vv>v", lambda one, other: _amount(_value(one) - _value(other))),
                (".vi>v", lambda one, other: _amount(_value(one) - other))],
        "isInteger": [(".v>b", lambda one: _value(one).denominator == 1)],
        "asInteger": [(".v>i", _integer)],
        "asApproximateFloat": [(".v>d", lambda one: float(_value(one)))],
        "major": [(".v>i", lambda one: one["order"][0])],
        "minor": [(".v>i", lambda one: one["order"][1])],
        "patch": [(".v>i", lambda one: one["order"][2])],
        "parseJSON": [(".s>a", parse_json)],
        "sum": [(".l>a", _sum)],
        "min": [(".l>a", min)],
        "max": [(".l>a", max)],
        "isSorted": [(".l>b", lambda items: all(a <= b for a, b in pairwise(items)))],
        "find": [(".ss>s", _find)],
        "findAll": [(".ss>l", _find_all)],
        "isIP": [("s>b", lambda text: _parsed(ipaddress.ip_address, text) is not None)],
        "ip": [("s>v", lambda text: {"ip": str(ipaddress.ip_address(text))})],
        "family": [(".v>i", lambda one: ipaddress.ip_address(one["ip"]).version)],
        "isCIDR": [("s>b", lambda text: _parsed(ipaddress.ip_interface, text) is not None)],
        "cidr": [("s>v", lambda text: {"cidr": str(ipaddress.ip_network(text, strict=False))})],
        "containsIP": [(".vs>b", _contains), (".vv>b", lambda n, one: _contains(n, one["ip"]))],
        "url": [("s>v", urls.url)],
        "isURL": [("s>b", urls.is_url)],
        "getScheme": [(".v>s", lambda one: urls.part(one, "scheme"))],
        "getHost": [(".v>s", urls.host_of)],
        "getHostname": [(".v>s", urls.hostname_of)],
        "getPort": [(".v>s", lambda one: urls.part(one, "port"))],
        "getEscapedPath": [(".v>s", urls.escaped_path)],
        "getQuery": [(".v>m", urls.query_of)],
        "prefixLength": [(".v>i", lambda one: ipaddress.ip_network(one["cidr"]).prefixlen)],
    }  # fmt: skip


def _number(text: str) -> Fraction:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"`{text[:40]}` isn't a quantity")
    digits, exponent, unit = found[1], found[2], found[3] or ""
    number = Fraction(digits if digits[-1] != "." else digits[:-1])
    if exponent:
        return number * Fraction(10) ** int(exponent[1:])
    if unit.endswith("i"):
        return number * Fraction(1024) ** ("KMGTPE".index(unit[0]) + 1)
    return number * Fraction(10) ** _SCALE[unit]


def _amount(number: Any) -> Map:
    return {"quantity": str(Fraction(number))}


def _value(one: Map) -> Any:
    """The Fraction of a quantity, or the list by which versions are ordered."""
    if "quantity" in one:
        return Fraction(one["quantity"])
    if "order" in one:
        return _Version(one["order"])
    raise ValueError("it is neither a quantity nor a version")


def _integer(one: Map) -> int:
    number = _value(one)
    if number.denominator != 1:
        raise ValueError("the quantity isn't a whole number")
    return int(number)


class _Version:
    """Orders versions as semver.org says: a pre-release comes before its release."""

    def __init__(self, order: list[Any]) -> None:
        self.key = (tuple(order[:3]), tuple(_part(one) for one in order[3:]) or ((2, 0, ""),))

    def __lt__(self, other: _Version) -> bool:
        return self.key < other.key

    def __gt__(self, other: _Version) -> bool:
        return self.key > other.key


def _part(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)


def _order(text: str) -> list[Any]:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(f"`{text[:40]}` isn't a semantic version")
    before = found[4].split(".") if found[4] else []
    return [int(found[1]), int(found[2]), int(found[3]), *before]


def _normal(text: str) -> str:
    core, dash, rest = text.removeprefix("v").partition("-")
    parts = [one.lstrip("0") or "0" for one in core.split(".")]
    return ".".join([*parts, "0", "0"][:3]) + dash + rest


def _sum(items: list[Any]) -> Any:
    return sum(items[1:], items[0]) if items else 0


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern, text).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [found[0] for found in _pattern(pattern, text).finditer(text)]


def _pattern(pattern: str, text: str) -> re.Pattern[str]:
    """Compiles a pattern that can't take exponential time: no repetition inside a repetition."""
    if len(pattern) > 256 or len(text) > 4096 or _NESTED.search(pattern):
        raise ValueError("the pattern is too costly for find: use matches")
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as error:
        raise ValueError(f"the pattern is wrong: {error}") from error


def _contains(network: Map, address: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network["cidr"])


def _parsed(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return None
