"""Schemas: a new database gets the newest, an old one is brought there, a newer one is refused."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from stellwerk.store import Store, StoreError, facts
from stellwerk.store.migrations import STEPS, Step, migrate, newest
from tests.store.samples import a_submit, grow, new, opened


def a_step(number: int) -> Step:
    """A step that leaves a trace, so that its order and number can be seen."""

    def run(conn: sa.Connection) -> None:
        facts.write(conn, "trace", facts.read(conn, "trace") + str(number))

    return Step(number, f"to {number}", run)


def steps_taken(engine: sa.Engine, *numbers: int) -> str:
    with engine.begin() as conn:
        migrate(conn, "store.db", tuple(a_step(number) for number in numbers))
        return facts.read(conn, "trace")


def test_steps_are_taken_once_and_in_order() -> None:
    """An empty database takes none; an older one exactly those it lacks."""
    engine = sa.create_engine("sqlite://")
    assert steps_taken(engine) == ""
    assert steps_taken(engine, 2, 3) == "23"
    assert steps_taken(engine, 2, 3) == "23"
    assert steps_taken(engine, 2, 3, 4) == "234"
    assert steps_taken(sa.create_engine("sqlite://"), 2, 3) == ""


def test_steps_have_no_gaps() -> None:
    """Real steps are numbered from the second schema on."""
    assert [step.number for step in STEPS] == list(range(2, newest() + 1))


def test_a_newer_database_is_refused_untouched(tmp_path: Path) -> None:
    """The error says which schema it is, and the data stays as it was."""
    with opened(tmp_path) as store:
        store.put_commands([new(a_submit())], 1).result()
        grow(store, 2, store.raise_epoch("1"))
        store._writer.submit(lambda conn: facts.write(conn, facts.SCHEMA, newest() + 1)).result()
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path)
    assert caught.value.code == "store/newer"
    assert f"schema {newest() + 1}" in caught.value.message
    with sa.create_engine(f"sqlite:///{tmp_path}/store.db").begin() as conn:
        facts.write(conn, facts.SCHEMA, newest())
    with opened(tmp_path) as store:
        assert (store.seq(), len(store.take(0))) == (2, 1)


def test_an_older_database_ends_with_the_same_schema(tmp_path: Path) -> None:
    """All steps on the first schema give what a new database gets."""

    def objects(place: Path) -> list[tuple[str, str]]:
        with sa.create_engine(f"sqlite:///{place}/store.db").connect() as conn:
            rows = conn.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL")
            return sorted(
                (name, "".join(sql.replace('"order"', "order").split())) for name, sql in rows
            )

    for place in (tmp_path / "old", tmp_path / "new"):
        Store.open(place).close()
    with sa.create_engine(f"sqlite:///{tmp_path}/old/store.db").begin() as conn:
        conn.exec_driver_sql("DROP INDEX workloads_project")
        conn.exec_driver_sql("DROP INDEX workloads_project_live")
        facts.write(conn, facts.SCHEMA, 1)
    assert objects(tmp_path / "old") != objects(tmp_path / "new")
    Store.open(tmp_path / "old").close()
    assert objects(tmp_path / "old") == objects(tmp_path / "new")
