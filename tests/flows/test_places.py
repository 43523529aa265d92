"""What a job finds where it runs: its ranks, files, buckets, secrets and its setup."""

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.flows.person import Person
from tests.runtime.little_image import NAME, PROGRAMS, stand_in

RENDEZVOUS = """
import os, socket, sys
rank, size = int(os.environ["NODE_RANK"]), int(os.environ["PET_NNODES"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
assert os.environ["PET_MASTER_PORT"] == os.environ["MASTER_PORT"]
if rank == 0:
    with socket.create_server(place) as door:
        guests = [door.accept()[0] for _ in range(size - 1)]
    sum = sum(int(guest.makefile().readline()) for guest in guests)
    for guest in guests:
        guest.sendall(b"%d\\n" % sum)
else:
    for _ in range(500):
        try:
            host = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            import time
            time.sleep(0.02)
    host.sendall(b"%d\\n" % (rank * 10))
    sum = int(host.makefile().readline())
print("the sum is", sum, flush=True)
"""


def test_two_ranks_meet_at_a_port_that_was_free(colleague: Person) -> None:
    """Rank 0 listens at MASTER_ADDR:MASTER_PORT, the other finds it; both print what they agreed
    on, each line with its rank.
    """
    colleague.write("meet.py", RENDEZVOUS)
    task = colleague.task(
        "echo rank $SKYPILOT_NODE_RANK $PET_NODE_RANK of $SKYPILOT_NUM_NODES: $SKYPILOT_NODE_IPS\n"
        f"python3 -I {colleague.desk}/meet.py",
        name="meet",
        more="num_nodes: 2\nsetup: echo once\nresources: {cpus: 0.1}\n",
    )
    lines = colleague.stw("run", task, timeout_s=60).stdout.splitlines()
    assert lines.count("(rank 0) the sum is 10") == 1
    assert lines.count("(rank 1) the sum is 10") == 1
    # While it runs each rank is read by itself: only the order within one rank is certain.
    assert next(line for line in lines if line.startswith("(rank 0)")) == "(rank 0) once"
    for rank in (0, 1):
        assert f"(rank {rank}) rank {rank} {rank} of 2: 127.0.0.1 127.0.0.1" in lines
    alone = colleague.stw("logs", "meet", "--rank", "1").stdout.splitlines()
    assert alone[-1] == "the sum is 10"
    assert colleague.stw("logs", "meet").stdout.splitlines()[0] == "(rank 0) once"


def test_the_first_rank_that_fails_ends_the_gang(colleague: Person) -> None:
    """It is told first, with its own last lines; the others are 137."""
    task = colleague.task(
        'echo "here is $SKYPILOT_NODE_RANK"\n'
        'if [ $SKYPILOT_NODE_RANK = 1 ]; then sleep 0.3; echo "no luck"; exit 3; fi\nsleep 100',
        name="gang",
        more="num_nodes: 3\nresources: {cpus: 0.1}\n",
    )
    done = colleague.stw("run", task, code=3, timeout_s=60)
    end = colleague.json("show", "gang")["runs"][0]["end"]
    assert end["code"] == 3
    assert end["last_lines"] == ["here is 1", "no luck"]
    assert "rank 1 ended with exit code 3" in done.stderr
    assert "| no luck" in done.stderr


def test_one_interrupted_reader_of_a_gang_goes_on(colleague: Person) -> None:
    """A server that is replaced costs a follower of several ranks no line."""
    task = colleague.task(
        "for i in $(seq 30); do echo line $i; sleep 0.05; done",
        name="lines",
        more="num_nodes: 2\nresources: {cpus: 0.1}\n",
    )
    colleague.stw("run", task, "-d")
    colleague.until({"lines": "Running"})
    colleague.kill_server()
    told = colleague.stw("logs", "-f", "lines", timeout_s=60).stdout.splitlines()
    for rank in (0, 1):
        mine = [line for line in told if line.startswith(f"(rank {rank}) ")]
        assert mine == [f"(rank {rank}) line {i}" for i in range(1, 31)]


