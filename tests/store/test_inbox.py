"""Commands in the inbox: durable, in order, once."""

from pathlib import Path

import msgspec
import pytest

from stellwerk.core.model.commands import Submit
from stellwerk.store import Ack, Batch, Store, StoreError
from tests.store.samples import a_cancel, a_submit, grow, new, opened


def test_commands_come_out_as_they_went_in(tmp_path: Path) -> None:
    """Order, actor, key and time are kept; a submit carries its final name."""
    with opened(tmp_path) as store:
        items = [new(a_submit("w-1"), "k1"), new(a_cancel()), new(a_submit("w-2"), "k2", "bob")]
        acks = store.put_commands(items, 1_000).result()
        assert [(ack.seq, ack.id, ack.name, ack.repeated) for ack in acks] == [
            (1, "w-1", "digits", False),
            (2, "w-1", "", False),
            (3, "w-2", "digits-2", False),
        ]
        taken = store.take(0)
    assert [(one.seq, one.at_ms, one.actor, one.key) for one in taken] == [
        (1, 1_000, "ada", "k1"),
        (2, 1_000, "ada", ""),
        (3, 1_000, "bob", "k2"),
    ]
    assert taken[0].command == a_submit("w-1")
    assert taken[1].command == a_cancel()
    assert taken[2].command == msgspec.structs.replace(a_submit("w-2"), name="digits-2")


def test_a_repeated_request_gets_its_first_answer(tmp_path: Path) -> None:
    """Same actor and key: same Ack, nothing stored; in one call, in another, after a restart."""
    with opened(tmp_path) as store:
        first, again = store.put_commands([new(a_submit("w-1"), "k")] * 2, 1).result()
        told = Ack(first.seq, first.id, first.name, repeated=True, at_ms=1)
        assert (first.repeated, again) == (False, told)
    with opened(tmp_path) as store:
        assert store.put_commands([new(a_submit("w-9"), "k")], 2).result() == [again]
        other = store.put_commands([new(a_submit("w-9"), "k", actor="bob")], 2).result()
        assert other[0].id == "w-9"
        assert [one.seq for one in store.take(0)] == [1, 2]


def test_a_key_stands_for_one_request(tmp_path: Path) -> None:
    """Something else under it is refused in words, with all that came along; nothing is stored."""
    with opened(tmp_path) as store:
        store.put_commands([new(a_submit("w-1"), "k"), new(a_cancel(), "c")], 1_000).result()
        other = msgspec.structs.replace(a_submit("w-2", name="eval"), priority=7)
        for again, told in (
            (other, "at 1970-01-01 00:00:01 UTC for digits (w-1), and this `eval` is"),
            (a_cancel("w-1"), "for digits (w-1), and cancel of w-1 is"),
        ):
            with pytest.raises(StoreError, match="key/other-content") as caught:
                store.put_commands([new(a_submit("w-3")), new(again, "k")], 2).result()
            assert told in caught.value.message
        with pytest.raises(StoreError, match="for cancel of w-1, and cancel of w-2 is"):
            store.put_commands([new(a_cancel("w-2"), "c")], 2).result()
        assert [one.seq for one in store.take(0)] == [1, 2]


def test_without_a_key_every_request_is_new(tmp_path: Path) -> None:
    """An empty key isn't a key."""
    with opened(tmp_path) as store:
        acks = store.put_commands([new(a_submit("w-1")), new(a_submit("w-2"))], 1).result()
    assert [ack.name for ack in acks] == ["digits", "digits-2"]


def test_names_belong_to_their_project(tmp_path: Path) -> None:
    """Two projects may use the same name."""
    with opened(tmp_path) as store:
        items = [new(a_submit("w-1", project="p")), new(a_submit("w-2", project="q"))]
        assert [ack.name for ack in store.put_commands(items, 1).result()] == ["digits", "digits"]


def test_many_at_once(tmp_path: Path) -> None:
    """Thousands of submits in one call get as many names, and repeating the call adds none."""
    items = [new(a_submit(f"w-{number}"), f"k{number}") for number in range(3_000)]
    with opened(tmp_path) as store:
        acks = store.put_commands(items, 1).result()
        assert len({ack.name for ack in acks}) == 3_000
        again = store.put_commands(items, 1).result()
        assert [ack.name for ack in again] == [ack.name for ack in acks]
        assert all(ack.repeated for ack in again)
        assert len(store.take(0, 5_000)) == 3_000


def test_done_commands_are_not_taken_again(tmp_path: Path) -> None:
    """What the engine has written as done stays done after a restart, whatever it asks for."""
    with opened(tmp_path) as store:
        store.put_commands([new(a_submit(f"w-{number}")) for number in range(5)], 1).result()
        store.append(Batch(store.raise_epoch("1"), inbox_upto=3)).result()
    with opened(tmp_path) as store:
        assert store.inbox_upto() == 3
        assert [one.seq for one in store.take(0)] == [4, 5]
        assert [one.seq for one in store.take(4, 1)] == [5]


def test_forgetting_leaves_what_is_pending_or_young(tmp_path: Path) -> None:
    """Only done commands from before the instant go, and numbers are never given twice."""
    with opened(tmp_path) as store:
        for number in range(4):
            store.put_commands([new(a_submit(f"w-{number}"), f"k{number}")], number * 10).result()
        store.append(Batch(store.raise_epoch("1"), inbox_upto=3)).result()
        assert store.retention.forget_commands(20) == 2
        assert store.put_commands([new(a_submit("w-2"), "k2")], 99).result()[0].repeated
        assert store.put_commands([new(a_submit("w-0"), "k0")], 99).result()[0].seq == 5
        store.append(Batch(store.epoch(), inbox_upto=5)).result()
        assert store.retention.forget_commands(1_000) == 2
        assert store.put_commands([new(a_cancel())], 99).result()[0].seq == 6


def test_new_work_is_refused_before_the_disk_is_full(tmp_path: Path) -> None:
    """Below the reserve only work is refused: what fills the disk can be cancelled, and its end
    be written down.
    """
    with opened(tmp_path) as store:
        store.reserve_bytes = 1 << 62
        for items in ([new(a_submit())], [new(a_cancel()), new(a_submit("w-2"))]):
            with pytest.raises(StoreError) as caught:
                store.put_commands(items, 1).result()
            assert caught.value.code == "store/full"
        assert store.put_commands([new(a_cancel())], 1).result()[0].seq == 1
        grow(store, 3, store.raise_epoch("1"))
        store.reserve_bytes = 0
        assert store.put_commands([new(a_submit())], 1).result()[0].seq == 2


def test_names_survive_a_restart(tmp_path: Path) -> None:
    """A name that was given once is never given again, numbered or not."""
    given: list[str] = []
    for number, base in enumerate(["digits", "digits-2", "digits", "digits-2", "digits"]):
        store: Store
        with opened(tmp_path) as store:
            ack = store.put_commands([new(a_submit(f"w-{number}", base))], 1).result()[0]
            given.append(ack.name)
            command = store.take(0)[-1].command
            assert isinstance(command, Submit)
            assert command.name == ack.name
    assert given == ["digits", "digits-2", "digits-3", "digits-2-2", "digits-4"]
