"""A small world for the selector: embeddings, a beam file and a reward file whose best pairs follow a rule."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

SHOTS, QUERIES, POOL = 40, 24, 10


@pytest.fixture
def world(tmp_path):
    """Paths of embeddings, beams and rewards. The reward of a pair is how far its shots point along a hidden axis."""
    return _write(tmp_path)


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory):
    """The same files, written once. Not to be written to."""
    return _write(tmp_path_factory.mktemp("world"))


def _write(folder):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(SHOTS + QUERIES, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.save(folder / "embeddings.npy", rows)
    beams, rewards = {}, {"_meta": {"vqa_model": "none"}}
    for query in range(SHOTS, SHOTS + QUERIES):
        pool = sorted(rng.choice(SHOTS, size=POOL, replace=False).tolist())
        value = {shot: float(rows[shot, 0]) for shot in pool}
        pairs = [tuple(rng.choice(pool, size=2, replace=False).tolist()) for _ in range(6)]
        pairs = sorted(dict.fromkeys(pairs), key=lambda pair: -value[pair[0]] - value[pair[1]])[:5]
        scores = [0.04 + 0.01 * (value[first] + value[second]) for first, second in pairs]
        beams[str(query)] = {
            "id_list": [[*pair, query] for pair in pairs],
            "score_list": scores,
            "candidate_pool_ids": pool,
            "few_shot_num": 2,
        }
        rewards[str(query)] = {
            "query": {"query_id": query},
            "candidate_pool_ids": pool,
            "pointer_candidates": [
                {
                    "pointer": [pool.index(shot) for shot in pair],
                    "pointer_global": list(pair),
                    "gen_method": "beam",
                    "vqa_correct": int(score > 0.04),
                    "vqa_acc_score": 0.6 if score > 0.04 else 0.0,
                    "vqa_eval_mode": "vqaEval",
                }
                for pair, score in zip(pairs, scores, strict=True)
            ],
        }
    (folder / "beams.json").write_text(json.dumps(beams))
    (folder / "rewards.json").write_text(json.dumps(rewards))
    return folder
