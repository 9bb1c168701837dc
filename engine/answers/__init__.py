"""Answer checking: reading a final answer, and comparing it with the ground truth."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.answers.verify import Verdict as Verdict
    from engine.answers.verify import check_ground_truth as check_ground_truth
    from engine.answers.verify import verify_answer as verify_answer
else:
    from engine.public_names import public_names

    __getattr__, __all__ = public_names(__name__, {"engine.answers.verify": "Verdict check_ground_truth verify_answer"})
