"""Commands of Scaffold-GRPO: ``python -m grpo_training.COMMAND``, or ``scaffold-grpo COMMAND``."""

import sys
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"]:  # the value of argv[0] while `python -m grpo_training.COMMAND` imports this package
    if sys.version_info < (3, 11):  # noqa: UP036 - a checkout can be started with any Python
        sys.exit("Scaffold-GRPO needs Python 3.11 or newer. This is Python %d.%d." % sys.version_info[:2])  # noqa: UP031
    from grpo_training.cli.before_install import explain_missing_packages

    explain_missing_packages()

if TYPE_CHECKING:
    from grpo_training.evaluate.sampling import evaluate_problems as evaluate_problems
    from grpo_training.improve.function import Improvement as Improvement
    from grpo_training.improve.function import improve as improve
    from grpo_training.improve.function import improve_async as improve_async
    from grpo_training.improve.improved import Improved as Improved
    from grpo_training.teacher.functions import SYSTEM_PROMPT_UNIFIED as SYSTEM_PROMPT_UNIFIED
    from grpo_training.teacher.functions import compute_reward as compute_reward
    from grpo_training.teacher.functions import extract_function_from_code as extract_function_from_code
    from grpo_training.teacher.functions import extract_thinking_and_code_unified as extract_thinking_and_code_unified
    from grpo_training.teacher.functions import get_unified_prompt as get_unified_prompt
    from grpo_training.train.config import GRPOTrainingConfig as GRPOTrainingConfig
    from grpo_training.train.config import load_config as load_config
    from grpo_training.train.data.sft_batch import prepare_teacher_sft_batch as prepare_teacher_sft_batch
    from grpo_training.train.data.trl_datasets import load_grpo_dataset as load_grpo_dataset
    from grpo_training.train.run import train_grpo as train_grpo
else:
    from engine.public_names import public_names

    __getattr__, __all__ = public_names(
        __name__,
        {
            "grpo_training.train.config": "GRPOTrainingConfig load_config",
            "grpo_training.evaluate.sampling": "evaluate_problems",
            "grpo_training.improve.function": "Improvement improve improve_async",
            "grpo_training.improve.improved": "Improved",
            "grpo_training.train.data.trl_datasets": "load_grpo_dataset",
            "grpo_training.train.run": "train_grpo",
            "grpo_training.teacher.functions": "SYSTEM_PROMPT_UNIFIED compute_reward extract_function_from_code "
            "extract_thinking_and_code_unified get_unified_prompt",
            "grpo_training.train.data.sft_batch": "prepare_teacher_sft_batch",
        },
    )
