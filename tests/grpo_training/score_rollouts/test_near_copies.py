"""What rows are paid that have near copies in their group."""

import pytest

from engine.abilities import ScoresForeignRows
from engine.records import Outcome
from grpo_training.score_rollouts.rollout_rows import Survey
from grpo_training.score_rollouts.scored_rows import Scores
from grpo_training.score_rollouts.settings import ScoreSettings
from grpo_training.score_rollouts.verdict_file import VerdictEntry, VerdictFile
from grpo_training.score_rollouts.verdicts import StoredVerdict


class Factor(ScoresForeignRows):
    def __init__(self, factor):
        self.copy_factor = factor


def scores(folder, totals, hashes, group_of, factor):
    settings = ScoreSettings(prompts="p", rollouts="r", out="o")
    survey = Survey("", {("1", str(group)): group for group in set(group_of)}, list(group_of))
    verdicts = VerdictFile(folder / "work.jsonl")
    with verdicts.log.hold():
        for row, (total, copy_hash) in enumerate(zip(totals, hashes, strict=True)):
            outcome = Outcome.INFRA_FAULT if total is None else Outcome.OK
            verdict = StoredVerdict(outcome=outcome, total=total, copy_hash=copy_hash)
            verdicts.append([VerdictEntry(key=f"{row}", row=row, verdict=verdict)])
    return Scores.of(survey, verdicts, Factor(factor), settings)


def test_copies_count_within_their_group_only_and_share_the_factor(tmp_path):
    paid = scores(
        tmp_path,
        totals=[1.0, 0.8, 1.0, None, 0.5, 0.4],
        hashes=["a", "a", "b", "a", "", "a"],
        group_of=[0, 0, 0, 0, 0, 1],
        factor=lambda copies: 1 / copies,
    )
    assert paid.totals == [pytest.approx(1 / 3), pytest.approx(0.8 / 3), 1.0, None, 0.5, 0.4]
    assert paid.copies == [3, 3, 1, 3, 1, 1]


def test_a_group_of_equal_replies_has_equal_payments(tmp_path):
    paid = scores(tmp_path, [0.7] * 4, ["a"] * 4, [0] * 4, factor=lambda copies: 1 - 0.02 * (1 - 1 / copies))
    assert paid.totals == [pytest.approx(0.6895)] * 4
