"""How many runs may share a card: by cluster, from the settings, every mistake told."""

import pytest

from stellwerk.config import Settings, load
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.place.node import jobs_on_a_card
from stellwerk.server.gpu_sharing import GpuSharing
from stellwerk.testing.builders import a_cluster


def settings(written: str) -> Settings:
    return load({"HOME": "/tmp", "STELLWERK_GPU_JOBS": written})


def test_a_cluster_has_its_own_number_or_that_of_all() -> None:
    """0 is as many as the memory holds; a label that a cluster has by itself stays."""
    sharing = GpuSharing.of(settings("4; k017: 1; big: 0"))

    def most(name: str) -> int:
        return jobs_on_a_card(sharing.marked(a_cluster(name)))

    assert (most("lab"), most("k017"), most("big")) == (4, 1, 0)
    assert jobs_on_a_card(sharing.marked(a_cluster("x", labels={"stellwerk/gpu-jobs": "2"}))) == 2
    untouched = a_cluster("lab")
    assert GpuSharing.of(settings("")).marked(untouched) is untouched


def test_every_mistake_is_told() -> None:
    """With the way to write it."""
    with pytest.raises(StellwerkError) as caught:
        GpuSharing.of(settings("many; k017: -1; : 3; ok: 2"))
    assert [one.message for one in caught.value.problems] == [
        "`gpu_jobs` says `many`",
        "`gpu_jobs` says `k017: -1`",
        "`gpu_jobs` says `: 3`",
    ]
