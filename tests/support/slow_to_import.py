"""A module that takes two seconds to import."""

import time

_BEGAN = time.monotonic()
time.sleep(2)
_TOOK_S = time.monotonic() - _BEGAN


def took_s(_):
    return _TOOK_S
