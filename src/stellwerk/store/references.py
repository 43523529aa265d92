"""Finds what stored texts refer to, so that nothing that is referred to is ever removed.

References are found by their form, in whatever field they stand: the hash of a blob, the name of a
sealed secret, the id of a decision. A text that looks like a reference without being one keeps
something for longer; a field that is added later is seen without a change here.
"""

import re
from collections.abc import Callable, Iterable, MutableMapping
from typing import NamedTuple

_BLOB = re.compile(rb'"([0-9a-f]{64})"')
_SEALED = re.compile(rb'"(sealed/[0-9a-f]{64})"')
_DECISION = re.compile(rb'"(d-[0-9a-f]{16})"')
_MANIFEST = b'{"v":'

ReadBlob = Callable[[str], bytes | None]
"""The content of a blob, None where there is none."""


class Marks(NamedTuple):
    """What may still be removed: blobs by hash, decisions by id, sealed secrets by name.

    `note` takes out of them all that a text refers to.
    """

    blobs: MutableMapping[str, int]
    decisions: MutableMapping[str, int]
    sealed: MutableMapping[str, int]

    def note(self, texts: Iterable[bytes], read: ReadBlob) -> None:
        """Keeps what the texts refer to, and what is referred to in turn by the blobs they name.

        A manifest names files, which are only kept; any other blob that is named may name more.
        """
        waiting: dict[str, None] = {}
        seen: set[str] = set()
        for text in texts:
            waiting.update(dict.fromkeys(self._keep(text)))
            while waiting:
                name, _ = waiting.popitem()
                if name in seen:
                    continue
                seen.add(name)
                content = read(name)
                if content is None:
                    continue
                named = self._keep(content)
                if not is_manifest(content):
                    waiting.update(dict.fromkeys(named))

    def _keep(self, text: bytes) -> list[str]:
        """Takes out what one text names; gives the hashes in it."""
        for match in _DECISION.finditer(text):
            self.decisions.pop(match[1].decode(), None)
        for match in _SEALED.finditer(text):
            self.sealed.pop(match[1].decode(), None)
        named = [match[1].decode() for match in _BLOB.finditer(text)]
        for name in named:
            self.blobs.pop(name, None)
        return named


def is_manifest(beginning: bytes) -> bool:
    """Whether a blob that begins like this lists files."""
    return beginning.startswith(_MANIFEST)
