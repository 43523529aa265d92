"""Prints how long submitit's local executor takes until a function runs, and until its result."""

import json
import sys
import tempfile
import time

import submitit


def main(count: int) -> None:
    running, result = [], []
    with tempfile.TemporaryDirectory() as folder:
        executor = submitit.AutoExecutor(folder=folder, cluster="local")
        executor.update_parameters(timeout_min=1)
        for _ in range(count):
            began = time.time()
            job = executor.submit(time.time)
            running.append((job.result() - began) * 1000)
            result.append((time.time() - began) * 1000)
    print(json.dumps({"running_ms": running, "result_ms": result}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
