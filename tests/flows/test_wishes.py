"""A researcher's wishes in real runs: what they cost, what they read, where they may be."""

from tests.flows.person import Person

FLEET = """
apiVersion: stellwerk/v1
kind: Cluster
name: {here}
region: {region}
costs: {{usd_per_hour: {price}}}
holds: [{holds}]
---
apiVersion: stellwerk/v1
kind: Cluster
name: afar
driver: slurm
region: eu-west
nodes: [{{name: n1, cpus: 64, memory: 256}}]
costs: {{usd_per_hour: 9}}
holds: [imgs@r1]
---
apiVersion: stellwerk/v1
kind: Dataset
name: imgs
revision: r1
size: 100GB
residency: eu
"""


def wishing(person: Person, name: str, **wishes: str) -> str:
    """A task file with these wishes."""
    labels = ", ".join(f"stellwerk/{k.replace('_', '-')}: '{v}'" for k, v in wishes.items())
    return person.task("echo done", name=name, more=f"resources: {{labels: {{{labels}}}}}\n")


def waits_for(person: Person, name: str, *codes: str) -> None:
    """Waits until a workload waits for exactly these reasons."""

    def seen() -> list[str]:
        with person.client() as client:
            return [one.code for one in client.get(name).reasons if one.code != "behind"]

    def holds(client: object) -> bool:
        return seen() == list(codes)

    person.wait(holds, seen)


def test_wishes_bound_real_runs(person: Person) -> None:
    """This machine is free until somebody says what it costs; then limits and data decide. What
    can't be met waits with its numbers, over a killed server too, until the fleet is another.
    """
    person.stw("server", "start")
    person.wait(lambda client: client.clusters(), lambda: "no cluster")
    [here] = [one["name"] for one in person.json("clusters")]
    free = wishing(person, "free", objective="cost", max_usd="1")
    told = person.stw("plan", free).stdout
    assert here in told
    person.stw("run", free, "--detach")
    person.until({"free": "Succeeded"})
    why = person.stw("explain", "free").stdout
    assert "its task wishes: objective: cost, max-usd: 1" in why
    assert "0 USD" in why

    person.write("fleet.yaml", FLEET.format(here=here, price=2, region="us-east", holds=""))
    person.stw("placement", "apply", "-f", "fleet.yaml")
    hour = {"expected_runtime": "1h", "objective": "cost"}
    dear = wishing(person, "dear", max_usd="1", **hour)
    reads = wishing(person, "reads", data="imgs@r1", **hour)
    person.stw("run", dear, "--detach")
    person.stw("run", reads, "--detach")
    person.stw("run", wishing(person, "typo", data="imgz", **hour), "--detach")
    waits_for(person, "dear", "wish_unmet")
    waits_for(person, "reads", "data_residency", "data_no_source", "own_no_driver")
    waits_for(person, "typo", "wish_broken")
    why = person.stw("explain", "dear").stdout
    assert "2 usd (wanted: at most 1 usd)" in why
    assert f"what would change it: {here} meets what it wishes with: allow 2 usd" in why
    assert person.json("show", "dear")["wishes"][:2] == ["objective: cost", "max-usd: 1"]

    own = person.json("placement", "ls", "--own")
    assert {one["by"]: one["clusters"] for one in own} == {
        "dear": [],
        "reads": ["afar"],
        "typo": [],
    }
    person.kill_server()
    waits_for(person, "dear", "wish_unmet")
    person.write("fleet.yaml", FLEET.format(here=here, price=0.5, region="eu", holds="imgs@r1"))
    person.stw("placement", "apply", "-f", "fleet.yaml")
    person.until({"dear": "Succeeded", "reads": "Succeeded"})
    assert "0.50 USD" in person.stw("explain", "dear").stdout
    waits_for(person, "typo", "wish_broken")
    assert person.json("placement", "ls") == []
