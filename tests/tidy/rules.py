"""The rules of the house, each a function from source files to the complaints about them.

A complaint is one line: path, line, what is wrong, what to do. An empty list means all is well.
The numbers are those of CONTRIBUTING.md.
"""

import ast
import contextlib
import gc
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

MODULE_SOFT_LINES = 400
MODULE_HARD_LINES = 600
FUNCTION_LINES = 60
PACKAGE_INIT_LINES = 60
LINE_LENGTH = 100
PYTHON_OF_THE_PROJECT = (3, 11)
PYTHON_BESIDE_A_JOB = (3, 9)

CORE = "src/stellwerk/core/"
RUNTIME = "src/stellwerk/runtime/"
THERE_FOR_TESTS = (
    "stellwerk.testing",
    "stellwerk.core.invariants",
    "stellwerk.drivers.simulated",
)


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    """Keeps the garbage collector away while a tree grows, of which nothing is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True)
class Source:
    """One text file of the project: its path from the root, with slashes, and its text."""

    path: str
    text: str

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        with no_collector():
            return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All of the tree: many rules look through it, and walking takes most of their time."""
        tree = self.tree
        with no_collector():
            return tuple(ast.walk(tree))

    @cached_property
    def module(self) -> str:
        """The dotted name: `src/stellwerk/core/plan.py` is `stellwerk.core.plan`."""
        name = self.path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
        return name.replace("/", ".")

    def says(self, node: ast.AST | int, complaint: str) -> str:
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return f"{self.path}:{line}: {complaint}"


Function = ast.FunctionDef | ast.AsyncFunctionDef
Rule = Callable[[list[Source]], list[str]]


def python_files(sources: Iterable[Source]) -> list[Source]:
    return [source for source in sources if source.is_python]


def functions(source: Source) -> Iterator[Function]:
    for node in source.nodes:
        if isinstance(node, Function):
            yield node


def modules_are_short(sources: list[Source], ratchet: dict[str, int]) -> list[str]:
    """Lets only the modules in the ratchet be longer than the soft limit, and none grow."""
    complaints = []
    for source in python_files(sources):
        count = len(source.lines)
        if source.path.endswith("__init__.py") and count > PACKAGE_INIT_LINES:
            complaints.append(
                source.says(1, f"a package's __init__ has {count} lines: move code into modules")
            )
        elif count > MODULE_HARD_LINES:
            complaints.append(
                source.says(1, f"{count} lines, the hard limit is {MODULE_HARD_LINES}: split it")
            )
        elif count > ratchet.get(source.path, MODULE_SOFT_LINES):
            complaints.append(
                source.says(
                    1,
                    f"{count} lines, its limit is {ratchet.get(source.path, MODULE_SOFT_LINES)}: "
                    "split it; only a reviewed exception goes into tests/tidy/ratchet.json",
                )
            )
    return complaints


def ratchet_only_tightens(sources: list[Source], ratchet: dict[str, int]) -> list[str]:
    """Wants an exception taken back as soon as it is no longer needed."""
    lengths = {source.path: len(source.lines) for source in sources}
    complaints = []
    for path, allowed in ratchet.items():
        count = lengths.get(path, 0)
        if count <= MODULE_SOFT_LINES:
            complaints.append(f"{path}: {count} lines now: take it out of tests/tidy/ratchet.json")
        elif allowed > count:
            complaints.append(
                f"{path}: {count} lines now: lower its {allowed} in tests/tidy/ratchet.json"
            )
    return complaints


def functions_are_short(sources: list[Source]) -> list[str]:
    return [
        source.says(node, f"`{node.name}` has {length} lines, the limit is {FUNCTION_LINES}")
        for source in python_files(sources)
        for node in functions(source)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    ]


def lines_are_short(sources: list[Source]) -> list[str]:
    return [
        source.says(number, f"{len(line)} columns, the limit is {LINE_LENGTH}")
        for source in python_files(sources)
        for number, line in enumerate(source.lines, 1)
        if len(line) > LINE_LENGTH
    ]


def modules_say_what_they_do(sources: list[Source]) -> list[str]:
    return [
        source.says(1, "no module docstring: say what the module decides or does")
        for source in python_files(sources)
        if source.text.strip() and not ast.get_docstring(source.tree)
    ]


def tests_say_what_they_show(sources: list[Source]) -> list[str]:
    return [
        source.says(node, f"`{node.name}` has no docstring: say what must hold")
        for source in python_files(sources)
        if source.is_test
        for node in functions(source)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]


