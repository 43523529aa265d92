"""Prints how long HyperQueue takes for each of many `/bin/true` on all cores of this machine."""

import json
import os
import sys
import tempfile
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cores = len(os.sched_getaffinity(0))
        with LocalCluster(f"{folder}/server", WorkerConfig(cores=cores)) as cluster:
            client = cluster.client()
            for number in (2, count):
                job = Job(default_workdir=f"{folder}/work")
                for _ in range(number):
                    job.program(["/bin/true"])
                began = time.perf_counter()
                client.wait_for_jobs([client.submit(job)])
                each_ms = (time.perf_counter() - began) * 1000 / number
    print(json.dumps({"each_ms": each_ms}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
