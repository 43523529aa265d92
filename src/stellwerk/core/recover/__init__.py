"""What becomes of a workload whose run is over: done, failed and why, or put back and why."""