BANNED_WORDS = {
    r"\bTO[D]O\b": "file an issue, or do it",
    r"\bFIX[M]E\b": "file an issue, or do it",
    r"\bX[X]X\b": "file an issue, or do it",
    r"(?<![\w.~$}])/(?:roo[t]|wor[k])\b(?!-)": "a path of one machine: use a relative one",
    r"(?i)\bpyp[i]\.org|pythonhoste[d]|registry\.npmj[s]|proxy\.golan[g]|crates\.i[o]\b": (
        "the address of a package registry: the clients know where to ask"
    ),
    r"(?i)\bAI[- ](?:generate[d]|writte[n]|assiste[d])\b|\bgenerated b[y] (?:AI|an? )": (
        "the project speaks of itself alone"
    ),
    r"(?i)\bassistan[t]s?\b|\bco-authored-b[y]\b|\bsystem promp[t]\b": (
        "the project speaks of itself alone"
    ),
}


def no_banned_words(sources: list[Source]) -> list[str]:
    return [
        source.says(number, f"`{found.group().strip()}`: {remedy}")
        for source in sources
        for pattern, remedy in BANNED_WORDS.items()
        if re.search(pattern, source.text)
        for number, line in enumerate(source.lines, 1)
        if (found := re.search(pattern, line))
    ]


def no_swallowed_errors(sources: list[Source]) -> list[str]:
    """An empty handler must name its error narrowly, and say beside it why it may be left alone."""
    return [
        source.says(node, "an error is swallowed: handle it, or name it and say why it may be")
        for source in python_files(sources)
        for node in source.nodes
        if isinstance(node, ast.ExceptHandler) and all(map(_does_nothing, node.body))
        if _is_broad(node) or not _has_comment(source, node)
    ]


def _is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"})
        for kind in caught
    )


def _has_comment(source: Source, handler: ast.ExceptHandler) -> bool:
    lines = source.lines[handler.lineno - 1 : handler.end_lineno]
    return any("# " in line for line in lines)


def _does_nothing(node: ast.stmt) -> bool:
    is_ellipsis = (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and node.value.value is Ellipsis
    )
    return is_ellipsis or isinstance(node, ast.Pass)


def no_stubs(sources: list[Source]) -> list[str]:
    return [
        source.says(node, "something is left unwritten: write it, or leave the function out")
        for source in python_files(sources)
        for node in source.nodes
        if isinstance(node, ast.Name) and node.id == "NotImplementedError"
    ]


def runs_on_the_promised_python(sources: list[Source]) -> list[str]:
    complaints = []
    for source in python_files(sources):
        beside_a_job = source.path.startswith(RUNTIME)
        version = PYTHON_BESIDE_A_JOB if beside_a_job else PYTHON_OF_THE_PROJECT
        try:
            if version == sys.version_info[:2]:
                _ = source.tree
            else:
                ast.parse(source.text, feature_version=version)
        except SyntaxError as error:
            complaints.append(
                source.says(error.lineno or 1, f"no Python {version[0]}.{version[1]}: {error.msg}")
            )
    return complaints


def runtime_needs_nothing_installed(sources: list[Source]) -> list[str]:
    return [
        source.says(node, f"`{name}` isn't in the standard library, which is all a job's host has")
        for source in python_files(sources)
        if source.path.startswith(RUNTIME)
        for node, name in imported_names(source)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not name.startswith("stellwerk.runtime")
    ]


def imported_names(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Gives every module that a file imports, and each `from` name, which may be a module too."""
    package = source.module.split(".")
    if not source.path.endswith("__init__.py"):
        package.pop()
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield node, base
            for alias in node.names:
                yield node, f"{base}.{alias.name}"


def no_module_is_forgotten(sources: list[Source], entry_points: Iterable[str]) -> list[str]:
    """Wants every module imported by another, named as text for a late import, or an entry point.

    Tests don't count as importers, but for what is there for them.
    """
    reached = set(entry_points)
    for source in python_files(sources):
        names = {name for _, name in imported_names(source)}
        if source.is_test:
            names = {name for name in names if name.startswith(THERE_FOR_TESTS)}
        else:
            names |= set(_names_in_text(source))
        reached |= names - {source.module}
    return [
        source.says(1, "no module imports this one: use it or delete it")
        for source in python_files(sources)
        if source.path.startswith("src/")
        and not source.path.endswith(("__init__.py", "__main__.py"))
        and source.module not in reached
    ]


def _names_in_text(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"stellwerk(?:\.\w+)+", node.value)