def test_files_and_folders_are_where_the_task_wants_them(colleague: Person) -> None:
    """As they were at submit: at home, below `/`, in the work directory; and outside of the job
    there is nothing of them, before, during or after.
    """
    desk = colleague.desk
    (desk / "tables").mkdir()
    (desk / "tables" / "a.csv").write_text("old\n")
    (desk / "settings.json").write_text("{}\n")
    (desk / "here").mkdir()
    task = colleague.task(
        "touch started; until [ -e go ]; do sleep 0.05; done\n"
        "cat ~/tables/a.csv ~/.config/app/settings.json /stw-test/deep/a.csv conf/s.json\n"
        "echo new > ~/tables/b.csv; pwd; cat ~/sky_workdir/code",
        name="files",
        more=(
            "workdir: here\nfile_mounts:\n  ~/tables: ./tables\n"
            "  ~/.config/app/settings.json: settings.json\n  /stw-test/deep: tables\n"
            "  ~/sky_workdir/conf/s.json: settings.json\n"
        ),
    )
    (desk / "here" / "code").write_text("code\n")
    colleague.stw("run", task, "-d")
    (desk / "tables" / "a.csv").write_text("changed\n")
    colleague.until({"files": "Running"})
    work = Path(colleague.json("show", "files")["work_dir"])
    until((work / "started").exists)
    assert list((colleague.home / "tables").iterdir()) == []
    (work / "go").touch()
    colleague.until({"files": "Succeeded"})
    told = colleague.stw("logs", "files").stdout.splitlines()
    assert told == ["old", "{}", "old", "{}", f"{colleague.home}/sky_workdir", "code"]
    assert not (colleague.home / "tables").exists()
    assert not (colleague.home / ".config").exists()
    assert not Path("/stw-test").exists()
    assert not (desk / "tables" / "b.csv").exists()


def test_what_a_mount_lacks_is_told_before_anything_is_sent(colleague: Person) -> None:
    """All of it at once, with the target, and what to do about it."""
    task = colleague.task(
        "true",
        name="lacks",
        more=("file_mounts:\n  ~/a: ./not-there\n  ~/b: ./nor-this\n"),
    )
    told = colleague.stw("run", task, code=2).stderr
    assert "error[mount/missing]" in told
    assert f"{colleague.desk}/not-there, which is to be at `~/a`, doesn't exist" in told
    assert f"{colleague.desk}/nor-this, which is to be at `~/b`, doesn't exist" in told
    task = colleague.task("true", name="lacks", more="file_mounts: {~/c: 's3://nobody/x'}\n")
    told = colleague.stw("run", task, code=2).stderr
    assert "no folder stands for `s3://nobody`" in told
    assert "[bucket_paths]" in told
    assert "lacks" not in colleague.phases()


def test_a_bucket_outlives_the_runs(colleague: Person) -> None:
    """A second run finds what the first one wrote below its task's own id; the files that came
    with the task are in it; a copy is one's own.
    """
    (colleague.desk / "seed").mkdir()
    (colleague.desk / "seed" / "start.txt").write_text("seed\n")
    task = colleague.task(
        "cat /stw-ckpt/start.txt; mkdir -p /stw-ckpt/$SKYPILOT_TASK_ID\n"
        "cd /stw-ckpt/$SKYPILOT_TASK_ID\n"
        "if [ -e step ]; then echo resumed at $(cat step); ls ~/copy; exit 0; fi\n"
        "echo 41 > step; echo x > ~/copy/lost; exit 85",
        name="bucket",
        more=(
            "file_mounts:\n  /stw-ckpt: {name: ckpts, source: ./seed}\n"
            "  ~/copy: {name: ckpts, mode: COPY}\nresources: {job_recovery: failover}\n"
        ),
    )
    done = colleague.stw("run", task, timeout_s=60)
    lines = done.stdout.splitlines()
    assert lines[:1] == ["seed"]
    assert "resumed at 41" in lines
    assert "lost" not in lines
    folder = colleague.state / "buckets" / "ckpts"
    assert f"note[mount/bucket]: `/stw-ckpt` is the folder {folder}" in done.stderr
    assert len(list(folder.glob("w-*/step"))) == 1
    assert not Path("/stw-ckpt").exists()


def test_a_folder_can_stand_for_a_bucket_elsewhere(person: Person) -> None:
    """By a setting that names the URI, in whole or in part; read-only where the task says so."""
    data = person.folder / "nfs"
    (data / "train").mkdir(parents=True)
    (data / "train" / "x.txt").write_text("x\n")
    person.env["STELLWERK_BUCKET_PATHS"] = f"s3://lab-data={data}"
    task = person.task(
        "cat ~/data/train/x.txt ~/part/x.txt\ntouch ~/data/new || echo refused",
        more=(
            "file_mounts:\n  ~/data: {source: 's3://lab-data', type: DATASET_RO}\n"
            "  ~/part: s3://lab-data/train\n"
        ),
    )
    done = person.stw("run", task)
    assert done.stdout.splitlines()[:2] == ["x", "x"]
    assert done.stdout.splitlines()[-1] == "refused"
    assert not (data / "new").exists()


