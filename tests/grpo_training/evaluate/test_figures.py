"""The figures of an evaluation, worked out by hand."""

import math

import pytest

from grpo_training.evaluate.arms import ProblemResult
from grpo_training.evaluate.figures import differences, figures, figures_json
from grpo_training.evaluate.tables import pass_at_k_lines


def result(name, text):
    """``+`` is right, ``-`` wrong, ``?`` open."""
    verdicts = tuple({"+": True, "-": False, "?": None}[sign] for sign in text)
    return ProblemResult(name, verdicts, {"ok": len(text)}, completions=len(text))


def test_figures_by_hand():
    """pass@1: 1/4, 3/4, 1, mean 2/3; pass@2: 1 - 3/6 = 1/2, 1, 1, mean 5/6. Halves: even 1, 1, 2 of 2; odd 0, 2, 2."""
    results = [
        result("a", "+---"),
        result("b", "++-+"),
        result("c", "++++"),
        result("d", "++?+"),
    ]
    computed = figures(results, [2, 1, 5])
    assert {k: estimate.value for k, estimate in computed.pass_at_k.items()} == {
        1: pytest.approx(2 / 3),
        2: pytest.approx(5 / 6),
    }
    assert computed.mean_at_n == computed.pass_at_k[1]
    assert (computed.problems, computed.samples, computed.left_out) == (3, 4, ("d",))
    spread = math.sqrt(((1 / 4 - 2 / 3) ** 2 + (3 / 4 - 2 / 3) ** 2 + (1 / 3) ** 2) / 2 / 3)
    assert computed.mean_at_n.standard_error == pytest.approx(spread)
    assert computed.again.value == pytest.approx(4 / 6 - 4 / 6)
    assert computed.cost_usd is None


def test_difference_to_the_base_is_paired_over_common_problems():
    """Of a and b: after 1 and 1/2, before 1/2 and 0: +50 points for both, so the interval is a point."""
    after = [result("a", "++"), result("b", "+-"), result("c", "++")]
    before = [result("a", "+-"), result("b", "--"), result("c", "?-"), result("e", "++")]
    computed = differences(after, before, [2, 3])
    assert computed.keys() == {1, 2}
    assert (computed[1].value, computed[1].low, computed[1].clusters) == (0.5, 0.5, 2)
    assert computed[2].value == pytest.approx(0.5)  # 1 - 1 and 1 - 0


def test_pass_at_k_as_text():
    computed = figures([result("a", "+-" * 5), result("b", "-" * 10)], [1, 10, 100])
    assert pass_at_k_lines(computed) == [
        "=" * 50,
        "Pass@k Results:",
        "=" * 50,
        "pass@  1: 0.2500 (25.00%)",
        "pass@ 10: 0.5000 (50.00%)",
        "=" * 50,
    ]


def test_no_complete_problem_has_no_figure():
    computed = figures([result("a", "?")])
    assert (computed.pass_at_k, computed.mean_at_n, computed.again, computed.left_out) == ({}, None, None, ("a",))
    assert figures_json(computed)["pass_at_k"] == {}
    assert figures([]).truncated is None
