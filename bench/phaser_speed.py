"""Games validated per second, with the full run: ``python -m bench.phaser_speed``. Needs ``make phaser``.

The bound is on processor time, which other programs on the machine do not change: two cores validate
:data:`GAMES_PER_S` games in a second if each takes at most ``2 / GAMES_PER_S`` seconds of processor time.
"""

import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
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

GAMES_PER_S = 20
CORES = 2
WARM_UP = 40
GAMES = 100  # few enough that no process is replaced, because its processor time would be lost


def requests(options: GameOptions) -> list[ValidationRequest]:
    """Requests for mock replies to random prompts, with the faults in their usual shares."""
    rng = random.Random(0)
    faults = (*FAULTS, GOOD)
    found = []
    for row in make_prompt_seeds(GAMES + WARM_UP, 0, "en"):
        prompt = read_prompt(row, "here")
        [fault] = rng.choices(faults, [fault.weight for fault in faults])
        facts = facts_of(problem_of(prompt, "phaser").answer)
        found.append(options.request(read_reply(reply_text(prompt, fault, rng)).code, facts))
    rng.shuffle(found)
    return [request for request in found if request.code]


def measure(name: str, index: ApiIndex, options: GameOptions) -> float:
    """Processor seconds per game: of the validator's processes and of this one, after a warm-up."""
    asked = requests(options)
    with PhaserValidator.open(index, workers=CORES) as validator, ThreadPoolExecutor(CORES) as threads:
        list(threads.map(validator.validate, asked[:WARM_UP]))
        time.sleep(1)  # each process prepares its next run
        started, used_s = time.perf_counter(), validator.cpu_s() + time.process_time()
        list(threads.map(validator.validate, asked[WARM_UP:]))
        wall_s = time.perf_counter() - started
        used_s = validator.cpu_s() + time.process_time() - used_s
    games = len(asked) - WARM_UP
    print(f"{name}: {games / wall_s:.1f} games/s, {1000 * used_s / games:.0f} ms of processor time per game")
    return used_s / games


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
    print(f"bound: {1000 * CORES / GAMES_PER_S:.0f} ms, for {GAMES_PER_S} games/s on {CORES} cores")
    return int(each_s > CORES / GAMES_PER_S)


if __name__ == "__main__":
    sys.exit(main())
