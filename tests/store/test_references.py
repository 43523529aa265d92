"""What a text refers to is kept, and what that refers to in turn."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from stellwerk.store.references import Marks, is_manifest

BLOBS: dict[str, bytes] = {}


def blob(content: bytes) -> str:
    """Stores a content, and gives its hash."""
    name = hashlib.sha256(content).hexdigest()
    BLOBS[name] = content
    return name


def manifest(*files: str, diff: str = "") -> str:
    """A list of files."""
    entries = [{"path": f"f{i}", "mode": 420, "hash": name} for i, name in enumerate(files)]
    return blob(
        json.dumps({"v": 1, "files": entries, "diff": diff}, separators=(",", ":")).encode()
    )


def left(marked: dict[str, int], *texts: object) -> set[str]:
    """Which blobs nothing refers to."""
    marks = Marks(dict(marked), {}, {})
    marks.note((json.dumps(text).encode() for text in texts), BLOBS.get)
    return set(marks.blobs)


def test_a_workload_keeps_its_task_its_code_and_what_it_mounts() -> None:
    """Through the launch and through manifests, whatever the field is called."""
    code, mounted, diff, other = (blob(name.encode()) for name in ("code", "data", "diff", "other"))
    snapshot, mount = manifest(code, diff=diff), manifest(mounted)
    launch = blob(json.dumps({"task": {"run": "x"}, "mounts": [{"snapshot": mount}]}).encode())
    everything = dict.fromkeys((code, mounted, diff, other, snapshot, mount, launch), 1)
    row = {"id": "w-1", "task": launch, "snapshot": snapshot}
    assert left(everything, row) == {other}
    assert left(everything, {"task": launch}) == {code, diff, other, snapshot}
    assert left(everything) == set(everything)


def test_files_of_a_manifest_are_not_read() -> None:
    """What a data file looks like means nothing: it may name hashes by the million."""
    inner = blob(b"inner")
    data = blob(json.dumps([inner]).encode())
    snapshot = manifest(data)
    assert left({inner: 1, data: 1}, {"snapshot": snapshot}) == {inner}
    assert is_manifest(BLOBS[snapshot])


def test_decisions_and_sealed_values_are_kept_by_name() -> None:
    """Those of a row, and those of the launch that it names."""
    sealed, unused = (f"sealed/{digit * 64}" for digit in "ab")
    launch = blob(json.dumps({"task": {}, "secrets": {"TOKEN": sealed}}).encode())
    row = {"task": launch, "decision": f"d-{'1' * 16}", "runs": [{"decision": f"d-{'2' * 16}"}]}
    marks = Marks({}, {f"d-{digit * 16}": 1 for digit in "123"}, {sealed: 1, unused: 1})
    marks.note([json.dumps(row).encode()], BLOBS.get)
    assert set(marks.decisions) == {f"d-{'3' * 16}"}
    assert set(marks.sealed) == {unused}


def test_what_is_referred_to_and_gone_is_passed_over() -> None:
    """A row may name a blob that was removed from outside."""
    kept = blob(b"kept")
    assert left({kept: 1}, {"task": "0" * 64, "snapshot": kept}) == set()


@given(
    files=st.lists(st.binary(min_size=1, max_size=3), max_size=6),
    rows=st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=4),
)
def test_exactly_what_no_row_reaches_is_left(files: list[bytes], rows: list[list[int]]) -> None:
    """Against a reckoning by hand: rows of manifests of files."""
    names = [blob(content) for content in files]
    chosen = [[names[i] for i in row if i < len(names)] for row in rows]
    snapshots = [manifest(*row) for row in chosen]
    everything = dict.fromkeys([*names, *snapshots], 1)
    reached = {name for row in chosen for name in row} | set(snapshots)
    assert left(everything, *({"snapshot": one} for one in snapshots)) == set(everything) - reached
