"""The calls about models and data sets in the caches of machines."""

from collections.abc import Sequence

from stellwerk.client.parts import part
from stellwerk.client.requests import Requests
from stellwerk.core.model.data_there import (
    DataCopies,
    DataCopy,
    DataList,
    DataRemoved,
    RemoveWish,
    StageWish,
)

REMOVE_S = 600.0


class DataCalls(Requests):
    """Data: where it is, copy it to other machines, remove it."""

    def data(self) -> DataList:
        """What caches of machines have, and copies of late."""
        return self._get("/v1/data", DataList)

    def stage_data(self, cluster: str, wish: StageWish) -> Sequence[DataCopy]:
        """Begins copies to the machines of a cluster that lack it; refused with all that is wrong.

        None where it is there already.
        """
        return self._order(f"/v1/clusters/{part(cluster)}/data/stage", DataCopies, wish).items

    def remove_data(self, cluster: str, wish: RemoveWish) -> Sequence[DataRemoved]:
        """Removes it from the machines of a cluster; refused while live work uses it."""
        target = f"/v1/clusters/{part(cluster)}/data/remove"
        return self._order(target, list[DataRemoved], wish, timeout_s=REMOVE_S)
