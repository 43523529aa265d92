"""What a new engine starts from: the state as it was, and the orders that nobody carried out."""

import msgspec

from stellwerk.core.intake import live_runs, missing_runs
from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import workload_of
from stellwerk.core.model.reports import Inventory
from stellwerk.core.state import IMAGE_SCHEMA, State, StateImage, fold
from stellwerk.store import Store


def load_state(store: Store) -> tuple[State, int]:
    """Rebuilds the state from the newest image and the journal's tail; gives the image's seq."""
    image_seq, state = 0, State()
    found = store.load_image(IMAGE_SCHEMA)
    if found is not None:
        image_seq, data = found
        state = State.from_image(msgspec.json.decode(data, type=StateImage))
    for record in store.records(state.seq):
        fold(state, record)
    state.touched.clear()
    return state, image_seq


Order = ev.RunPlanned | ev.NoticeGiven | ev.WindowMoved


def orders_to_repeat(state: State, inventory: Inventory) -> list[Order]:
    """Finds the durable orders that a place, as its inventory shows, has never carried out."""
    again: list[Order] = [
        ev.RunPlanned(workload_of(run.id), run.id, run.generation, run.allocation, run.decision)
        for run in missing_runs(state, inventory)[0]
    ]
    stopping = {report.run for report in inventory.runs if report.phase in {"Stopping", "Ended"}}
    again += [
        ev.NoticeGiven(run.id, run.notice, run.grace_ms)
        for run in live_runs(state, inventory.cluster)
        if run.notice and run.id not in stopping
    ]
    again += [
        ev.WindowMoved(run.id, run.closes_ms)
        for run in live_runs(state, inventory.cluster)
        if run.closes_ms and not run.notice and run.id not in stopping
    ]
    return again
