"""A scorer for ``PackageScorer`` whose package is "imported" by ``load``."""

import time

LOADED = []


def score(payload):
    if payload["answer"] == "hang":
        time.sleep(600)
    return {"score": float(payload["answer"]), "loaded": LOADED}


def load(argument):
    if argument == "broken":
        raise ImportError("no such package")
    LOADED.append(argument)
