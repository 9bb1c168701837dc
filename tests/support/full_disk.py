"""A limit on the size of files: what is written beyond it fails, as on a full disk."""

import contextlib
import resource


@contextlib.contextmanager
def largest_file(size):
    """No file of this process can grow beyond ``size`` bytes within the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
