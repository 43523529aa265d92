"""Drivers are found by name among the installed ones, and imported when they are first used."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.registry import driver_factory, driver_names


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A group of entry points of an installed package: one driver works, two don't."""
    (tmp_path / "room_driver.py").write_text("class RoomDriver:\n    pass\n")
    info = tmp_path / "room_driver-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: room-driver\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[stellwerk.test_drivers]\n"
        "room = room_driver:RoomDriver\n"
        "absent = no_such_module_anywhere:Driver\n"
        "misspelt = room_driver:RomDriver\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "room_driver", raising=False)
    return "stellwerk.test_drivers"


def test_names_are_listed_without_an_import(group: str) -> None:
    """Listing what there is must not cost, or need, the imports."""
    assert driver_names(group) == ("absent", "misspelt", "room")
    assert "room_driver" not in sys.modules


def test_a_driver_is_imported_at_its_first_use(group: str) -> None:
    """The factory is what the entry point names."""
    factory = driver_factory("room", group)
    assert type(factory()).__name__ == "RoomDriver"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("rooms", "did you mean `room`?"), ("q", "there is `absent`, `misspelt`, `room`")],
)
def test_an_unknown_name_gets_a_suggestion(group: str, name: str, remedy: str) -> None:
    """A near name is suggested; without one, all names are told."""
    with pytest.raises(StellwerkError) as caught:
        driver_factory(name, group)
    (problem,) = caught.value.problems
    assert (problem.code, problem.help) == ("driver/unknown", remedy)
    assert f"`{name}`" in problem.message


def test_an_installation_without_drivers_says_so() -> None:
    """Nothing installed is another trouble than a wrong name."""
    with pytest.raises(StellwerkError, match="no driver is installed"):
        driver_factory("local", "stellwerk.no_such_group")


@pytest.mark.parametrize("name", ["absent", "misspelt"])
def test_a_driver_that_cannot_be_imported_is_named(group: str, name: str) -> None:
    """An import that fails is told with where it was to come from, not as a traceback."""
    with pytest.raises(StellwerkError) as caught:
        driver_factory(name, group)
    (problem,) = caught.value.problems
    assert problem.code == "driver/broken"
    assert f"`{name}`" in problem.message


def test_the_local_driver_is_declared() -> None:
    """The project's own driver stands in its own entry points, where the registry looks."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    declared = project["project"]["entry-points"]["stellwerk.drivers"]
    point = EntryPoint("local", declared["local"], "stellwerk.drivers")
    assert point.load().__name__ == "LocalDriver"
