"""Right answers of the pocket model with a library of 200 experiences, by how those of a prompt are chosen.

``python -m bench.experience_choice --output DIR`` makes the library (paraphrases of what helps with each of the 26
families of ``quickstart``, so that eight of 200 fit a problem), collects rollouts with eight experiences by chance,
trains a selector on their rewards, and answers problems of the split ``test`` with: eight by chance, eight by
similarity, eight by the selector, and all 200. The same command again continues.
"""

import argparse
import json
import random
from pathlib import Path

from engine.statistics.paired import clustered_mean, paired_difference
from engine.storage.stored_records import StoredGroups
from examples.pocket_model.quickstart import FAMILIES
from grpo_training import generator1
from grpo_training.selector import __main__ as selector

LIBRARY = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--embedding-model", default="hashing", help="as of `selector experiences`")
    parser.add_argument("--train-problems", type=int, default=208)
    parser.add_argument("--epochs", type=int, default=6, help="prompts of each training problem, all different")
    parser.add_argument("--test-problems", type=int, default=208)
    given = parser.parse_args()
    folder = given.output
    write_library(folder / "experiences")
    flags = ("--max-problems", given.train_problems, "--epochs", given.epochs, "--select", "random", "--k", 8)
    generate(folder, "train", "quickstart", *flags)
    checkpoint = train(folder, given.embedding_model)
    ways: dict[str, tuple[object, ...]] = {
        "8 by chance": ("--select", "random", "--k", 8),
        "8 by similarity": ("--select", "text", "--k", 8),
        "8 by the selector": ("--selector", checkpoint, "--k", 8),
        "all 200": ("--prompt-experiences", LIBRARY),
    }
    right = {}
    for way, chosen_by in ways.items():
        name = way.replace(" ", "-")
        generate(folder, name, "quickstart:test", "--max-problems", given.test_problems, *chosen_by)
        right[way] = answers(folder / name)
    report(right, folder / "figures.json")


def write_library(folder: Path) -> None:
    """The first paraphrases of every family, in an order by chance."""
    families = list(FAMILIES.values())
    texts = [(family.category, family.lessons[number]) for number in range(18) for family in families][:LIBRARY]
    random.Random(0).shuffle(texts)
    path = folder / "generator_1_experiences.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        entries = [{"id": f"G1-{n:03d}", "content": text, "category": name} for n, (name, text) in enumerate(texts, 1)]
        path.write_text(json.dumps(entries, indent=1))


def generate(folder: Path, name: str, dataset: str, *flags: object) -> None:
    """Rollouts of generator 1; nothing is learned, so that the library stays as it is."""
    words = [
        *("--dataset", dataset, "--endpoint", "local", "--prompts", "compact", "--rollouts", 1, "--temperature", 1),
        *("--learn", "none", "--capacity", LIBRARY, "--max-tokens", 600, "--window", 32),
        *("--cache-dir", folder / name, "--experiences-dir", folder / "experiences", *flags),
    ]
    if generator1.main([str(word) for word in words]):
        raise SystemExit(f"the run {name} failed")


def train(folder: Path, embedding_model: str) -> Path:
    """The selector that the rollouts train."""
    data, sft, post = folder / "data", folder / "sft", folder / "post"
    places = ["--cache-dir", folder / "train", "--experiences-dir", folder / "experiences", "--output-dir", data]
    common = ["--beam-data", data / "beams.json", "--embeddings", data / "embeddings.npy", "--fresh"]
    steps = [
        ["experiences", *places, "--embedding-model", embedding_model],
        [
            *("sft", *common, "--beam-size", 1, "--hidden-dim", 64, "--decoder", "static", "--dropout", 0.3),
            *("--epochs", 20, "--learning-rate", 1e-3, "--output-dir", sft),
        ],
        [
            *("train", *common, "--sft-ckpt", sft / "best_model.ckpt", "--rce-epochs", 10, "--grpo-epochs", 10),
            *("--rce-lr", 1e-3, "--grpo-lr", 1e-3, "--kl-target-max", 5, "--early-epochs", 0, "--output-dir", post),
        ],
    ]
    for words in steps:
        selector.main([str(word) for word in words])
    return post / "best_reward.ckpt"


def answers(cache: Path) -> dict[str, list[float]]:
    """Problem -> whether its answers are right."""
    groups = StoredGroups(cache / "generator_1_rollouts.jsonl", with_incomplete=True).in_order()
    return {group.problem_id: [float(bool(rollout.is_correct)) for rollout in group.rollouts] for group in groups}


def report(right: dict[str, dict[str, list[float]]], path: Path) -> None:
    figures = {}
    for way, clusters in right.items():
        mean, gain = clustered_mean(clusters), paired_difference(clusters, right["8 by chance"])
        figures[way] = {"right": vars(mean), "minus chance": vars(gain)}
        print(f"{way:18} {mean.value:6.1%}  [{mean.low:.1%}, {mean.high:.1%}]   {gain.value:+.1%} against chance")
    path.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
