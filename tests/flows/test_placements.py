"""An engineer's day with a policy: applied, explained, moved by a taint, kept over a killed server,
obeyed by work.
"""

from tests.flows.person import Person

POLICY = """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {{name: gold}}
spec:
  numberOfClusters: 1
  predicates:
  - requiredClusterSelector: {{labelSelector: {{matchLabels: {{tier: gold}}}}}}
---
apiVersion: stellwerk/v1
kind: Cluster
name: afar
driver: slurm
cpus: 64
memory: 256Gi
labels: {{tier: gold}}
taints: [{taint}]
---
apiVersion: stellwerk/v1
kind: Cluster
name: {here}
labels: {{tier: gold}}
"""
TAINT = "{key: maintenance, effect: NoSelect}"
WISH = "resources: {labels: {stellwerk/placement: gold}}\n"


def chosen(person: Person) -> list[str]:
    """What the placement has."""
    found: list[str] = person.json("placement", "show", "gold")["row"]["clusters"]
    return found


def reason_codes(person: Person, name: str) -> list[str]:
    """Why a workload waits."""
    return [one["code"] for one in person.json("show", name)["reasons"]]


def test_a_policy_is_applied_explained_moved_kept_and_obeyed(person: Person) -> None:
    """Each step by the command line; the server is killed between decision and work."""
    person.write("strategy.yaml", "{type: Progressive, progressive: {maxConcurrency: 0.5}}")
    person.stw("server", "start")
    person.wait(lambda client: client.clusters(), lambda: "no cluster")
    [here] = [one["name"] for one in person.json("clusters")]
    person.write("fleet.yaml", POLICY.format(taint="", here=here))
    dry = person.stw("placement", "apply", "-f", "fleet.yaml", "--dry-run")
    assert "default/gold new: would choose afar" in dry.stdout
    assert person.json("placement", "ls") == []
    told = person.stw("placement", "apply", "-f", "fleet.yaml")
    assert "default/gold new: chooses afar" in told.stdout
    refused = person.stw("placement", "waves", "gold", "-f", "strategy.yaml", code=2)
    assert "a number of clusters or a portion like `25%`" in refused.stderr
    person.write("strategy.yaml", "{type: Progressive, progressive: {maxConcurrency: 50%}}")
    assert "wave 1   afar" in person.stw("placement", "waves", "gold", "-f", "strategy.yaml").stdout
    assert "declared" in person.stw("clusters").stdout
    page = person.stw("clusters", "show", "afar").stdout
    assert "no driver here reaches it" in page
    assert "fleet.yaml" in page

    job = person.task("echo done", more=WISH)
    person.stw("run", job, "--detach")
    person.wait(
        lambda client: (
            [one.code for one in client.get("job").reasons] == ["not_chosen", "no_driver"]
        ),
        lambda: reason_codes(person, "job"),
    )
    assert "ranks behind" in person.stw("explain", "job").stdout

    person.kill_server()
    assert chosen(person) == ["afar"]
    person.write("fleet.yaml", POLICY.format(taint=TAINT, here=here))
    told = person.stw("placement", "apply", "-f", "fleet.yaml")
    assert f"chooses {here} instead of afar" in told.stdout
    person.until({"job": "Succeeded"})
    why = person.stw("placement", "explain", "gold", "--cluster", "afar").stdout
    assert "maintenance" in why
    newest, first = person.json("placement", "history", "gold")
    assert newest["moves"][0]["left"] == "afar"
    diff = person.stw(
        "placement", "explain", "--diff", first["decision"], newest["decision"]
    ).stdout
    assert "taints: " in diff
    told = person.stw("placement", "explain", "--replay", first["decision"])
    assert "it is identical" in told.stdout

    person.write("broken.yaml", person.stw("placement", "show", "gold", "-o", "yaml").stdout)
    broken = (person.desk / "broken.yaml").read_text().replace("numberOfClusters: 1", "colour: red")
    person.write("broken.yaml", broken)
    refused = person.stw("placement", "apply", "-f", "broken.yaml", code=2)
    assert "error[spec/unknown-field]  broken.yaml:" in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert chosen(person) == [here]
    person.stw("placement", "delete", "gold")
    assert person.json("placement", "ls") == []
    gone = person.stw("run", job, "--detach", code=2)
    assert "error[submit/placement]" in gone.stderr
