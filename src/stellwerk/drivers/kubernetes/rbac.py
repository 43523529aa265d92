"""What Stellwerk must be allowed to do on a cluster, and no more, as objects of Kubernetes. Pure.

A lab test runs jobs with a login that has exactly this.
"""

from typing import Any

NAME = "stellwerk"
IN_NAMESPACE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("batch", "jobs", ("create", "get", "list", "patch")),
    ("", "pods", ("list", "watch")),
    # A WebSocket begins with a GET; newer API servers ask for `create` as well.
    ("", "pods/exec", ("get", "create")),
    ("", "configmaps", ("create",)),
)
EVERYWHERE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "nodes", ("list",)),
    ("", "pods", ("list",)),
)


def rules_of(told: tuple[tuple[str, str, tuple[str, ...]], ...]) -> list[dict[str, Any]]:
    """Rules as a role has them."""
    return [
        {"apiGroups": [group], "resources": [what], "verbs": list(verbs)}
        for group, what, verbs in told
    ]


def rbac_of(namespace: str, user: str) -> list[dict[str, Any]]:
    """The roles, and their bindings to a user."""
    api = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "name": user, "apiGroup": api}
    here = {"name": NAME, "namespace": namespace}
    version = f"{api}/v1"
    return [
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": about,
            "rules": rules_of(told),
        }
        for kind, about, told in (
            ("Role", here, IN_NAMESPACE),
            ("ClusterRole", {"name": NAME}, EVERYWHERE),
        )
    ] + [
        {
            "apiVersion": version,
            "kind": f"{kind}Binding",
            "metadata": about,
            "subjects": [subject],
            "roleRef": {"apiGroup": api, "kind": kind, "name": NAME},
        }
        for kind, about in (("Role", here), ("ClusterRole", {"name": NAME}))
    ]
