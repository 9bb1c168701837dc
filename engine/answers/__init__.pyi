from .verdict import Verdict as Verdict
from .verify import check_ground_truth as check_ground_truth
from .verify import verify_answer as verify_answer
