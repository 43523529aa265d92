"""Random histories of the inbox and the journal, against a model made of lists."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stellwerk.core.model.commands import Submit, subject
from stellwerk.core.model.events import Record, Released
from stellwerk.core.model.ids import WorkloadId
from stellwerk.store import Ack, Batch, NewCommand, StoreError
from stellwerk.store.inbox import alike
from tests.store.samples import a_cancel, a_submit, new, opened, records_of

COMMANDS = st.lists(
    st.builds(
        new,
        st.one_of(
            st.builds(
                a_submit,
                id=st.integers(0, 9_999).map("w-{}".format),
                name=st.sampled_from(["a", "a-2", "b"]),
                project=st.sampled_from(["p", "q"]),
            ),
            st.just(a_cancel()),
        ),
        key=st.sampled_from(["", "k1", "k2", "k3", "k4"]),
        actor=st.sampled_from(["ada", "bob"]),
    ),
    max_size=4,
)


class Histories(RuleBasedStateMachine):
    """Submits, repeats, takes, appends, fences and restarts in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="stw-"))
        self.store = opened(self.home)
        self.acks: list[Ack] = []
        self.by_key: dict[tuple[str, str], tuple[NewCommand, Ack, int]] = {}
        self.names: set[tuple[str, str]] = set()
        self.records: list[Record] = []
        self.epoch = 0
        self.upto = 0

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.home)

    @rule(calls=st.lists(COMMANDS, min_size=1, max_size=3))
    def put(self, calls: list[list[NewCommand]]) -> None:
        """Several calls at once: each command is new exactly if its key is; nothing is kept of a
        call in which a key comes again for something else.
        """
        at_ms = len(self.acks)
        futures = [self.store.put_commands(items, at_ms) for items in calls]
        for items, future in zip(calls, futures, strict=True):
            if self.takes_a_key_again(items):
                error = future.exception()
                assert isinstance(error, StoreError)
                assert error.code == "key/other-content"
                continue
            for item, ack in zip(items, future.result(), strict=True):
                self.check(item, ack, at_ms)

    def takes_a_key_again(self, items: list[NewCommand]) -> bool:
        known = {key: first.command for key, (first, _, _) in self.by_key.items()}
        return any(
            not alike(known.setdefault((item.actor, item.key), item.command), item.command)
            for item in items
            if item.key
        )

    def check(self, item: NewCommand, ack: Ack, at_ms: int) -> None:
        if item.key and (item.actor, item.key) in self.by_key:
            _, first, first_ms = self.by_key[item.actor, item.key]
            assert ack == Ack(first.seq, first.id, first.name, repeated=True, at_ms=first_ms)
            return
        assert (ack.seq, ack.id, ack.repeated) == (len(self.acks) + 1, subject(item.command), False)
        if isinstance(item.command, Submit):
            self.check_name(item.command, ack.name)
        self.acks.append(ack)
        if item.key:
            self.by_key[item.actor, item.key] = (item, ack, at_ms)

    def check_name(self, asked: Submit, name: str) -> None:
        assert (asked.project, name) not in self.names
        if (asked.project, asked.name) not in self.names:
            assert name == asked.name
        base, _, number = name.rpartition("-")
        assert name == asked.name or (base == asked.name and int(number) >= 2)
        self.names.add((asked.project, name))

    @rule()
    def lead(self) -> None:
        """A new engine leads."""
        self.epoch += 1
        assert self.store.raise_epoch("1") == self.epoch

    @precondition(lambda self: self.epoch > 0)
    @rule(count=st.integers(0, 5), share=st.floats(0, 1))
    def append(self, count: int, share: float) -> None:
        """Some events, and some of the inbox done."""
        self.upto += int(share * (len(self.acks) - self.upto))
        events = [Released(WorkloadId(f"w-{index}")) for index in range(count)]
        records = records_of(events, after=len(self.records), epoch=self.epoch)
        self.store.append(Batch(self.epoch, records, self.upto)).result()
        self.records += records

    @precondition(lambda self: self.epoch > 0)
    @rule(epoch=st.integers(-1, 1), gap=st.integers(-1, 1))
    def append_wrongly(self, epoch: int, gap: int) -> None:
        """Another epoch or another number changes nothing."""
        if epoch == gap == 0:
            return
        number = len(self.records) + gap
        events = [Released(WorkloadId("w-wrong"))]
        batch = Batch(
            self.epoch + epoch, records_of(events, after=number, epoch=self.epoch + epoch)
        )
        error = self.store.append(batch).exception()
        assert isinstance(error, StoreError)
        assert error.code == "store/fenced"

    @rule()
    def restart(self) -> None:
        """What was known before is known after."""
        self.store.close()
        self.store = opened(self.home)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert [one.seq for one in self.store.take(0)] == list(
            range(self.upto + 1, len(self.acks) + 1)
        )
        assert list(self.store.records()) == self.records
        assert self.store.epoch() == self.epoch


TestHistories = pytest.mark.timeout(300)(Histories.TestCase)
TestHistories.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
