"""Decides how a run looks as objects of Kubernetes, and what its objects say. Pure.

A run is an indexed Job with one pod. The Job is its claim: its name can be had once, and it stays
(suspended, so without pods) when the run is over and even when it is forgotten.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from stellwerk.core.model.cluster import Device, Node
from stellwerk.core.model.devices import kind_of_device
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.workload import RunEnd
from stellwerk.drivers.base import StartOrder
from stellwerk.drivers.kubernetes import pod_main

Object = Mapping[str, Any]
OWNER, RUN = "stellwerk/owner", "stellwerk/run"
GENERATION, EPOCH = "stellwerk/generation", "stellwerk/epoch"
END, FORGOTTEN = "stellwerk/end", "stellwerk/forgotten"
CONTAINER = "run"
GPU = "nvidia.com/gpu"
PRODUCT, GPU_MIB = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
LONGEST = 52
"""Names of pods are those of their Jobs and some more, and a label holds 63 characters."""
HOPELESS = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
UNITS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** (n + 1) for n, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Decimal(1024) ** (n + 1) for n, unit in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][-+]?[0-9]+)?)([A-Za-z]*)")


def name_of(run: str, owner: str) -> str:
    """The name of a run's Job: readable, short enough, and nobody else's."""
    plain = re.sub(r"[^a-z0-9-]", "-", run.lower()).strip("-")
    key = hashlib.sha256(f"{owner}:{run}".encode()).hexdigest()[:8]
    return f"stw-{plain[: LONGEST - 13].rstrip('-')}-{key}"


def quantity(said: object) -> Decimal:
    """Reads an amount as Kubernetes writes it; nonsense is nothing."""
    found = _QUANTITY.fullmatch(str(said))
    if found is None or found[2] not in UNITS:
        return Decimal(0)
    return Decimal(found[1]) * UNITS[found[2]]


def parts_of(owner: str, packed: bytes, digest: str) -> dict[str, Any]:
    """The object that brings the runtime's file into pods."""
    import base64

    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"stw-runtime-{digest[:12]}",
            "labels": {OWNER: owner, "app.kubernetes.io/managed-by": "stellwerk"},
        },
        "immutable": True,
        "binaryData": {"runtime": base64.b64encode(packed).decode()},
    }


def job_of(order: StartOrder, owner: str, image: str, digest: str, pull: str) -> dict[str, Any]:
    """The Job of a run on the node that it was given. It carries no secret, nor any file."""
    labels = {
        OWNER: owner,
        RUN: label_of(order.run),
        "app.kubernetes.io/managed-by": "stellwerk",
    }
    told = {RUN: order.run, GENERATION: str(order.generation), EPOCH: str(order.epoch)}
    main = [
        *("python3", "-I", "-S", "-c", pod_main.TEXT, pod_main.HOME, pod_main.PARTS, order.run),
        *(str(order.generation), str(order.grace_ms), digest[:12], str(pod_main.BRING_HOME_S)),
    ]
    container = {
        "name": CONTAINER,
        "image": order.image or image,
        "imagePullPolicy": pull,
        "command": main,
        "resources": resources_of(order.allocation),
        "volumeMounts": [
            {"name": "home", "mountPath": "/stellwerk"},
            {"name": "parts", "mountPath": pod_main.PARTS, "readOnly": True},
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": order.grace_ms // 1000 + pod_main.BRING_HOME_S + 5,
        "nodeSelector": {"kubernetes.io/hostname": order.ranks[0].node},
        "containers": [container],
        "volumes": [
            {"name": "home", "emptyDir": {}},
            {"name": "parts", "configMap": {"name": f"stw-runtime-{digest[:12]}"}},
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name_of(order.run, owner), "labels": labels, "annotations": told},
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels, "annotations": told}, "spec": pod},
        },
    }


def label_of(run: str) -> str:
    """A run as the value of a label; its whole name is in an annotation."""
    return run if len(run) <= 63 else run[:40] + hashlib.sha256(run.encode()).hexdigest()[:8]


def resources_of(allocation: Allocation | None) -> dict[str, Any]:
    """What a run was given, as requests; accelerators are whole and a limit too."""
    if allocation is None or not allocation.nodes:
        return {}
    part = allocation.nodes[0]
    requests: dict[str, str] = {"cpu": f"{part.cpus_milli}m"}
    if part.memory_bytes:
        requests["memory"] = str(part.memory_bytes)
    gpus = len({share.index for share in part.devices})
    if not gpus:
        return {"requests": requests}
    return {"requests": {**requests, GPU: str(gpus)}, "limits": {GPU: str(gpus)}}


