"""The program that puts the runtime on a machine: where it may lie."""

import errno
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from stellwerk.drivers.ssh import boot
from stellwerk.drivers.ssh.hosts import Host
from stellwerk.drivers.ssh.troubles import of_boot

ELSEWHERE = '"/var/tmp/stellwerk-%d" % os.getuid()'
IS_LOCAL = "not kind_of(top).startswith(far)"


def booted(top: Path, home: Path, instead: tuple[str, str] = ("", "")) -> dict[str, object]:
    """What it says where the home is on a network file system, with a folder for `/var/tmp/…`.

    Of ``instead`` the first is replaced by the second.
    """
    code = boot._BOOT
    assert instead[0] in code
    code = code.replace(*instead) if instead[0] else code
    assert ELSEWHERE in code
    assert IS_LOCAL in code
    code = code.replace(ELSEWHERE, repr(str(top))).replace(IS_LOCAL, "top == tops[1]")
    argv = [sys.executable, "-I", "-S", "-c", code, "mark", hashlib.sha256(b"").hexdigest()]
    done = subprocess.run(
        [*argv, "0", "key", "", "hand"],
        env={"HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    told: dict[str, object] = json.loads(done.stdout.split(b"mark")[1].splitlines()[0])
    return told


def test_nothing_is_put_where_somebody_else_could_change_it(tmp_path: Path) -> None:
    """A folder in `/var/tmp` that others have made beforehand, or a link, is named and left."""
    top = tmp_path / "stellwerk-1000"
    told = booted(top, tmp_path)
    assert str(told["home"]).startswith(f"{top}/")
    assert top.stat().st_mode & 0o077 == 0
    link = tmp_path / "link"
    link.symlink_to(top)
    told = booted(link, tmp_path)
    assert (told["trouble"], told["place"]) == ("folder", str(link))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_and_a_used_up_quota_are_told_as_such(tmp_path: Path, number: int) -> None:
    """With the place, so that another can be named."""
    makes = "os.makedirs(runtime, mode=0o700, exist_ok=True)"
    told = booted(tmp_path / "t", tmp_path, (makes, f"raise OSError({number}, 'no', runtime)"))
    assert (told["trouble"], str(told["place"]).startswith(f"{tmp_path}/t/")) == ("full", True)
    trouble = of_boot(Host("pc1"), told)
    assert trouble.code == "ssh/home-full"
    assert trouble.message.endswith(" -> make room, or name another `--folder` [ssh/home-full]")


def test_a_tmp_in_which_nothing_can_be_started_is_told(tmp_path: Path) -> None:
    """Jobs build there, and start what they have built."""
    flags = "os.statvfs(place).f_flag & 8"
    assert booted(tmp_path / "t", tmp_path, (flags, "True"))["tmp_no_exec"] == "/tmp"
    assert booted(tmp_path / "t", tmp_path, (flags, "False"))["tmp_no_exec"] == ""
