"""What Stellwerk works with, what each was tested against, and how: the table of `stw maturity`.

A line says no more than a test shows. ``how`` is one of

- ``real``: the program itself, started by the tests;
- ``stand-in``: a program of ours that speaks as the real one does;
- ``contract``: recorded input and output of the real one;
- ``none``: by nothing yet, which only what is planned may say.

``level`` says how far to rely on it: ``stable``, the real one is tested through the whole, and what
it does is kept; ``beta``, it is tested where it matters; ``experimental``, it never met the real
one, or only one version of it; ``planned``, it is refused in words.
"""

from typing import Literal

from msgspec import Struct

How = Literal["real", "stand-in", "contract", "none"]
Level = Literal["stable", "beta", "experimental", "planned"]


class Integration(Struct, frozen=True):
    """One thing that Stellwerk works with. ``tests`` are paths from the project's root.

    ``limits`` says what isn't done, and what is taken for granted.
    """

    name: str
    level: Level
    does: str
    against: str
    how: How
    tests: tuple[str, ...]
    since: str = "0.1.0"
    limits: str = ""


INTEGRATIONS = (
    Integration(
        "this machine",
        "stable",
        "runs jobs as its user, adopts them after kill -9 of server and agent",
        "Linux 6.18, Debian 12, bash 5.2",
        "real",
        ("tests/flows", "tests/runtime", "tests/soak"),
        limits="Linux with /proc; the state on a local disk",
    ),
    Integration(
        "Python beside a job",
        "stable",
        "agent, wrapper and helper on the interpreter that is there",
        "3.9, 3.10, 3.11, 3.12, 3.13",
        "real",
        ("tests/lab/test_pythons.py", "tests/runtime"),
    ),
    Integration(
        "machines over SSH",
        "beta",
        "a server or a room as a cluster: jobs, output, files and commands inside; cut cables",
        "OpenSSH 9.2 in network namespaces, asyncssh 2.24, Python 3.9 and 3.11 there",
        "real",
        (
            "tests/lab/test_ssh.py",
            "tests/lab/test_gangs.py",
            "tests/lab/test_ssh_conformance.py",
            "tests/drivers/test_ssh.py",
            "tests/drivers/test_ssh_gangs.py",
        ),
        limits="jobs over two machines at most were tried; jump hosts and agents never were",
    ),
    Integration(
        "SkyPilot task files",
        "beta",
        "read unchanged; what a job sees is what SkyPilot gives it",
        "SkyPilot 0.14.1",
        "contract",
        ("tests/conformance", "tests/core/describe"),
        limits="pipelines, job groups, services and pools are read, and refused at submit",
    ),
    Integration(
        "Open Cluster Management placements",
        "experimental",
        "its Placement, ManagedCluster, set and binding objects; under `compat: ocm` the same "
        "choice, scores, groups and conditions",
        "34 cases, each executed on the scheduler of open-cluster-management-io/ocm 1.3 (00f84c3)",
        "contract",
        (
            "tests/conformance/test_ocm_placement.py",
            "tests/core/place/test_compat.py",
            "tests/core/describe/test_placements.py",
        ),
        limits="files alone: no hub was ever read or written",
    ),
    Integration(
        "Kueue's queues",
        "experimental",
        "`stw apply` takes its objects, and the server queues by their quota; `stw queues plan` "
        "says of files who would start, who would go, and why others wait",
        "44 cases, each replayed on the schedulers of Kueue 0.17.0 and its main branch (0.20-dev)",
        "contract",
        (
            "tests/conformance/test_kueue_scheduling.py",
            "tests/cli/test_queues.py",
            "tests/flows/test_queueing.py",
        ),
        limits="no API server was ever asked; several heads of a queue start in one cycle, and "
        "quota and place are decided together, where Kueue's rules look at quota alone",
    ),
    Integration(
        "batch scripts",
        "beta",
        "the usual #SBATCH lines",
        "Slurm 22.05",
        "contract",
        ("tests/core/describe/test_sbatch.py",),
        limits="dependencies name jobs, and are `afterok`, `afterany` or `afternotok`",
    ),
    Integration(
        "Hugging Face Trainer",
        "beta",
        "saves by its just-in-time checkpoint when its run has to leave, and resumes",
        "transformers 5.24, accelerate 1.15, torch 2.15 on the CPU",
        "real",
        ("tests/lab/test_frameworks.py",),
    ),
    Integration(
        "Hugging Face hub",
        "beta",
        "sees which models and data sets caches of machines have whole, puts work there, copies "
        "them in a room, and switches the hub off where all is there",
        "huggingface_hub 2.4, datasets 5.2; a hub of the tests",
        "real",
        ("tests/lab/test_hub_data.py", "tests/drivers/test_hub_copying.py"),
        limits="the libraries are the real ones; the hub itself can't be reached in tests, and a "
        "server that speaks its API stands in for it. Branches aren't resolved, and the store "
        "that repositories share (xet) is read, not written",
    ),
    Integration(
        "torchrun",
        "beta",
        "finds its nodes by itself; its workers get the notice, not the launcher; the ranks save "
        "together and resume",
        "torch 2.15, gloo",
        "real",
        (
            "tests/lab/test_launchers.py",
            "tests/lab/test_gangs.py",
            "tests/lab/test_gang_launchers.py",
            "tests/lab/test_frameworks.py",
            "tests/runtime/test_stops.py",
        ),
        limits="two nodes: as shares of one machine, and as two machines",
    ),
    Integration(
        "Accelerate",
        "beta",
        "`accelerate launch` over several nodes without an argument; its configuration holds",
        "accelerate 1.15 with torch 2.15 on the CPU",
        "real",
        (
            "tests/lab/test_launchers.py",
            "tests/lab/test_gang_launchers.py",
            "tests/runtime/test_launchers.py",
        ),
        limits="FSDP was tried on CPUs; DeepSpeed is passed through, and was never tried",
    ),
    Integration(
        "JAX",
        "beta",
        "`jax.distributed.initialize()` without an argument under `stellwerk/launcher: jax`",
        "jax 0.10 on the CPU",
        "real",
        (
            "tests/lab/test_launchers.py",
            "tests/lab/test_gang_launchers.py",
            "tests/core/model/test_launch.py",
        ),
        limits="two nodes: as shares of one machine, and as two machines",
    ),
    Integration(
        "Lightning",
        "beta",
        "starts the processes of each node, and finds the other nodes; its requeue for Slurm puts "
        "the job back under `stellwerk/launcher: slurm`",
        "pytorch-lightning 2.6 with torch 2.15 on the CPU",
        "real",
        (
            "tests/lab/test_launchers.py",
            "tests/lab/test_gang_launchers.py",
            "tests/lab/test_frameworks.py",
        ),
        limits="the requeue: one process",
    ),
    Integration(
        "Orbax",
        "experimental",
        "a class that saves by its CheckpointManager when the job is to stop",
        "a stand-in for its manager",
        "stand-in",
        ("tests/runtime/test_training.py",),
        limits="the library itself was never tried",
    ),
    Integration(
        "MPI",
        "experimental",
        "`mpirun` fills all nodes of a job, over machines without ssh between them",
        "Open MPI 4.1 and 5.0, MPICH 5.0, mpi4py 4.1",
        "real",
        (
            "tests/lab/test_gang_launchers.py",
            "tests/lab/test_launchers.py",
            "tests/runtime/test_launchers.py",
        ),
        limits="Intel MPI was never tried",
    ),
    Integration(
        "Ray inside a job",
        "experimental",
        "its script starts a cluster over the machines, which ends with the job",
        "ray 2.60",
        "real",
        ("tests/lab/test_gang_launchers.py",),
        limits="started by the task's script; no dashboard, no autoscaler",
    ),
    Integration(
        "plain training loops",
        "beta",
        "one that takes no notice is ended after its grace and resumes from its last checkpoint",
        "torch 2.15 on the CPU; scikit-learn 1.9",
        "real",
        ("tests/lab/test_frameworks.py", "tests/examples"),
    ),
    Integration(
        "podman images",
        "experimental",
        "a task's image from podman's store, without root and without a daemon",
        "podman 4.3",
        "real",
        ("tests/lab/test_podman.py", "tests/runtime/test_images.py"),
        limits="docker is asked in the same words, and was never tried",
    ),
    Integration(
        "apptainer images",
        "experimental",
        "a task's image through `apptainer build --sandbox`, where neither podman nor docker is",
        "a program of the tests that writes files and variables as apptainer's source does",
        "stand-in",
        ("tests/runtime/test_apptainer.py", "tests/runtime/test_image_env.py"),
        limits=(
            "never tried with the real one, nor with singularity; tells no digest, so once for a "
            "name; variables with quotes or backslashes may be refused"
        ),
    ),
    Integration(
        "NVIDIA GPUs",
        "experimental",
        "memory, use, processes, slices and links by device through NVML; jobs that share a card",
        "a library of the tests with NVML's interface",
        "stand-in",
        (
            "tests/runtime/test_probe.py",
            "tests/runtime/test_gpus.py",
            "tests/runtime/test_gpu_memory.py",
            "tests/lab/test_gpu.py",
        ),
        limits=(
            "never tried with a driver, MIG or MPS (`make gpu` does so where there is a GPU); what "
            "a driver could enforce by cgroup isn't asked of it"
        ),
    ),
    Integration(
        "AMD GPUs",
        "experimental",
        "memory, use and processes by device through /sys",
        "files of the tests as the driver shows them",
        "stand-in",
        ("tests/runtime/test_gpu_memory.py",),
        limits="never tried with a driver; ROCm's libraries aren't asked",
    ),
    Integration(
        "SQLite",
        "stable",
        "journal, inbox and read models, durable at every step",
        "SQLite 3.40",
        "real",
        ("tests/store", "tests/soak"),
    ),
    Integration(
        "git",
        "beta",
        "commit, changes and difference of packed code; its rules on ignored files",
        "git 2.39",
        "real",
        ("tests/client/test_pack.py",),
    ),
    Integration(
        "secrets",
        "beta",
        "sealed at rest, given to the job alone: in no command line, log, page or journal",
        "cryptography 50.0",
        "real",
        ("tests/store/test_secrets.py", "tests/server/test_submit.py", "tests/flows"),
        limits="whoever can read the key file beside the state can open them",
    ),
    Integration(
        "HTTP API",
        "beta",
        "version 1 with OpenAPI 3.1, on a Unix socket or over TCP with a token",
        "Litestar 2.25, uvicorn 0.54, Python's http.client",
        "real",
        ("tests/server", "tests/flows"),
        limits="no encryption over TCP: loopback or a tunnel",
    ),
    Integration(
        "simulated place",
        "experimental",
        "a driver for tests: faults by seed, a clock of its own",
        "the suite that every driver passes",
        "stand-in",
        ("tests/drivers/test_simulated_conformance.py", "tests/world"),
        limits="nothing runs in it",
    ),
    Integration(
        "Kubernetes",
        "experimental",
        "a Job for each run, with the runtime in its pod: output, commands inside, eviction as "
        "a notice",
        "Kubernetes 1.34.4 with kubelet and containerd 1.6, lightkube 1.0, websockets 17",
        "real",
        ("tests/lab/test_kubernetes.py", "tests/lab/test_kubernetes_conformance.py"),
        limits="one node a run; checkpoints and outputs go with the pod; never tried with a GPU",
    ),
    Integration(
        "Slurm, OCM and Kueue, clouds",
        "planned",
        "places to run on: a task bound to one is refused in words",
        "",
        "none",
        (),
    ),
)
"""All of them, those that a new user meets first at the top."""