def test_a_secret_can_be_a_file_that_is_on_no_disk(colleague: Person) -> None:
    """Only its user may read it, only the job sees it, and it isn't a variable too."""
    colleague.env["CERT"] = "hush-hush"
    task = colleague.task(
        "md5sum < ~/.cert/key; stat -c '%a %U' ~/.cert/key; df --output=fstype ~/.cert/key\n"
        'echo "[$CERT]"',
        name="secret",
        more="managed_secrets:\n  - CERT: {mount_path: ~/.cert/key}\n",
    )
    told = colleague.stw("run", task, "--secret", "CERT").stdout.split()
    assert told[0] == hashlib.md5(b"hush-hush").hexdigest()
    assert told[2] == "600"
    assert "tmpfs" in told
    assert told[-1] == "[]"
    assert not (colleague.home / ".cert").exists()
    found = [
        path
        for path in colleague.state.rglob("*")
        if path.is_file() and b"hush-hush" in path.read_bytes()
    ]
    assert found == []


def test_without_namespaces_only_the_work_directory_has_mounts(person: Person) -> None:
    """What lies in it works everywhere; the rest is refused at submit, with what to do. So is an
    image that no tool could get.
    """
    person.env["STELLWERK_NO_NAMESPACES"] = "1"
    person.env["STELLWERK_PATH"] = str(few_programs(person.folder / "bin"))
    person.write("a.txt", "a\n")
    inside = person.task(
        "cat conf/a.txt; ls -d ckpt; echo kept > ckpt/step; pwd",
        name="inside",
        more=(
            "file_mounts:\n  ~/sky_workdir/conf/a.txt: a.txt\n  ~/sky_workdir/ckpt: {name: ckpts}\n"
        ),
    )
    told = person.stw("run", inside).stdout.split()
    assert told[:2] == ["a", "ckpt"]
    assert told[2] == person.json("show", "inside")["work_dir"]
    assert (person.state / "buckets" / "ckpts" / "step").read_text() == "kept\n"
    outside = person.task("true", name="outside", more="file_mounts: {~/a.txt: a.txt}\n")
    refused = person.stw("run", outside, code=2).stderr
    assert "error[place/never-fits]" in refused
    assert "mounts outside of `~/sky_workdir`" in refused
    assert "mount below `~/sky_workdir/`" in refused
    image = person.task("true", name="image", more="resources: {image_id: 'docker:a:1'}\n")
    refused = person.stw("run", image, code=2).stderr
    assert "it runs in an image, which" in refused
    assert "install podman" in refused
    assert sorted(person.phases()) == ["inside"]
    plain = person.task("test -d ~/sky_workdir || pwd", name="plain")
    assert person.stw("run", plain).stdout.strip() == person.json("show", "plain")["work_dir"]


def test_a_setup_is_kept_where_the_task_says_on_what_it_depends(colleague: Person) -> None:
    """Edited code runs with the environment that was made before; a changed lock file doesn't."""
    code = colleague.desk / "kept"
    code.mkdir()
    ran = colleague.folder / "setups"
    task = colleague.task(
        ". .venv/bin/activate; python -c 'import main, sys; print(sys.prefix)'",
        name="kept",
        more=(
            f"workdir: kept\nsetup: |\n  echo ran >> {ran}\n"
            "  python3 -m venv --without-pip .venv\n"
            "resources: {labels: {stellwerk/setup-cache: uv.lock}}\n"
        ),
    )
    for number, lock in enumerate(["1", "1", "2"]):
        (code / "uv.lock").write_text(lock)
        (code / "main.py").write_text(f"print('code {number}')\n")
        lines = colleague.stw("run", task).stdout.splitlines()
        assert lines[-2:] == [f"code {number}", f"{colleague.home}/sky_workdir/.venv"]
    assert ran.read_text().split() == ["ran"] * 2


def test_a_task_runs_in_an_image(person: Person) -> None:
    """In its files, with the code, a mount and a setup."""
    tools = person.folder / "tools"
    stand_in(tools)
    (person.desk / "code").mkdir()
    (person.desk / "code" / "main.sh").write_text("cat /etc/in-image /opt/tool /ckpt/step\n")
    person.env["STELLWERK_PATH"] = f"{tools}:{person.env['PATH']}"
    more = (
        f"workdir: code\nresources: {{image_id: 'docker:{NAME}'}}\n"
        "file_mounts: {/ckpt: {name: ckpts}}\n"
        "setup: mkdir -p /opt; echo tool > /opt/tool; echo 7 > /ckpt/step\n"
    )
    done = person.stw("run", person.task("bash main.sh", name="image", more=more))
    assert done.stdout.splitlines()[1:] == ["in the image", "tool", "7"]
    assert (person.state / "buckets" / "ckpts" / "step").read_text() == "7\n"


def few_programs(folder: Path) -> Path:
    """A folder for PATH in which there is nothing that gets images."""
    folder.mkdir()
    for program in PROGRAMS:
        (folder / program).symlink_to(str(shutil.which(program)))
    return folder


def until(condition: Callable[[], bool]) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
