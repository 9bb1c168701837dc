"""Games validated per minute, with the full run: ``python -m bench.phaser_speed``. Needs ``make phaser`` and Chromium.

The bound is on processor time, which other programs on the machine do not change: two cores validate
:data:`GAMES_PER_MINUTE` games in a minute if each takes at most ``120 / GAMES_PER_MINUTE`` seconds of processor time.
The start of the processes is included.
"""

import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

from engine.errors import ConfigurationError
from engine.tasks.phaser.mock.faults import FAULTS, GOOD
from engine.tasks.phaser.mock.rollouts import reply_text
from engine.tasks.phaser.options import GameOptions
from engine.tasks.phaser.problems import facts_of, problem_of, read_prompt
from engine.tasks.phaser.reply import read_reply
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds
from engine.tasks.phaser.validation.api_index import ApiIndex
from engine.tasks.phaser.validation.node_setup import build_api_index
from engine.tasks.phaser.validation.validator import PhaserValidator
from engine.tasks.phaser.validation.verdict import ValidationRequest

GAMES_PER_MINUTE = 50
CORES = 2
GAMES = 60


def requests(options: GameOptions) -> list[ValidationRequest]:
    """Requests for mock replies to random prompts, with the faults in their usual shares."""
    rng = random.Random(0)
    faults = (*FAULTS, GOOD)
    asked = []
    for row in make_prompt_seeds(GAMES, 0, "en"):
        prompt = read_prompt(row, "here")
        [fault] = rng.choices(faults, [fault.weight for fault in faults])
        facts = facts_of(problem_of(prompt, "phaser").answer)
        asked.append(options.request(read_reply(reply_text(prompt, fault, rng)).code, facts))
    rng.shuffle(asked)
    return [request for request in asked if request.code]


def processor_s() -> float:
    """Processor seconds of this process and of all below it, those that have ended included."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            process = int(path.parent.name)
            children[int(fields[1])].append(process)
            ticks[process] = sum(map(int, fields[11:15]))
    waiting, total = [os.getpid()], 0
    while waiting:
        process = waiting.pop()
        total += ticks.get(process, 0)
        waiting += children[process]
    return total / os.sysconf("SC_CLK_TCK")


def measure(name: str, index: ApiIndex, options: GameOptions) -> float:
    """Processor seconds per game."""
    asked = requests(options)
    started, before_s = time.perf_counter(), processor_s()
    with (
        closing(PhaserValidator(index, workers=CORES, runs=not options.skip_runtime)) as validator,
        ThreadPoolExecutor(CORES) as threads,
    ):
        list(threads.map(validator.validate, asked))
        wall_s, used_s = time.perf_counter() - started, processor_s() - before_s
    print(
        f"{name}: {60 * len(asked) / wall_s:.0f} games a minute, {used_s / len(asked):.2f} s of processor time "
        f"per game, load of the machine {os.getloadavg()[0]:.1f}"
    )
    return used_s / len(asked)


def main() -> int:
    """The exit status: 0 if the bound holds."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            build_api_index(Path(folder))
            index = ApiIndex.load(Path(folder) / "phaser_api.jsonl")
            measure("without a run", index, GameOptions(skip_runtime=True))
            each_s = measure("with a run", index, GameOptions())
    except ConfigurationError as error:
        print(f"Phaser: skipped, {error.what}")
        return 0
    bound_s = 60 * CORES / GAMES_PER_MINUTE
    print(f"bound: {bound_s:.1f} s, for {GAMES_PER_MINUTE} games a minute on {CORES} cores")
    return int(each_s > bound_s)


if __name__ == "__main__":
    sys.exit(main())
