"""Secrets: sealed, deletable, and never shown."""

import pickle
import subprocess
from pathlib import Path

import pytest

from stellwerk.store import SecretInfo, Store, StoreError
from tests.store.samples import opened

TOKEN = "hf_correct-horse-battery"


def value(store: Store, name: str, owner: str = "ada") -> str | None:
    found = store.secrets.get("default", owner, name)
    return found.reveal() if found else None


def test_put_get_list_delete(tmp_path: Path) -> None:
    """A value comes back to its owner across restarts, until it is replaced or deleted."""
    with opened(tmp_path) as store:
        store.secrets.put("default", "ada", "HF_TOKEN", TOKEN, 5)
        store.secrets.put("default", "ada", "KEY", "naïve\n", 6)
        store.secrets.put("default", "bob", "HF_TOKEN", "other", 7)
    with opened(tmp_path) as store:
        assert value(store, "HF_TOKEN") == TOKEN
        assert value(store, "KEY") == "naïve\n"
        assert value(store, "HF_TOKEN", "bob") == "other"
        assert value(store, "HF_TOKEN", "eve") is None
        assert store.secrets.list("default", "ada") == [
            SecretInfo("default", "ada", "HF_TOKEN", 5),
            SecretInfo("default", "ada", "KEY", 6),
        ]
        store.secrets.put("default", "ada", "HF_TOKEN", "new", 8)
        assert value(store, "HF_TOKEN") == "new"
        assert store.secrets.delete("default", "ada", "HF_TOKEN")
        assert not store.secrets.delete("default", "ada", "HF_TOKEN")
        assert value(store, "HF_TOKEN") is None
        assert value(store, "HF_TOKEN", "bob") == "other"


def test_the_value_is_nowhere_on_the_disk(tmp_path: Path) -> None:
    """No file of the state holds the value, and only its user can read the key."""
    with opened(tmp_path) as store:
        store.secrets.put("default", "ada", "HF_TOKEN", TOKEN, 5)
        search = ["grep", "-rlF", TOKEN, str(tmp_path)]
        assert subprocess.run(search, check=False, capture_output=True).stdout == b""
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600


def test_a_value_does_not_show_itself(tmp_path: Path) -> None:
    """Printing, formatting or pickling what `get` gives tells nothing."""
    with opened(tmp_path) as store:
        store.secrets.put("default", "ada", "HF_TOKEN", TOKEN, 5)
        found = store.secrets.get("default", "ada", "HF_TOKEN")
    assert found is not None
    assert TOKEN not in f"{found!r} {found} {[found]}"
    with pytest.raises(TypeError, match="isn't written"):
        pickle.dumps([found])


def test_a_lost_key_is_said_and_not_replaced(tmp_path: Path) -> None:
    """Without its key a store with secrets makes no new one, which would orphan them for good."""
    with opened(tmp_path) as store:
        store.secrets.put("default", "ada", "HF_TOKEN", TOKEN, 5)
        key = (tmp_path / "secrets.key").read_bytes()
        (tmp_path / "secrets.key").unlink()
        with pytest.raises(StoreError) as reading:
            value(store, "HF_TOKEN")
        with pytest.raises(StoreError) as writing:
            store.secrets.put("default", "ada", "X", "y", 6)
        assert reading.value.code == writing.value.code == "store/no-key"
        assert not (tmp_path / "secrets.key").exists()
        (tmp_path / "secrets.key").write_bytes(key)
        assert value(store, "HF_TOKEN") == TOKEN


def test_another_key_is_said(tmp_path: Path) -> None:
    """A value sealed with another key can't be opened, and the error doesn't show it."""
    with opened(tmp_path / "a") as store, opened(tmp_path / "b") as other:
        store.secrets.put("default", "ada", "HF_TOKEN", TOKEN, 5)
        other.secrets.put("default", "ada", "X", "y", 5)
        (tmp_path / "a/secrets.key").write_bytes((tmp_path / "b/secrets.key").read_bytes())
        with pytest.raises(StoreError) as caught:
            value(store, "HF_TOKEN")
        assert caught.value.code == "store/sealed"
        assert TOKEN not in str(caught.value)


def test_a_key_file_with_anything_else_in_it_is_said(tmp_path: Path) -> None:
    """An empty or foreign key file is an error in words."""
    with opened(tmp_path) as store:
        (tmp_path / "secrets.key").write_bytes(b"")
        with pytest.raises(StoreError) as caught:
            store.secrets.put("default", "ada", "X", "y", 6)
        assert caught.value.code == "store/no-key"
