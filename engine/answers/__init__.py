"""Answer checking: reading a final answer, and comparing it with the ground truth."""

from engine.answers.verdict import Verdict
from engine.answers.verify import check_ground_truth, verify_answer

__all__ = ["Verdict", "check_ground_truth", "verify_answer"]
