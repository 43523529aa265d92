"""Where state may lie."""

import pytest

from stellwerk.store.places import file_system_of, network_problem

MOUNTS = r"""
/dev/sda1 / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/ada/local xfs rw 0 0
ada@lab:/data /mnt/my\040data fuse.sshfs rw 0 0
overlay /srv overlay rw 0 0
//nas/share /srv cifs rw 0 0
garbage
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var/lib/x", ("ext4", "/")),
        ("/tmp", ("tmpfs", "/tmp")),
        ("/tmpfoo/x", ("ext4", "/")),
        ("/home/ada/.local/state", ("nfs4", "/home")),
        ("/home/ada/local/state", ("xfs", "/home/ada/local")),
        ("/home/ada/localhost", ("nfs4", "/home")),
        ("/mnt/my data/x", ("fuse.sshfs", "/mnt/my data")),
        ("/srv/x", ("cifs", "/srv")),
    ],
)
def test_the_mount_that_holds_a_path(path: str, expected: tuple[str, str]) -> None:
    """The longest mount point that is a folder above the path counts, and the latest of equals."""
    assert file_system_of(path, MOUNTS) == expected


def test_a_network_file_system_is_refused_in_words() -> None:
    """The error names the path, the type and the mount, and how to choose another place."""
    problem = network_problem("/home/ada/.local/state/stellwerk", MOUNTS)
    assert problem is not None
    assert problem.code == "store/network-file-system"
    assert "/home/ada/.local/state/stellwerk" in problem.message
    assert "nfs4, mounted on /home" in problem.message
    assert "STELLWERK_HOME" in problem.help


@pytest.mark.parametrize("path", ["/var/lib/x", "/tmp/x", "/home/ada/local/x"])
def test_a_local_file_system_is_fine(path: str) -> None:
    """Nothing is said of a local disk, even one that is mounted inside a network home."""
    assert network_problem(path, MOUNTS) is None


def test_without_a_mount_table_nothing_is_refused() -> None:
    """A machine that doesn't tell its mounts isn't locked out."""
    assert network_problem("/home/ada", "") is None
