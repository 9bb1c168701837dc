"""Jobs for ``WorkerPool`` that end well, raise, never end, or use too much memory."""


def echo(payload):
    return payload


def fail(payload):
    raise RuntimeError(str(payload))


def spin(payload):
    while True:
        pass


def hoard(payload):
    return len(bytearray(1 << 40))
