"""Finds places in core whose result could hang on the order of a set, which differs per process.

It sees a set by its form (a literal, a comprehension, `set(…)`, an operator on those), by an
annotation in the same function, or by the annotation of a field anywhere in core. Asking a set,
counting it and sorting it are fine; going through it is not.
"""

import ast
from collections.abc import Iterator

from tests.tidy.rules import CORE, Source, functions, python_files

SET_NAMES = {"set", "frozenset", "Set", "AbstractSet", "MutableSet", "FrozenSet"}
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}
ORDER_FREE = {"sorted", "set", "frozenset", "any", "all", "sum", "len", "min", "max"}
GOES_THROUGH = {"list", "tuple", "iter", "enumerate", "zip", "map", "filter", "next", "dict"}
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


def core_never_goes_through_a_set(sources: list[Source]) -> list[str]:
    core = [source for source in python_files(sources) if source.path.startswith(CORE)]
    fields = {name for source in core for name in _set_fields(source)}
    complaints: set[str] = set()
    for source in core:
        for scope in (source.tree, *functions(source)):
            known = _set_names(scope)
            complaints |= {
                source.says(node, "goes through a set, whose order is chance: use sorted(…)")
                for node in _iterated(scope)
                if _is_set(node, known, fields)
            }
    return sorted(complaints)


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """Walks a scope without the functions inside it, which are scopes of their own."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(ast.iter_child_nodes(node))


def _iterated(scope: Scope) -> Iterator[ast.expr]:
    nodes = list(_own_nodes(scope))
    harmless = {id(argument) for node in nodes for argument in _order_free_arguments(node)}
    for node in nodes:
        match node:
            case ast.For(iter=iterated):
                yield iterated
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() if id(node) not in harmless:
                yield from (generator.iter for generator in node.generators)
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in GOES_THROUGH:
                if id(node) not in harmless:
                    yield from arguments
            case ast.Call(func=ast.Attribute(attr="join" | "extend"), args=arguments):
                yield from arguments
            case ast.Call(func=ast.Attribute(attr="pop", value=owner), args=[]):
                yield owner
            case ast.Starred(value=value):
                yield value


def _order_free_arguments(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in ORDER_FREE:
            return arguments
        case ast.Call(func=ast.Attribute(attr="update"), args=arguments):
            return arguments
    return []


def _set_names(scope: Scope) -> set[str]:
    names = set()
    if not isinstance(scope, ast.Module):
        arguments = scope.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.annotation and _annotates_set(argument.annotation):
                names.add(argument.arg)
    for node in _own_nodes(scope):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if _annotates_set(annotation):
                    names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if _is_set(value, names, set()):
                    names.add(name)
    return names


def _set_fields(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                match member:
                    case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                        if _annotates_set(annotation):
                            yield name


def _annotates_set(annotation: ast.expr) -> bool:
    match annotation:
        case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
            return name in SET_NAMES
        case ast.BinOp(left=left, right=right):
            return _annotates_set(left) or _annotates_set(right)
    return False


def _is_set(node: ast.expr, names: set[str], fields: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in SET_METHODS:
            return _is_set(owner, names, fields)
        case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, SET_OPERATORS):
            return _is_set(left, names, fields) or _is_set(right, names, fields)
        case ast.IfExp(body=body, orelse=other):
            return _is_set(body, names, fields) or _is_set(other, names, fields)
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=name):
            return name in fields
    return False
