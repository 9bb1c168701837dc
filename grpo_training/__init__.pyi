from .evaluate.sampling import evaluate_problems as evaluate_problems
from .improve.function import Improvement as Improvement
from .improve.function import improve as improve
from .improve.function import improve_async as improve_async
from .improve.improved import Improved as Improved
from .teacher.functions import SYSTEM_PROMPT_UNIFIED as SYSTEM_PROMPT_UNIFIED
from .teacher.functions import compute_reward as compute_reward
from .teacher.functions import extract_function_from_code as extract_function_from_code
from .teacher.functions import extract_thinking_and_code_unified as extract_thinking_and_code_unified
from .teacher.functions import get_unified_prompt as get_unified_prompt
from .train.config import GRPOTrainingConfig as GRPOTrainingConfig
from .train.config import load_config as load_config
from .train.data.sft_batch import prepare_teacher_sft_batch as prepare_teacher_sft_batch
from .train.data.trl_datasets import load_grpo_dataset as load_grpo_dataset
from .train.run import train_grpo as train_grpo

__version__: str
