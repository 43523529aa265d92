"""What becomes of an error of a driver: each code once, each remedy in its place."""

import msgspec

from stellwerk.drivers.base import DriverError
from stellwerk.drivers.ssh.troubles import SshTrouble
from stellwerk.server.problems import on_driver_error


def told(error: DriverError) -> dict[str, object]:
    answer = on_driver_error(None, error)  # type: ignore[arg-type]
    (problem,) = msgspec.json.decode(answer.content)["problems"]
    return dict(problem)


def test_a_machine_out_of_reach_tells_its_code_once() -> None:
    """Its remedy is the problem's; without one there is where to look."""
    trouble = SshTrouble("timeout", "pc1 doesn't answer in time", "is it switched on?")
    found = told(trouble)
    assert found["code"] == "ssh/timeout"
    assert found["message"] == "pc1 doesn't answer in time"
    assert found["help"] == "is it switched on?"
    broke = told(SshTrouble("connection-lost", "it broke", ""))
    assert (broke["message"], "stw clusters" in str(broke["help"])) == ("it broke", True)
    other = told(DriverError("no-driver", "nobody serves it", final=False))
    assert (other["code"], other["message"]) == ("driver/no-driver", "nobody serves it")
