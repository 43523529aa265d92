"""What runs in a job that is a Python call: reads the call, makes it, leaves its outcome.

The text of this file is handed to the job's interpreter, which needs cloudpickle and nothing else.
The outcome is written beside its place and renamed into it, so that there is all of it or none.
"""

import os
import pickle
import sys
import traceback
from typing import Any


def write(path: str, outcome: Any) -> bool:
    """Leaves an outcome; one that can't be pickled becomes the error that says so."""
    import cloudpickle

    try:
        data = cloudpickle.dumps(outcome)
    except Exception as error:  # noqa: BLE001 - pickling runs code of the value
        kind, value = outcome[0], outcome[1]
        told = TypeError(f"the outcome of the call can't be pickled: {value!r:.200} ({error})")
        data = cloudpickle.dumps(("error", told, outcome[2] if kind == "error" else ""))
        outcome = ("error", told, "")
    beside = f"{path}.{os.getpid()}"
    with open(beside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    return bool(outcome[0] == "value")


def main(call: str, result: str) -> int:
    """Makes the call of a file; the exit status says whether it gave a value."""
    with open(call, "rb") as file:
        paths, data = pickle.load(file)  # noqa: S301 - the caller wrote it
    sys.path.extend(path for path in paths if path not in sys.path)
    try:
        function, args, kwargs = pickle.loads(data)  # noqa: S301 - the caller wrote it
        outcome = ("value", function(*args, **kwargs), "")
    except Exception as error:  # noqa: BLE001 - it is the outcome
        told = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        sys.stderr.write(told)
        outcome = ("error", error, told)
    return 0 if write(result, outcome) else 1


if __name__ == "__main__":
    result_path = os.path.expandvars(sys.argv[2])
    status = main(os.path.expanduser(sys.argv[1]), result_path)
    sys.stdout.flush()
    sys.exit(status)
