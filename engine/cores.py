"""How many cores this process may use."""

import os


def usable_cores() -> int:
    """The cores that ``taskset``, Slurm or the cpuset of a container leave to this process; at least 1.

    More threads than these wait for each other.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
