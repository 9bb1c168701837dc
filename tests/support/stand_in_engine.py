"""A small program in place of vLLM or transformers."""

import sys
from dataclasses import dataclass

PROGRAM = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
port, behaviour = int(sys.argv[1]), sys.argv[2]
if behaviour == "dies":
    sys.exit("ValueError: no such architecture\\nSee root cause above")
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.answer(200, {"threads": os.environ.get("OMP_NUM_THREADS"), "pid": os.getpid()})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print("asked", body["temperature"], flush=True)
        words = len(body["messages"][0]["content"].split())
        if behaviour == "crashes" or (behaviour == "crashes_if_short" and words < 5):
            print("Fatal Python error: Illegal instruction", "DeadError: See the root cause.", sep="\\n", flush=True)
            os._exit(1)
        self.answer(400 if behaviour == "refuses" else 200, {"model": body["model"]})
        if behaviour == "stops":
            print("RuntimeError: out of memory", "the engine is dead", sep="\\n", flush=True)
            os._exit(1)
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@dataclass(frozen=True)
class StandInEngine:
    """An engine whose program serves, exits at once ("dies"), in a request ("crashes"; with fewer than five words
    "crashes_if_short"), after one ("stops"), or rejects it ("refuses")."""

    name: str = "stand-in"
    never_send: tuple = ("n",)
    behaviour: str = "serves"
    otherwise: str = "Use --engine transformers."

    def command(self, model, adapter, port, names=()):
        return [sys.executable, "-c", PROGRAM, str(port), self.behaviour]
