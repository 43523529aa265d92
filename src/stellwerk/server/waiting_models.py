"""What the API says of those for whom a waiting workload waits."""

import msgspec


class HolderView(msgspec.Struct, frozen=True):
    """Who holds some of what another waits for; when it likely ends, and when at the latest, `null`
    where nobody knows. `passed`: it stands behind the waiting one and started before it.
    """

    id: str
    name: str
    owner: str
    cluster: str
    holds: str
    since_ms: int
    likely_ms: int | None
    latest_ms: int | None
    passed: bool = False