def node_of(node: Object, pods: Iterable[Object], owner: str) -> Node:
    """A node as a place to work; what pods of others request there counts as held by them."""
    about, status = node["metadata"], node.get("status") or {}
    labels = about.get("labels") or {}
    can = status.get("allocatable") or {}
    info = status.get("nodeInfo") or {}
    others = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(OWNER) != owner]
    held = [requested(pod) for pod in others if is_scheduled(pod)]
    conditions: dict[str, Object] = {c.get("type"): c for c in status.get("conditions") or ()}
    ready = conditions.get("Ready", {})
    cordoned = bool((node.get("spec") or {}).get("unschedulable"))
    is_up = ready.get("status") == "True"
    address = next(
        (a["address"] for a in status.get("addresses") or () if a.get("type") == "InternalIP"), ""
    )
    zone = labels.get("topology.kubernetes.io/zone")
    taken = int(sum(one.get(GPU, Decimal(0)) for one in held))
    return Node(
        name=labels.get("kubernetes.io/hostname") or about["name"],
        cpus_milli=int(quantity(can.get("cpu")) * 1000),
        memory_bytes=int(quantity(can.get("memory"))),
        disk_bytes=int(quantity(can.get("ephemeral-storage"))),
        devices=_devices(labels, int(quantity(can.get(GPU, "0"))), taken),
        state="unreachable" if not is_up else "drained" if cordoned else "ready",
        boot_id=str(info.get("bootID") or ""),
        machine_id=str(info.get("machineID") or ""),
        address=address,
        note="" if is_up else str(ready.get("message") or "its kubelet says nothing"),
        domains={"zone": zone} if zone else {},
        foreign_cpus_milli=int(sum(one.get("cpu", Decimal(0)) for one in held) * 1000),
        foreign_memory_bytes=int(sum(one.get("memory", Decimal(0)) for one in held)),
    )


def _devices(labels: Object, count: int, taken: int) -> tuple[Device, ...]:
    """Its accelerators; which of them others have isn't told, so the last ones count as theirs."""
    memory = int(quantity(labels.get(GPU_MIB, "0"))) << 20
    product = str(labels.get(PRODUCT) or "")
    kind = kind_of_device(product, memory) if product else "gpu"
    return tuple(
        Device(
            index=index,
            kind=kind,
            memory_bytes=memory,
            product=product,
            foreign_bytes=memory if index >= count - taken else 0,
            foreign_compute=index >= count - taken,
        )
        for index in range(count)
    )


def is_scheduled(pod: Object) -> bool:
    """Whether a pod holds something of its node."""
    phase = (pod.get("status") or {}).get("phase")
    return bool((pod.get("spec") or {}).get("nodeName")) and phase not in {"Succeeded", "Failed"}


def requested(pod: Object) -> dict[str, Decimal]:
    """What a pod requests: its containers or largest init container, and its overhead."""
    spec = pod.get("spec") or {}
    total: dict[str, Decimal] = {}
    for container in spec.get("containers") or ():
        for what, amount in _requests(container).items():
            total[what] = total.get(what, Decimal(0)) + amount
    for container in spec.get("initContainers") or ():
        for what, amount in _requests(container).items():
            total[what] = max(total.get(what, Decimal(0)), amount)
    for what, said in (spec.get("overhead") or {}).items():
        total[what] = total.get(what, Decimal(0)) + quantity(said)
    return total


def _requests(container: Object) -> dict[str, Decimal]:
    asked = ((container.get("resources") or {}).get("requests")) or {}
    return {what: quantity(said) for what, said in asked.items()}


def why_hopeless(pod: Object) -> tuple[str, str] | None:
    """Why the container of a pod will never run: a code and a sentence."""
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        state = one.get("state") or {}
        waiting, over = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason") in HOPELESS:
            said = f"{one.get('image')}: {waiting['reason']}: {waiting.get('message', '')}"
            return "kubernetes/image", said
        if over.get("reason") == "StartError" or over.get("exitCode") in {127, 128}:
            return "kubernetes/no-python", f"{one.get('image')} has no `python3`, which runs need"
        if over.get("exitCode") == pod_main.TOO_OLD:
            return "kubernetes/no-python", f"the `python3` of {one.get('image')} is older than 3.9"
    return None


def is_running(pod: Object) -> bool:
    """Whether something can be done in its container."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("running" in (one.get("state") or {}) for one in statuses)


def is_over(pod: Object) -> bool:
    """Whether its container will do nothing more."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def last_words(pod: Object) -> bytes:
    """What its first process left with the kubelet."""
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        over = (one.get("state") or {}).get("terminated") or {}
        if message := over.get("message"):
            return str(message).encode()
    return b""


def has_failed(job: Object) -> bool:
    """Whether a Job will have no pod any more, as its only one was lost."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    said = ("Failed", "FailureTarget")
    return any(one.get("type") in said and one.get("status") == "True" for one in conditions)


def end_told(job: Object) -> RunEnd | None:
    """How a run ended, if its Job says so."""
    said = (job["metadata"].get("annotations") or {}).get(END)
    try:
        return msgspec.json.decode(said, type=RunEnd) if said else None
    except (msgspec.DecodeError, msgspec.ValidationError):
        return RunEnd(how="unknown", message="what its Job says of its end can't be read")
