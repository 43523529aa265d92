"""Sends packed content: asks once what the server lacks, then sends small files many at a time.

Each request is durable when it is answered, so an upload that was cut off goes on where it was. The
manifest goes last: whoever has it has everything in it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from stellwerk.client.pack import FileEntry, Packed, sha256, unreadable
from stellwerk.core.model.errors import Problem, StellwerkError

SMALL_BYTES = 1 << 20
"""Up to this size content travels together with others."""

TOGETHER_BYTES = 8 << 20
TOGETHER = 5_000
"""What one request carries at most."""


class Sent(NamedTuple):
    """How far an upload has come."""

    files: int
    of_files: int
    bytes: int
    of_bytes: int


Tell = Callable[[Sent], None]
Content = tuple[str, bytes]


class Receiver(Protocol):
    """Where content goes."""

    def missing_blobs(self, hashes: Sequence[str]) -> Sequence[str]:
        """Which of these it doesn't have."""
        ...

    def put_blob(self, digest: str, data: bytes) -> None:
        """Takes one content."""
        ...

    def put_blobs(self, contents: Sequence[Content]) -> None:
        """Takes many, all or none."""
        ...


def quietly(_sent: Sent) -> None:
    """Tells nobody."""


def upload(packed: Packed, receiver: Receiver, tell: Tell = quietly) -> int:
    """Sends what the other side lacks, the manifest last; gives the number of bytes sent.

    A file that changed since it was packed is named.
    """
    if not receiver.missing_blobs([packed.hash]):
        return 0
    wanted = receiver.missing_blobs(list(packed.sources))
    sizes = {one.hash: one.size for one in packed.manifest.files if isinstance(one, FileEntry)}
    total = sum(sizes.get(digest, 0) for digest in wanted)
    files = sent = 0
    for group in _sent(_grouped(packed, wanted, sizes), receiver):
        files += len(group)
        sent += sum(len(data) for _, data in group)
        tell(Sent(files, len(wanted), sent, total))
    receiver.put_blob(packed.hash, packed.data)
    return sent + len(packed.data)


def _sent(groups: Iterator[list[Content]], receiver: Receiver) -> Iterator[list[Content]]:
    """Sends one group after the other, and reads the next one while the other side stores it."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as sender:
        before: list[Content] = []
        going = None
        for group in groups:
            if going is not None:
                going.result()
                yield before
            before, going = group, sender.submit(_send, receiver, group)
        if going is not None:
            going.result()
            yield before


def _send(receiver: Receiver, group: list[Content]) -> None:
    if len(group) == 1:
        receiver.put_blob(*group[0])
    else:
        receiver.put_blobs(group)


def _grouped(
    packed: Packed, wanted: Sequence[str], sizes: dict[str, int]
) -> Iterator[list[Content]]:
    """Reads what is wanted in the order asked for; never more at once than one request carries."""
    group: list[Content] = []
    gathered = 0
    for digest in wanted:
        size = sizes.get(digest, 0)
        if group and (gathered + size > TOGETHER_BYTES or len(group) >= TOGETHER):
            yield group
            group, gathered = [], 0
        source = packed.sources[digest]
        data = source if isinstance(source, bytes) else _read_again(source, digest)
        if len(data) > SMALL_BYTES:
            yield [(digest, data)]
            continue
        group.append((digest, data))
        gathered += len(data)
    if group:
        yield group


def _read_again(path: str, digest: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise StellwerkError([unreadable(path, error)]) from error
    if sha256(data) != digest:
        problem = Problem(
            "workdir/changed",
            f"{path} changed while it was being packed",
            "submit again once nothing writes it, or name it in .skyignore",
        )
        raise StellwerkError([problem])
    return data
