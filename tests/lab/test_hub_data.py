"""Data of the hub in a room: fetched once by the hub's own library, then passed on and read there.

The hub is a server of the tests; `huggingface_hub` and `datasets` are the real ones.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.lab.environments import CACHE, HUB
from tests.lab.gangs import INTERPRETER, Lab, a_lab, needs
from tests.lab.hub_server import Hub, a_file, a_hub
from tests.lab.room import Computer, Room, a_room, missing
from tests.lab.test_ssh import PATIENCE_S
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
GB = 10**9
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "hf-data"
NAME = "hf://datasets/lab/words"
FILES = {
    "README.md": a_file(b"# words\n"),
    "data/a.txt": a_file(b"".join(b"word %d\n" % n for n in range(200_000))),
    "data/b.txt": a_file(b"last\n"),
}
READS = """
import os
from huggingface_hub import snapshot_download
folder = snapshot_download("lab/words", repo_type="dataset", revision=os.environ["REVISION"])
from datasets import load_dataset
rows = load_dataset("text", data_files=folder + "/data/*.txt", split="train")
print("rows", len(rows), "offline", os.environ.get("HF_HUB_OFFLINE", "no"), flush=True)
"""


class Here(NamedTuple):
    """Somebody with a room of two machines that don't reach each other, and a hub."""

    lab: Lab
    room: Room
    hub: Hub
    commit: str

    @property
    def data(self) -> str:
        return f"{NAME}@{self.commit}"

    def reads(self, name: str, more: str = "") -> None:
        """Submits a script that reads the data by the real libraries."""
        (self.lab.work / "code").mkdir(exist_ok=True)
        (self.lab.work / "code" / "reads.py").write_text(READS)
        text = (
            "envs: {REVISION: null, HF_ENDPOINT: null}\nworkdir: code\n"
            f"resources: {{infra: ssh/lab, labels: {{stellwerk/data: '{NAME}@$REVISION'}}}}\n"
            f"run: |\n  {HUB.python} reads.py\n  {more}\n"
        )
        (self.lab.work / f"{name}.yaml").write_text(text)
        given = ("--env", f"REVISION={self.commit}", "--env", f"HF_ENDPOINT={self.hub.url}")
        self.lab.stw("run", "-d", "--name", name, *given, f"{name}.yaml")

    def where(self) -> dict[str, Any]:
        """What each machine has of it, after another look at all of them."""
        self.lab.stw("cluster", "probe", "lab")
        found = self.lab.told("data", "where", self.data)
        return {one["node"]: one for one in found}

    def computer(self, node: str) -> Computer:
        return next(one for one in self.room.computers if one.address == node)


@pytest.fixture(scope="module")
def here() -> Iterator[Here]:
    needs(HUB)
    with a_room() as room, a_hub("0.0.0.0") as hub:
        shows = [path for path in (CACHE, INTERPRETER) if path.exists()]
        for _ in range(2):
            room.add(shows=shows, own_tmp=True)
        room.trust(*room.computers)
        commit = hub.add("datasets/lab/words", FILES)
        port = hub.url.rpartition(":")[2]
        outside = room.computers[0]._outside
        with a_lab(room) as lab:
            yield Here(lab, room, hub._replace(url=f"http://{outside}:{port}"), commit)


def test_one_machine_fetches_and_the_others_get_it_from_there(here: Here) -> None:
    """The second machine never asks the hub: not for the copy, and not when work reads it there."""
    lab = here.lab
    other = here.room.computers[1]
    lab.stw("cluster", "drain", "lab", other.address)
    here.reads("first")
    lab.over("first")
    assert "rows 200001 offline no" in lab.stw("logs", "first")
    first = here.room.computers[0].address
    there = here.where()
    assert {node: one["whole"] for node, one in there.items()} == {first: "proved"}
    assert there[first]["bytes"] == sum(file.size for file in FILES.values())
    asked = len(here.hub.asked)

    (copy,) = lab.told("data", "stage", here.data, "lab")
    assert (copy["state"], copy["node"], copy["source"]) == ("done", other.address, f"lab/{first}")
    assert copy["done_bytes"] == there[first]["bytes"]
    assert "all of it is on lab already" in lab.stw("data", "stage", here.data, "lab")
    there = here.where()
    assert there[other.address]["whole"] == "proved"

    lab.stw("resume", f"lab/{other.address}")
    lab.stw("cluster", "drain", "lab", first)
    here.reads("second", more="echo waits; while [ ! -e ~/go ]; do sleep 0.1; done")
    lab.prints("second", "waits")
    assert "rows 200001 offline 1" in lab.stw("logs", "second")
    assert lab.show("second")["runs"][-1]["nodes"] == [other.address]
    assert here.hub.asked[asked:] == []
    said = lab.stw("data", "rm", here.data, f"lab/{other.address}", code=1)
    assert "error[data/in-use]" in said
    assert "second uses hf://datasets/lab/words" in said
    (other.home / "go").touch()
    lab.over("second")
    lab.stw("data", "rm", here.data, f"lab/{other.address}")
    assert list(here.where()) == [first]
    cache = other.home / ".cache" / "huggingface" / "hub"
    assert not (cache / "datasets--lab--words").exists()
    lab.stw("resume", f"lab/{first}")


