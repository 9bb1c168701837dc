"""GRPO with verl on an exported environment: its problems as verl's parquet file, and its reward function.

python -m grpo_training.export --to verifiers --dataset openai/gsm8k:train --output environments/gsm8k_scaffold
python examples/verl_reward.py environments/gsm8k_scaffold/gsm8k_scaffold train.parquet
python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \
    data.train_files=train.parquet data.val_files=train.parquet data.train_batch_size=128 \
    data.max_prompt_length=2048 data.max_response_length=2048 \
    actor_rollout_ref.model.path=Qwen/Qwen3-0.6B actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=8 \
    reward.custom_reward_function.path=examples/verl_reward.py reward.custom_reward_function.name=compute_score \
    trainer.n_gpus_per_node=1 trainer.nnodes=1

Scaffold-GRPO has to be installed beside verl. The file and the function are tested; the training is not, as it needs
a GPU. Older versions of verl name the function custom_reward_function.path, without "reward.".
"""

import sys
from functools import cache
from pathlib import Path

from engine.records import Problem
from grpo_training.environments.problem_files import load_user_task, read_problems, score_reply


def rows(folder):
    """The rows of verl's data file."""
    return [
        {
            "data_source": str(folder.resolve()),
            "prompt": [{"role": message.role, "content": message.content} for message in one.messages],
            "ability": one.problem.task,
            "reward_model": {"style": "rule", "ground_truth": one.problem.model_dump_json()},
            "extra_info": {"index": index, "id": one.problem.id},
        }
        for index, one in enumerate(read_problems(folder))
    ]


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """The reward of a reply with its components. A reply that was not measured raises."""
    _load_task(data_source)
    scored = score_reply(Problem.model_validate_json(ground_truth), solution_str)
    components = {name: value for name, value in scored.rewards.by_name().items() if value is not None}
    return {"score": scored.rewards.r_total, "is_correct": float(bool(scored.is_correct)), **components}


@cache
def _load_task(folder):
    load_user_task(Path(folder))


if __name__ == "__main__":
    from datasets import Dataset

    Dataset.from_list(rows(Path(sys.argv[1]))).to_parquet(sys.argv[2])
