"""State images in an order that doesn't depend on how the state came about."""

import msgspec

from stellwerk.core.state import State, StateImage


def sorted_image(state: State) -> StateImage:
    """The image in an order that doesn't depend on how the state came about."""
    image = state.image()
    return msgspec.structs.replace(
        image,
        workloads=sorted(image.workloads, key=lambda w: w.id),
        clusters=sorted(image.clusters, key=lambda c: c.name),
        shapes=dict(sorted(image.shapes.items())),
        waits=dict(sorted(image.waits.items())),
        arrays=dict(sorted(image.arrays.items())),
        quarantined={
            name: dict(sorted(n.items())) for name, n in sorted(image.quarantined.items())
        },
        faults={name: dict(sorted(n.items())) for name, n in sorted(image.faults.items())},
        own=dict(sorted(image.own.items())),
        drains={name: dict(sorted(n.items())) for name, n in sorted(image.drains.items())},
    )
