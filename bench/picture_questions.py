"""The selector on questions about drawn pictures, from beams to accuracy, through the commands.

``python -m bench.picture_questions --output DIR`` draws a training set and a test set and serves a program that decodes
the pictures (``tests/support/pictures.py``). Then: embeddings of texts and images, beams by log-probs with the images,
SFT, rewards by asking with candidate sequences, RCE and GRPO, and the accuracy on the test set with shots by chance, by
similarity, and by the selector after SFT and after GRPO. Pools are drawn by chance. SFT has more epochs than by
default, as 160 queries are few; all other training settings have their defaults.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from grpo_training.selector.__main__ import main as selector
from tests.support import pictures
from tests.support.fault_server import serve_in_thread


def run(
    folder: Path, *, train: int, queries: int, test: int, pool: int, beam_size: int, epochs: int = 60
) -> dict[str, Any]:
    """The figures of the test set.

    Args:
        folder: for all files.
        train: pictures of the training set, which are queries and shots.
        queries: of them, that beams and rewards are made for.
        test: pictures of the test set.
        pool: shots that can be chosen for a query.
        beam_size: of the search.
        epochs: of SFT.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures.write_dataset(folder / "train.jsonl", range(train))
    pictures.write_dataset(folder / "test.jsonl", range(train, train + test))
    encoder = f"{Path(pictures.__file__)}:ShapeEncoder"
    images = ["--images", "image", "--images-dir", str(folder)]
    with serve_in_thread(pictures.seeing_app()) as url:
        asked = [*images, "--base-url", url, "--model", "seeing"]
        data = ["--dataset", str(folder / "train.jsonl")]
        words = ["--sample-num", str(queries), "--pool", str(pool), "--beam-size", str(beam_size)]
        words += ["--embedding-model", encoder, "--output-dir", str(folder / "beams")]
        words += ["--cache-dir", str(folder / "cache")]
        assert selector(["beams", *data, *asked, *words]) == 0
        embeddings = [
            *("--img-emb", str(folder / "beams/image_embeddings.npy")),
            *("--text-emb", str(folder / "beams/embeddings.npy")),
        ]
        beams = ["--beam-data", str(folder / "beams/beams.json")]
        assert selector(["sft", *beams, *embeddings, "--epochs", str(epochs), "--output-dir", str(folder / "sft")]) == 0
        sft = str(folder / "sft/sft_final.ckpt")
        stored = ["--cache-dir", str(folder / "cache")]
        words = ["--checkpoint", sft, "--output", str(folder / "rewards.json"), *stored]
        assert selector(["rewards", *data, *asked, *beams, *words]) == 0
        words = ["--sft-ckpt", sft, "--beam-data", str(folder / "rewards.json"), "--output-dir", str(folder / "post")]
        assert selector(["train", *words]) == 0
        words = ["--checkpoint", sft, str(folder / "post/grpo_final.ckpt"), "--dataset", str(folder / "test.jsonl")]
        words += [
            "--shots-dataset",
            str(folder / "train.jsonl"),
            "--shot-nums",
            "2",
            "--pool",
            str(pool),
            "--sampler",
            "rand",
        ]
        assert selector(["infer", *asked, *words, *stored, "--output", str(folder / "metrics.json")]) == 0
    figures: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder for all files")
    parser.add_argument("--train", type=int, default=400)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--test", type=int, default=300)
    parser.add_argument("--pool", type=int, default=16)
    parser.add_argument("--beam-size", type=int, default=3)
    given = parser.parse_args()
    run(
        given.output,
        train=given.train,
        queries=given.queries,
        test=given.test,
        pool=given.pool,
        beam_size=given.beam_size,
    )
