"""A platform engineer's day with queues: applied, compared, used by work, kept over a killed
server, deleted.
"""

from tests.flows.person import Person

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: here}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: vision}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: here
      resources: [{{name: cpu, nominalQuota: {cpus}}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: cv}}
spec: {{clusterQueue: vision}}
"""
SLOW = "sleep 100"


def used(person: Person) -> str:
    """What of the queue's CPUs is in use."""
    found: str = person.json("quota", "vision")["items"][0]["pairs"][0]["used"]
    return found


def test_queues_are_applied_used_kept_and_deleted(person: Person) -> None:
    """Each step by the command line; the server is killed while work holds quota."""
    told = person.stw("apply", "-f", "-", stdin=QUEUES.format(cpus="500m")).stdout
    assert "localqueue/default/cv created" in told
    job = person.task(SLOW)
    person.stw("run", job, "--queue", "cv", "--detach")
    person.wait(
        lambda client: [one.code for one in client.get("job").reasons] == ["queue_exceeds"],
        lambda: person.json("show", "job")["reasons"],
    )
    person.write("queues.yaml", QUEUES.format(cpus=1))
    differs = person.stw("diff", "-f", "queues.yaml", code=1).stdout
    assert "-        nominalQuota: 500m" in differs
    dry = person.stw("apply", "-f", "queues.yaml", "--dry-run").stdout
    assert "nominalQuota: 500m -> 1" in dry
    assert "job in cv: is blocked (1 cpu asked, vision can have at most 500m in here) -> " in dry
    assert "clusterqueue/vision configured" in person.stw("apply", "-f", "queues.yaml").stdout
    person.until({"job": "Running"})
    person.kill_server()
    assert used(person) == "1"
    kept = person.json("get", "cq", "vision")
    assert kept["metadata"] == {"name": "vision"}
    assert "in use by 1 live workload (job)" in person.stw("delete", "lq", "cv", code=1).stderr
    person.stw("cancel", "job", "--now")
    person.until({"job": "Cancelled"})
    gone = person.stw("delete", "-f", "queues.yaml").stdout
    assert gone.splitlines() == [
        "resourceflavor/here deleted",
        "clusterqueue/vision deleted",
        "localqueue/default/cv deleted",
    ]
