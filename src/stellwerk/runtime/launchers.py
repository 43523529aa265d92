"""Decides what a run's own launchers find beside the variables that came with the order.

They start in the user's script, each on its node, and take everything from here: mpirun a file of
hosts, `accelerate launch`, which reads no variables, a shell function that adds its options.
"""

from __future__ import annotations

from collections.abc import Mapping

from .files import write_atomically

MPI_HOSTS = "STELLWERK_MPI_HOSTS"
"""`HOST=PROCESSES,…` as the order has it; of a host that is there twice the sum counts."""

NUM_PROCESSES = "STELLWERK_NUM_PROCESSES"
"""How many processes `accelerate launch` is to start on all nodes together."""

ACCELERATE = r"""accelerate() {
  if [ "${1-}" != launch ]; then command accelerate "$@"; return; fi
  shift
  local __stw_kind=--multi_gpu __stw_x
  local __stw_home="${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/accelerate"
  if [ -e "$__stw_home/default_config.yaml" ] || [ -e "$__stw_home/default_config.json" ] ||
     [ "$STELLWERK_NUM_PROCESSES" -lt 2 ]; then __stw_kind=; fi
  for __stw_x in "$@"; do
    case "$__stw_x" in
      --cpu|--tpu|--multi[-_]gpu|--use[-_]*|--config[-_]file|--config[-_]file=*) __stw_kind= ;;
    esac
  done
  command accelerate launch $__stw_kind --num_machines "$PET_NNODES" \
    --machine_rank "$PET_NODE_RANK" --num_processes "$STELLWERK_NUM_PROCESSES" \
    --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT" \
    --deepspeed_multinode_launcher standard "$@"
}
export -f accelerate
"""
"""What a configuration file says of precision, FSDP or DeepSpeed stays; later options win."""


def shell_functions(env: Mapping[str, str]) -> str:
    """What the shells of a run define before the user's text."""
    return ACCELERATE if NUM_PROCESSES in env else ""


def meeting_variables(env: Mapping[str, str], port: str) -> dict[str, str]:
    """The port at which ranks meet, under the names of the launchers that the order speaks of.

    What it names itself stays.
    """
    address = env["MASTER_ADDR"]
    found = {"MASTER_PORT": port}
    if "PET_NNODES" in env:
        found["PET_MASTER_PORT"] = port
    if "JAX_NUM_PROCESSES" in env:
        host = f"[{address}]" if ":" in address else address
        found["JAX_COORDINATOR_ADDRESS"] = f"{host}:{port}"
    return {name: value for name, value in found.items() if name not in env}


def at_another_address(env: Mapping[str, str], address: str) -> dict[str, str]:
    """The variables that name the address of rank 0's node, where it is reached by another one."""
    known = env["MASTER_ADDR"]
    found = {name: address for name in ("MASTER_ADDR", "PET_MASTER_ADDR") if env.get(name) == known}
    for name, between in (("SKYPILOT_NODE_IPS", "\n"), ("SLURM_STEP_NODELIST", ",")):
        first, *others = env.get(name, "").split(between)
        if first == known:
            found[name] = between.join([address, *others])
    return found


def mpi_variables(env: Mapping[str, str], path: str) -> dict[str, str]:
    """Write the files of hosts beside `path`, and say where they are. Raises OSError."""
    if MPI_HOSTS not in env:
        return {}
    slots = mpi_hosts(env)
    of_open_mpi = "".join(f"{host} slots={count}\n" for host, count in slots.items())
    of_mpich = "".join(f"{host}:{count}\n" for host, count in slots.items())
    write_atomically(path, of_open_mpi.encode())
    write_atomically(f"{path}.mpich", of_mpich.encode())
    return {
        "OMPI_MCA_orte_default_hostfile": path,
        "PRTE_MCA_prte_default_hostfile": path,
        "HYDRA_HOST_FILE": f"{path}.mpich",
    }


def mpi_hosts(env: Mapping[str, str]) -> dict[str, int]:
    """The hosts of a run of MPI in the order of their ranks, and how many processes each has."""
    slots: dict[str, int] = {}
    for item in env.get(MPI_HOSTS, "").split(","):
        host, _, count = item.rpartition("=")
        if host and count.isdecimal():
            slots[host] = slots.get(host, 0) + int(count)
    return slots
