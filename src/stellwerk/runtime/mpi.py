"""What the MPI of a job over several machines finds: an agent in the place of ssh, one directory.

It is named by variables that each MPI reads; how the agent's word gets to the other machines is
told in `launches.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from .files import write_atomically
from .network import interface_towards, network_of
from .removing import remove_tree

STAND_IN = """exec 3<>"${STELLWERK_STOP_FILE%/*}/over"
read -r -u 3
"""
"""The script of a machine that isn't the first: it waits, and ends with 0."""

AGENT = """#!/bin/bash
# mpirun starts this in the place of ssh: OPTIONS HOST COMMAND
while [[ ${1-} == -* ]]; do shift; done
here=${STELLWERK_STOP_FILE%/*} id=$$-$RANDOM host=$1
shift
mkfifo -m 600 "$here/launch-$id.code" && exec 3<>"$here/launch-$id.code" || exit 255
{
  printf '%s\\n' "$host"
  for name in PATH LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV CONDA_PREFIX; do
    [ -z "${!name-}" ] || printf '%s=%s\\n' "$name" "${!name//$'\\n'}"
  done
  printf '\\n%s' "$*"
} > "$here/launch-$id"
printf '{"op":"ask","launch":"%s"}\\n' "$id" > "$here/control"
read -r -u 3 code
rm -f "$here/launch-$id" "$here/launch-$id.code"
[ "$code" != 68 ] || echo "stellwerk: this job has no machine \\`$host\\`" >&2
exit "$code"
"""


IN_PLACE = r"""__stw_mpi() {
  local __stw_x __stw_names= __stw_dir=(--wdir "$PWD") __stw_program=$1
  shift
  for __stw_x in "$@"; do
    case "$__stw_x" in -wd|-wdir|--wdir|-wdir=*|--wdir=*) __stw_dir=() ;; esac
  done
  for __stw_x in $(compgen -e); do
    case "$__stw_x" in
      STELLWERK_*_FILE|STELLWERK_*_DIR|*NODE_RANK|*_VISIBLE_DEVICES|*_SOCKET_IFNAME) ;;
      HOME|USER|LOGNAME|SHELL|HOSTNAME|TMPDIR|*PWD|XDG_*|DBUS_*|SSH_*|BASH_*|_) ;;
      *) __stw_names+=,$__stw_x ;;
    esac
  done
  HYDRA_ENV="${HYDRA_ENV-list:${__stw_names#,}}" \
    command "$__stw_program" "${__stw_dir[@]}" "$@"
}
mpirun() { __stw_mpi mpirun "$@"; }
mpiexec() { __stw_mpi mpiexec "$@"; }
export -f __stw_mpi mpirun mpiexec
"""
"""Open MPI 5 doesn't go by what the shell calls the directory; MPICH would give all processes what
is true of the first machine alone.
"""


def agent_variables(env: Mapping[str, str], run: str) -> dict[str, str]:
    """Write the agent, and name it to each MPI. Raises OSError."""
    path = os.path.join(open_common_place(run), "ssh")
    write_atomically(path, AGENT.encode())
    os.chmod(path, 0o700)
    found = {
        "OMPI_MCA_orte_leave_session_attached": "1",
        "OMPI_MCA_plm_rsh_agent": path,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_prte_leave_session_attached": "1",
        "PRTE_MCA_plm_ssh_agent": path,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": path,
    }
    return {name: value for name, value in found.items() if name not in env}


def way_variables(env: Mapping[str, str], meeting: str) -> dict[str, str]:
    """Keep MPI to the network in which the others have found this machine, if it is known.

    Open MPI takes any network that two machines have for one in which they meet, also that of
    containers; MPICH's daemons would call back to the machine's own name.
    """
    network, name = network_of(meeting), interface_towards(meeting)
    if network is None or name is None or name == "lo":
        return {}
    given = any(one.startswith("OMPI_MCA_btl_tcp_if_") for one in env)
    found = {"HYDRA_IFACE": name} | ({} if given else {"OMPI_MCA_btl_tcp_if_include": network})
    return {name: value for name, value in found.items() if name not in env}


def common_place(run: str) -> str:
    """A folder of a run that has the same path on all machines.

    mpirun has its processes begin in the directory that it was itself started in, and its daemons
    look for the agent too.
    """
    return f"/var/tmp/stellwerk-{run}"  # noqa: S108 - whose it is is looked at


def open_common_place(run: str) -> str:
    """Make that folder; its path. Raises OSError, also where somebody else has that name."""
    place = common_place(run)
    try:
        os.mkdir(place, 0o700)
    except FileExistsError:
        if os.path.islink(place) or os.stat(place).st_uid != os.getuid():
            raise
    return place


def link_work(run: str, cwd: str) -> str:
    """Have a job's directory be found there; the path. Raises OSError."""
    link = os.path.join(open_common_place(run), "work")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link)
    os.symlink(cwd, link)
    return link


def close_common_place(run: str) -> None:
    """Remove it, if it is there and ours."""
    place = common_place(run)
    if os.path.isdir(place) and not os.path.islink(place) and os.stat(place).st_uid == os.getuid():
        remove_tree(place)