def test_half_of_it_and_no_room_have_reasons_of_their_own(here: Here) -> None:
    """A set of 20 GB, in sparse files: how much is there and what lacks is told without reading."""
    lab, owner = here.lab, here.room.computers[0]
    large, commit = "hf://datasets/lab/large", "1a" * 20
    top = owner.home / ".cache" / "huggingface" / "hub" / "datasets--lab--large"
    listed = {}
    for number in range(4):
        blob = f"{number:064x}"
        path = f"data/{number}.bin"
        listed[path] = {"size": 5 * GB, "blob_id": blob, "lfs_sha256": blob, "lfs_size": 5 * GB}
        link = top / "snapshots" / commit / path
        link.parent.mkdir(parents=True, exist_ok=True)
        (top / "blobs").mkdir(exist_ok=True)
        with (top / "blobs" / blob).open("wb") as file:
            file.truncate(5 * GB)
        link.symlink_to(Path("../../../blobs") / blob)
    (top / "trees").mkdir()
    text = json.dumps({"format_version": 1, "files": listed})
    (top / "trees" / f"{commit}.json").write_text(text)
    for each in (*top.parents[:3], top, *top.rglob("*")):
        os.chown(each, owner.uid, owner.uid, follow_symlinks=False)

    def told() -> Any:
        lab.stw("cluster", "probe", "lab")
        found = lab.told("data", "where", large)
        return found[0] if found else {"whole": ""}

    wait_until(lambda: told()["whole"] == "proved", "20 GB are seen", PATIENCE_S)
    assert told()["bytes"] == 20 * GB
    node = here.room.computers[1].address
    stage = ("data", "stage", f"{large}@{commit}", f"lab/{node}")
    said = lab.stw(*stage, "--keep-free", "1000TB", code=1)
    assert "error[data/no-room]" in said
    assert "20 GB are to come" in said
    (top / "blobs" / f"{3:064x}").unlink()
    wait_until(lambda: told()["whole"] == "half", "half is seen", PATIENCE_S)
    assert told()["lacks"] == "data/3.bin"
    said = lab.stw(*stage, code=1)
    assert "error[data/half]" in said
    assert "`data/3.bin` is missing" in said


def test_the_example_reads_a_corpus(here: Here) -> None:
    """As it is written, against a hub that has a corpus of its own under that name."""
    example = EXAMPLES / "text.yaml"
    made = here.lab.work / "train-00000-of-00001.parquet"
    make = (
        "import sys, pyarrow as pa, pyarrow.parquet as pq\n"
        "pq.write_table(pa.table({'text': ['one two', 'three']}), sys.argv[1])"
    )
    subprocess.run([str(HUB.python), "-c", make, str(made)], check=True)
    files = {f"wikitext-2-raw-v1/{made.name}": a_file(made.read_bytes())}
    commit = here.hub.add("datasets/Salesforce/wikitext", files)
    text = example.read_text().replace("python3 -", f"{HUB.python} -").replace("cpus: 2", "cpus: 1")
    assert str(HUB.python) in text
    (here.lab.work / "text.yaml").write_text(text)
    given = (f"REVISION={commit}", f"HF_ENDPOINT={here.hub.url}")
    flags = [word for one in given for word in ("--env", one)]
    here.lab.stw("cluster", "drain", "lab", here.room.computers[1].address)  # it sees no hub
    here.lab.stw("run", "-d", "--infra", "ssh/lab", *flags, "text.yaml")
    here.lab.over("words")
    assert "3 words" in here.lab.stw("logs", "words")
