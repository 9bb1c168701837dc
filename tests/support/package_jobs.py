"""A scorer for ``PackageScorer`` whose package is "imported" by ``load``."""

import time

LOADED = []


def score(payload):
    if payload["answer"] == "hang":
        time.sleep(600)
    if payload["answer"] == "wait":
        time.sleep(1)
        return {"score": 1.0, "loaded": LOADED}
    return {"score": float(payload["answer"]), "loaded": LOADED}


def load(argument):
    if argument == "broken":
        raise ImportError("no such package")
    LOADED.append(argument)
