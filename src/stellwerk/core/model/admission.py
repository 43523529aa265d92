"""Admission checks: who must agree before what has its quota may start, and what they have said."""

from typing import Literal

from msgspec import Struct

CheckWord = Literal["Pending", "Ready", "Retry", "Rejected"]
OF_KUEUE = "kueue.x-k8s.io/"
"""Controllers of such a name are parts of Kueue itself; any other may answer over the API."""
SERVED: tuple[str, ...] = ()
"""Those of Kueue's controllers that are served here."""


class AdmissionCheck(Struct, frozen=True, omit_defaults=True):
    """A check that queues may name. ``timeout_ms`` without an answer counts as Retry; 0 = none."""

    name: str
    controller: str
    timeout_ms: int = 0

    @property
    def is_served(self) -> bool:
        """Whether anybody could ever answer it here."""
        return not self.controller.startswith(OF_KUEUE) or self.controller in SERVED


class CheckState(Struct, frozen=True):
    """What a check said of one workload, who set it, and since when."""

    name: str
    state: CheckWord = "Pending"
    message: str = ""
    by: str = ""
    since_ms: int = 0
