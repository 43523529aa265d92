"""Decides which files of a work directory stay behind: the rules of `.skyignore`, else of git.

With a `.skyignore` at the top only its rules hold. Otherwise every `.gitignore` from the top of the
repository down counts, deeper ones first, then `.git/info/exclude` and the user's own list; a file
that git tracks is never left behind, whatever the rules say. `.git` itself always stays.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from stellwerk.core.model.errors import StellwerkError

SKYIGNORE = ".skyignore"
GITIGNORE = ".gitignore"


class _Rules(NamedTuple):
    folder: str
    spec: Any  # pathspec.GitIgnoreSpec, which is loaded only when something is packed


class Ignores:
    """The rules in force while a tree is walked from its top.

    Paths are relative to the top, with slashes; inside, they are relative to the repository.
    Without `whole_repository` only rules at the top and below count, and `.git` comes along.
    """

    def __init__(
        self, top: str, tracked: Iterable[str] = (), *, whole_repository: bool = True
    ) -> None:
        self._top = top
        self._keeps_git = not whole_repository
        self._from_lines = import_module("pathspec").GitIgnoreSpec.from_lines
        self._tracked = frozenset(tracked)
        self._tracked_folders = frozenset(
            folder for path in self._tracked for folder in _folders_above(path)
        )
        self._prefix = ""
        self._by_folder: dict[str, tuple[_Rules, ...]] = {}
        self._only = tuple(self._read(os.path.join(top, SKYIGNORE), ""))
        self._outer: tuple[_Rules, ...] = ()
        if whole_repository and not self._only:
            self._outer = tuple(self._rules_from_above())

    def enter(self, folder: str, *, has_gitignore: bool) -> None:
        """Takes up the rules of a folder, before anything in it is asked about."""
        rules = self._by_folder[os.path.dirname(folder)] if folder else self._outer
        if has_gitignore and not self._only:
            read = self._read(os.path.join(self._top, folder, GITIGNORE), self._full(folder))
            rules = (*rules, *read)
        self._by_folder[folder] = rules

    def leaves_behind(self, path: str, *, is_folder: bool) -> bool:
        """Whether this file or folder, whose own folder comes along, stays behind."""
        if os.path.basename(path) == ".git":
            return not self._keeps_git
        if not self._only and path in (self._tracked_folders if is_folder else self._tracked):
            return False
        full = self._full(path) + ("/" if is_folder else "")
        for rules in reversed(self._only or self._by_folder[os.path.dirname(path)]):
            relative = full[len(rules.folder) + 1 :] if rules.folder else full
            verdict = rules.spec.check_file(relative).include
            if verdict is not None:
                return bool(verdict)
        return False

    def _full(self, path: str) -> str:
        return f"{self._prefix}/{path}".strip("/")

    def _rules_from_above(self) -> Iterator[_Rules]:
        """Rules of the repository that the work directory is a part of, weakest first."""
        root = repository_of(self._top)
        if root is None:
            return
        self._prefix = os.path.relpath(self._top, root) if root != self._top else ""
        config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        yield from self._read(os.path.join(config, "git", "ignore"), "")
        yield from self._read(os.path.join(root, ".git", "info", "exclude"), "")
        for folder in reversed(list(_folders_above(self._prefix))):
            yield from self._read(os.path.join(root, folder, GITIGNORE), folder)

    def _read(self, path: str, folder: str) -> Iterator[_Rules]:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe of that name has no end
        try:
            with open(os.open(path, flags), encoding="utf-8", errors="surrogateescape") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return
                lines = file.read().splitlines()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return
        except OSError as error:
            raise StellwerkError.of(
                "workdir/unreadable",
                f"{path}, which says what stays behind, can't be read: {error.strerror}",
                "make it readable, or remove it",
            ) from error
        yield _Rules(folder, self._spec(lines))

    def _spec(self, lines: Sequence[str]) -> Any:
        """The rules of lines; as for git, one that is no pattern matches nothing."""
        try:
            return self._from_lines(lines)
        except (ValueError, re.error):
            return self._from_lines([line for line in lines if self._is_pattern(line)])

    def _is_pattern(self, line: str) -> bool:
        try:
            self._from_lines([line])
        except (ValueError, re.error):
            return False
        return True


def repository_of(folder: str) -> str | None:
    """The nearest folder at or above this one that holds `.git`."""
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def _folders_above(path: str) -> Iterator[str]:
    """`a/b/c` is in `a/b`, in `a`, and in the top, which is the empty path."""
    while path:
        path = os.path.dirname(path)
        yield path
