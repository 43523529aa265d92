"""Colours phases and verdicts; the word always says it too."""

from stellwerk.cli.render.table import Cell

STYLES = {
    "Pending": "warn",
    "Held": "warn",
    "Starting": "busy",
    "Dispatched": "busy",
    "SettingUp": "busy",
    "Running": "busy",
    "Stopping": "warn",
    "Succeeded": "good",
    "Failed": "bad",
    "Cancelled": "faint",
    "ready": "good",
    "unreachable": "bad",
    "quarantined": "bad",
    "drained": "warn",
    "in_use": "warn",
    "declared": "faint",
    "chosen": "good",
    "fits": "",
    "later": "warn",
    "never": "bad",
    "not asked": "faint",
}

DOING = {
    "Pending": "waiting",
    "Held": "held",
    "Starting": "starting",
    "Dispatched": "dispatched",
    "SettingUp": "setting up",
    "Running": "running",
    "Stopping": "stopping",
    "Succeeded": "succeeded",
    "Failed": "failed",
    "Cancelled": "cancelled",
}


def phase_cell(word: str) -> Cell:
    """A phase, verdict or state with its colour."""
    return Cell(word, STYLES.get(word, ""))


def doing(phase: str) -> str:
    """A phase inside a sentence."""
    return DOING.get(phase, phase.lower())
