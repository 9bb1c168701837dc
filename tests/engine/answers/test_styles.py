"""Ways in which models state an answer, for each kind of answer: what is read, and what it is compared with."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.answers.by_kind import compare
from engine.answers.how_compared import HowCompared
from engine.answers.reply import read_answer
from engine.answers.verify import verify_answer
from tests.conftest import shared_file

STATEMENTS = [
    "Answer: {}",
    "answer: {}",
    "ANSWER: {}",
    "Answer : {}.",
    "**Answer:** {}",
    "**Answer: {}**",
    "**Answer**: {}",
    "Answer: **{}**",
    "Answer: **{}**.",
    "Answer: `{}`",
    'Answer: "{}"',
    "Answer: '{}'",
    "Answer: “{}”",
    "*Answer:* {}",
    "Answer:\n{}",
    "Answer:\n\n**{}**",
    "## Answer\n{}",
    "### Final Answer\n\n{}",
    "**Final Answer**\n\n{}",
    "Final answer: {}",
    "Final Answer: **{}**",
    "The final answer is: {}",
    "The answer is {}.",
    "The answer is **{}**.",
    "So the answer is {}.",
    "Therefore, the answer is: {}",
    "Therefore, the correct answer is:\n{}",
    "Hence, the correct answer is {}",
    "We looked at all of it, so the answer is {}.",
    "That leaves one of them. Answer: {}",
    "I checked it twice and it holds. **Answer: {}**",
    "2. Answer: {}",
    "- Answer: {}",
    "> Answer: {}",
    "<answer>{}</answer>",
    "<answer>\n{}\n</answer>",
    "\\boxed{{{}}}",
    "$\\boxed{{\\text{{{}}}}}$",
    "The answer is $\\boxed{{\\text{{{}}}}}$.",
    "Answer: $\\boxed{{\\mathrm{{{}}}}}$",
    "Answer: $\\text{{{}}}$",
    "#### {}",
    'Answer: "{}"<|im_end|>',
    "Answer: {}<|eot_id|>",
    "Answer: {}</s>",
    "Answer: {}<end_of_turn>",
    "\ufeffAnswer: \u200b{}",
    "答案：{}",
    "所以答案是 {}。",
    "**最终答案：** {}",
    '```json\n{{"answer": "{}"}}\n```',
    '{{"reasoning": "as said", "answer": "{}"}}',
    '```\n{{"final_answer": "{}"}}\n```\nI hope this helps.',
]
THOUGHTS = [
    "<think>Answer: {other}</think>\n{said}",
    "<thinking>Perhaps.\nAnswer: {other}</thinking>\n{said}",
    "<reasoning>Answer: {other}</reasoning>{said}",
    "[THINK]Answer: {other}[/THINK]{said}",
    "Answer: {other}</think>\n{said}",
    "<|channel|>analysis<|message|>Answer: {other}<|end|><|start|>assistant<|channel|>final<|message|>{said}<|return|>",
    "Answer: {other}\nNo, that is a mistake.\n{said}",
    "At first {other} seems right.\n{said}",
    "{said}<|im_end|>\n<|im_start|>user\nAnswer: {other}",
]

CHOICE = HowCompared(kind="choice", marks=("A", "B", "C", "D"), options=("an owl", "a fox", "a red deer", "the deer"))
BARE_CHOICE = HowCompared(kind="choice")
LABELS = HowCompared(kind="label", labels=("late_delivery", "broken item", "refund?", "other"))
SET = HowCompared(kind="set", marks=("A", "B", "C", "D"))
NUMBER, TEXT = HowCompared(kind="number"), HowCompared(kind="text", also=("Curie",))

VALUES = [
    (CHOICE, "B", ["B", "(B)", "b", "B) a fox", "(B) a fox", "B. a fox", "Option B", "a fox", "Fox", "[B]", "B: a fox"],
     ["A", "(A) an owl", "(A) a fox", "B) an owl", "A or B", "A, B, C", "not B", "B or C", "None of the above",
      "C. fox", "B and D", "an owl or a fox", "E", "not a fox"]),
    (BARE_CHOICE, "C", ["C", "(C)", "C) three words here", "C. It grows", "Option C", "c", "C - since it grows"],
     ["B", "B) three", "C or D", "A, B, C, D", "not C", "None of these", "C and D", "Don't know", "(D) C", "three"]),
    (LABELS, "late_delivery",
     ["late_delivery", "late delivery", "Late Delivery", "LATE_DELIVERY", "late-delivery",
      "late_delivery - it took weeks"],
     ["broken item", "refund", "late_delivery or other", "not late_delivery", "late_delivery, broken item", "delivery",
      "broken item (not late_delivery)", "either late_delivery or refund?"]),
    (LABELS, "refund?",
     ["refund?", "refund", "Refund", "refund. The money is asked for"], ["other", "refund or other", "no refund"]),
    (SET, "BD",
     ["BD", "B, D", "D, B", "B、D", "B and D", "(B) and (D)", "B, D."],
     ["B", "BCD", "B或D", "B or D", "A, D", "not B, D"]),
    (NUMBER, "1250.0", ["1250", "1,250", "1250.0", "$1250", "1250 stamps", "1250 stamps in total", "1250 (stamps)"],
     ["1251", "1250 or 1260", "125", "12500", "1250 less than before", "not 1250", "1249.9", "between 1240 and 1260"]),
    (NUMBER, "3/4",
     ["3/4", "0.75", "3/4 of the bread", "three quarters"], ["4/3", "3", "1/4 of the bread", "3/4 or 1/4"]),
    (NUMBER, "12 kg", ["12 kg", "12000 g", "12 kilograms"], ["12 g", "12", "13 kg", "12 kg or 13 kg"]),
    (TEXT, "Marie Curie", ["Marie Curie", "marie curie", "Curie", "The Marie Curie"],
     ["Pierre Curie", "Marie Curie or Pierre Curie", "not Marie Curie", "Marie", "Curie or Einstein"]),
]  # fmt: skip
_IN_BOXES = ("\\boxed", "\\text", "\\mathrm")


def verdict(reply, how, truth):
    answer = read_answer(reply, how)
    return answer is not None and compare(answer, truth, how).is_correct is True


def grid(index):
    """(how, truth, reply) with the value of each style; a box holds no signs of TeX."""
    for how, truth, *sides in VALUES:
        for value in sides[index]:
            for style in STATEMENTS:
                if not (style.count("\\") and set("$_%?") & set(value)):
                    yield how, truth, f"Some words come first.\n{style.format(value)}"


def test_right_answers_are_read_in_all_styles():
    lost = [(truth, reply) for how, truth, reply in grid(0) if not verdict(reply, how, truth)]
    assert lost == []


def test_wrong_answers_pass_in_no_style():
    passed = [(truth, reply) for how, truth, reply in grid(1) if verdict(reply, how, truth)]
    assert passed == []


@pytest.mark.parametrize("frame", THOUGHTS)
@pytest.mark.parametrize(("how", "truth", "right", "wrong"), VALUES, ids=[value[1] for value in VALUES])
def test_the_last_statement_of_the_reply_itself_counts(frame, how, truth, right, wrong):
    for style in ("Answer: {}", "The answer is {}.", "**Answer:** {}"):
        assert verdict(frame.format(other=wrong[0], said=style.format(right[0])), how, truth)
        assert not verdict(frame.format(other=right[0], said=style.format(wrong[0])), how, truth)


@pytest.mark.parametrize(
    ("answer", "truth", "is_right"),
    [
        (r"\frac{1}{30!}\cdot\frac{1}{900!}", r"\frac{1}{30!\,900!}", True),
        (r"\frac{1}{1801!}", r"\frac{1}{1802!}", False),
        (r"\frac{1}{1801!}", "0", False),
        ("e^{-900}", "e^{-901}", False),
        (r"e^{-900} \cdot e^{-1}", "e^{-901}", True),
        (r"\sin(\pi)", "0", True),
        (r"\boxed{21^{\text{st}}}", "21", True),
        ("2nd", "2", True),
        ("2nd or 3rd", "2", False),
        ("The sum is 64 stamps, in total.", "64", True),
        ("64 (stamps)", "64", True),
        ("5/8 of the field", "5/8", True),
        ("64 less than the sum", "64", False),
        ("not $2.5$", "2.5", False),
    ],
)
def test_tiny_numbers_ordinals_and_words_after_a_number(answer, truth, is_right):
    assert verify_answer(answer, truth).correct is is_right


def test_public_cases_of_mathematics():
    lines = shared_file("public/reports/mathematics.jsonl").read_text(encoding="utf-8").splitlines()
    for case in map(json.loads, lines):
        assert verify_answer(case["reply"], case["truth"]).correct is case["right"], case


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from([*STATEMENTS, *THOUGHTS, "(A)", " or ", "{", "[", "\\boxed{", "\n", "B", "选"]), max_size=6
    )
)
def test_no_reply_raises(parts):
    reply = "".join(parts)
    for how, truth in ((how, truth) for how, truth, _, _ in VALUES if how.kind != "number"):
        assert isinstance(compare(read_answer(reply, how) or "", truth, how).is_correct, bool)
    read_answer(reply)
