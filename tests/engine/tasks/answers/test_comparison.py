"""Answers of any kind: what is equal, what is not, and answers that hedge."""

import json

import pytest

from engine.answers.by_kind import compare
from engine.answers.how_compared import HowCompared
from engine.answers.reply import read_answer
from engine.errors import InputError
from engine.own_data.answer_kind import described, how_compared
from engine.own_data.describe import describe
from engine.records import Completion, Outcome, Problem
from engine.reward_evaluator import RewardEvaluator
from engine.tasks.registry import task_named
from tests.support.table import table


@table(
    ("kind", "truth", "text", "leaks"),
    [
        ("date", "2024-07-22", "Expect July 22nd, 2024 here.", True),
        ("date", "2024-07-22", "Expect 22 July 2024 here.", True),
        ("date", "2024-07-22", "Write 2024-07-22 first.", True),
        ("date", "2024-07-22", "Since 7/22/2024 it is so.", True),
        ("date", "2024-07-22", "In July 2024 the week begins on Monday, 22 days count.", False),
        ("date", "2024-07-22", "Count from 21 July 2024 on.", False),
        ("date", "soon", "Read 99/99/9999 as no date.", False),
        ("text", "New York|NYC", "The answer is NYC.", True),
        ("text", "New York|NYC", "Think of New York.", True),
        ("text", "New York|NYC", "A new city is not York.", False),
        ("label", "billing", "The answer is billing for invoices.", False),
    ],
)
def test_an_experience_must_not_give_an_answer_away(kind, truth, text, leaks):
    answer = HowCompared(kind=kind, labels=("billing", "other") if kind == "label" else ())
    problem = Problem(id="p", text="?", answer=json.dumps({"truth": truth, **answer.model_dump()}), task="answers")
    assert task_named("answers").leaks_answer(text, problem) is leaks


LABELS = HowCompared(kind="label", labels=("billing", "shipping", "other"))

RIGHT = [
    ("label", "Billing.", "billing"),
    ("label", '"billing"', "billing"),
    ("label", "**Billing**", "billing"),
    ("label", " BILLING ", "billing"),
    ("text", "The  Hague", "the hague"),
    ("text", "NYC", "New York|NYC|New York City"),
    ("text", "Größe", "GRÖSSE"),
    ("text", "3–5", "3-5"),
    ("text", "3.5", "3.5"),
    ("number", "1,200 kg", "1200 kg"),
    ("number", "1.2 t", "1200 kg"),
    ("number", "42", "42"),
    ("contains", "The invoice is number A-17.", "A-17"),
    ("list", "red, green, blue", '["red", "green", "blue"]'),
    ("list", "1. red\n2. green", "red, green"),
    ("set", "b; a", "a, b"),
    ("set", "北京、上海", "上海，北京"),
    ("set", '["B", "a"]', "a, b"),
    ("json", '{"name": "Ann", "age": 3.0}', '{"age": 3, "name": "ann"}'),
    ("json", '{"a": {"b": [1, "X"]}}', '{"a": {"b": [1.0, "x"]}}'),
    ("date", "4 March 2026", "2026-03-04"),
    ("date", "03/04/2026", "2026-03-04"),
    ("date", "March 4th, 2026", "2026-03-04"),
    ("number", "twelve", "12"),
    ("number", "两百", "200"),
    ("date", "２０２６年０３月０４日", "2026年3月4日"),
    ("date", "2026-03-04", "2026年3月4日"),
    ("label", "(B)", "B"),
    ("label", "（对）", "对"),
    ("text", "「北京」。", "北京"),
    ("text", "80 元", "80元"),
    ("text", "红，绿", "红、绿"),
    ("set", "AC", "A、C"),
    ("set", "**C, A**", "A、C"),
    ("set", "a和c", "AC"),
    ("set", "红；绿", "绿、红"),
    ("number", "３ 小时", "3小时"),
    ("number", "180分钟", "3小时"),
    ("number", "3个小时", "3小时"),
    ("number", "3小时20分钟", "200分钟"),
    ("number", "60 km/h", "60千米/时"),
    ("number", "60千米每小时", "60千米/时"),
    ("number", "9.8米/秒²", "9.8 m/s^2"),
    ("number", "40㎡", "40平方米"),
    ("number", "15公斤", "15千克"),
    ("number", "80元。", "80元"),
    ("number", "18人", "１８ 人"),
]

WRONG = [
    ("label", "billing or shipping", "billing"),
    ("label", "billing, shipping, other", "billing"),
    ("label", "not billing", "billing"),
    ("label", "billing (or shipping)", "billing"),
    ("label", "", "billing"),
    ("label", "billings", "billing"),
    ("text", "Paris or London", "Paris"),
    ("text", "Paris|London", "Paris"),
    ("text", "x" * 5000, "x"),
    ("number", "42 or 43", "42"),
    ("number", "12 kg", "12 g"),
    ("number", "12", "12 kg"),
    ("contains", "It is not A-17", "A-17"),
    ("contains", "它不是 A-17", "A-17"),
    ("contains", "A-16, A-17, A-18, " * 20, "A-17"),
    ("contains", "A-170", "A-17"),
    ("list", "green, red", "red, green"),
    ("list", "red, green, blue", "red, green"),
    ("set", "a, a, b", "a, b"),
    ("json", '{"a": 1, "a": 2}', '{"a": 2}'),
    ("json", '{"a": true}', '{"a": 1}'),
    ("json", '{"a": NaN}', '{"a": 1}'),
    ("json", "[1]", '{"a": 1}'),
    ("date", "March 2026", "2026-03-01"),
    ("number", "twelve or thirteen", "12"),
    ("date", "2026-03-05", "2026-03-04"),
    ("date", "tomorrow", "2026-03-04"),
    ("date", "9" * 39, "2026-03-04"),
    ("date", "2026年4月3日", "2026年3月4日"),
    ("label", "不对", "对"),
    ("label", "(B) or (C)", "B"),
    ("text", "(0, 1)", "[0, 1]"),
    ("text", "(0, 1)", "0, 1"),
    ("set", "A", "A、C"),
    ("set", "A、C、D", "A、C"),
    ("set", "AAC", "A、C"),
    ("number", "3天", "3小时"),
    ("number", "3", "3小时"),
    ("number", "40米", "40平方米"),
    ("number", "18瓶", "18人"),
    ("number", "9.8米/秒", "9.8米/秒2"),
    ("number", "3小时或4小时", "3小时"),
]


@table(("kind", "answer", "truth"), RIGHT)
def test_equal_answers(kind, answer, truth):
    assert compare(answer, truth, HowCompared(kind=kind)).is_correct is True


@table(("kind", "answer", "truth"), WRONG)
def test_different_and_hedged_answers(kind, answer, truth):
    assert compare(answer, truth, HowCompared(kind=kind)).is_correct is False


def test_the_share_of_right_fields_of_a_json_object():
    comparison = compare(
        '{"name": "Ann", "age": 4, "more": 1}', '{"name": "ann", "age": 3, "city": "X"}', HowCompared(kind="json")
    )
    assert comparison.fields == pytest.approx(1 / 3)
    assert comparison.why == "wrong or missing: age, city; not asked for: more"
    assert compare("no json", '{"a": 1}', HowCompared(kind="json")).fields == 0


def test_the_day_comes_first_where_the_dataset_says_so():
    how = how_compared(["31/12/2026", "01/02/2026", "05/06/2026"])
    assert (how.kind, how.day_first) == ("date", True)
    assert compare("2026-02-01", "01/02/2026", how).is_correct
    assert not compare("2026-01-02", "01/02/2026", how).is_correct


@table(
    ("answer", "truth", "is_correct"),
    [
        ("98", "100", True),
        ("102", "100", True),
        ("97.9", "100", False),
        ("-100", "100", False),
        ("1.01 t", "1000 kg", True),
        ("1.03 t", "1000 kg", False),
        ("1010", "1000 kg", False),
        ("100 or 150", "100", False),
        ("95, 100", "100", False),
        ("99 to 101", "100", False),
        ("100 ± 50", "100", False),
        ("0", "0", True),
        ("0.001", "0", False),
        ("1e400", "100", False),
        ("about 100", "100", True),
    ],
)
def test_a_tolerance_in_percent_of_the_truth(answer, truth, is_correct):
    assert compare(answer, truth, how_compared([truth], "number:2%")).is_correct is is_correct


def test_a_row_can_have_its_own_tolerance():
    row = {"question": "How far?", "answer": 100, "compare": "number:10%"}
    problem = task_named("answers").problem_from_row(row, "row 1")
    candidates = [task_named("answers").parse(Completion(text=f"Answer: {value}"), problem) for value in (91, 89)]
    scored = [RewardEvaluator().score(task_named("answers"), problem, candidate) for candidate in candidates]
    assert [score.is_correct for score in scored] == [True, False]


@table("kind", ["number:", "number:2", "number:0%", "number:60%", "number:-1%", "label:2%", "number:nan%"])
def test_a_tolerance_that_is_none_is_refused(kind):
    with pytest.raises(InputError, match="is no tolerance") as raised:
        how_compared(["100"], kind)
    assert "number:2%" in raised.value.fix


@table(
    ("answers", "kind"),
    [
        (["billing", "shipping", "billing", "Billing", "other", "other"], "label"),
        (["12 kg", "3.5 kg", "7 g"], "number"),
        (["12", "7"], "number"),
        (["三分之一", "3小时", "12人"], "number"),
        (["2026年3月4日", "2026年12月1日"], "date"),
        (["12.05.2026", "31.12.2025"], "date"),
        (["2026-03-04", "5 March 2026"], "date"),
        (['{"a": 1}', '{"a": 2}'], "json"),
        (["[1, 2]", "[3]"], "list"),
        (["Paris", "London", "Rome"], "text"),
        (["New York|NYC", "Paris", "New York|NYC", "Paris"], "text"),
        (["a", "a", "a", "a"], "text"),
        (["3小时", "０．７５", "80元", "60千米/时"], "number"),
        (["B", "A、C", "ACD"], "set"),
        (["BDAC", "ABCD", "CADB"], "text"),
        (["bad", "be"], "text"),
        (["B", "C", "B", "A", "A", "C"], "label"),
        (["√", "×", "√", "×"], "label"),
    ],
)
def test_how_answers_are_compared_is_found_out(answers, kind):
    assert how_compared(answers).kind == kind


@table(
    ("reply", "answer"),
    [
        ("It is about money.\nAnswer: billing", "billing"),
        ("Answer: shipping\nNo, wait.\n**Answer:** billing", "billing"),
        ("thinking Answer: x\n\nThe final answer is: billing", "billing"),
        ("<think>Answer: x</think>\nAnswer: billing", "billing"),
        ("so <answer>billing</answer>", "billing"),
        ("Answer: shipping\n<answer>billing</answer>", "billing"),
        (r"thus \boxed{\text{billing}}", r"\text{billing}"),
        ("billing", "billing"),
        ("答案：billing", "billing"),
        ("因此\n**最终答案：** billing", "billing"),
        ("因此\n所以答案是billing", "billing"),
        ("Answer: billing\n答案是否正确？", "billing"),
        ("So.\n### Final Answer\n\nbilling", "billing"),
        ("Answer: billing\nAnother answer: shipping", "billing"),
        ("Answer: billing\n\n## Answer check\nIt fits.", "billing"),
        ("Answer: billing\n**Answer**", "billing"),
        ("先算。\n最终答案是：billing", "billing"),
        ("It could be billing.\nOr shipping.", None),
        ("", None),
        ("Answer:", None),
    ],
)
def test_the_answer_of_a_reply_is_the_last_marked_one(reply, answer):
    assert read_answer(reply, HowCompared(kind="label")) == answer


def test_json_is_read_from_a_fence_after_the_mark_or_from_the_text():
    for reply in ('Answer:\n```json\n{"a": 1}\n```', 'Answer: {"a": 1}', 'Here it is: {"a": 1} done', '{"a": 1}'):
        assert read_answer(reply, HowCompared(kind="json")) == '{"a": 1}'


def test_a_rubric_is_measured_by_a_judge_and_without_one_nothing_is_scored():
    task = task_named("answers")
    rows = [{"mail": f"Mail {n}", "rubric": "It is polite."} for n in range(3)]
    description = describe(rows, where="mails")
    assert described(description.how) == "judged by the rubric of each row"
    problem = task.described_problem(*description.plain_row(rows[1], "here"), "here")
    assert task.rubric(problem) == "It is polite."
    evaluator, reply = RewardEvaluator(), task.parse(Completion(text="Answer: Thank you,\nbye"), problem)
    assert reply.content == "Thank you,\nbye"
    right, wrong, unjudged = (evaluator.score(task, problem, reply, opinion=opinion) for opinion in (0.75, 0.25, None))
    assert (right.is_correct, right.rewards.r_total) == (True, 0.75)
    assert (wrong.is_correct, wrong.rewards.r_total) == (False, 0.25)
    assert (unjudged.outcome, unjudged.rewards.r_total) == (Outcome.INFRA_FAULT, None)
    empty = evaluator.score(task, problem, task.parse(Completion(text=""), problem))
    assert (empty.is_correct, empty.rewards.r_total) == (False, 0.0)
    row = {"mail": "Mail 7", "answer": "x", "rubric": "It is polite.", "compare": "text"}
    with_answer = task.problem_from_row(row, "here")
    assert task.rubric(with_answer) is None


def test_temperatures_and_a_minus_sign_are_numbers():
    assert how_compared(["−3.5 °C", "12 °C", "€5", "30°"]).kind == "number"


def test_numbers_and_formulas_are_mathematics():
    for texts in (("3,14", "x^2"), ("3.14", "1,024")):
        assert describe([{"problem": "?", "answer": text} for text in texts], where="").is_mathematics


@table(
    ("truths", "answer"),
    [
        (["5 kg m/s", "3 N s"], "5 kg·m/s"),
        (["3.2·10^4", "1.5·10^3"], "32000"),
        (["3.2 * 10^4 m", "2 m"], "32 kilometers"),
        (["3.2·10^4 kg m/s", "2 N s"], "3.2e4 N s"),
        (["2小时30分钟", "5小时"], "150分钟"),
        (["3/4 cup", "1 cup"], "0.75 cups"),
    ],
)
def test_numbers_with_units_of_several_words_are_numbers(truths, answer):
    how = how_compared(truths)
    assert how.kind == "number"
    assert compare(answer, truths[0], how).is_correct
    assert not compare(answer, truths[1], how).is_correct


@table("answers", [["是", "否"], ["北京", "上海"], ["3-5", "10-12"]])
def test_chinese_words_and_ranges_are_no_formulas(answers):
    assert not describe([{"problem": "?", "answer": answer} for answer in answers], where="").is_mathematics


@table("answer", ["CO₂", "co2", "CO2."])
def test_formulas_of_substances_are_texts(answer):
    how = how_compared(["CO2", "NO", "H2O"])
    assert how.kind == "text"
    assert compare(answer, "CO2", how).is_correct


@table("answer", ["twelve", "a dozen", "12 pieces"])
def test_a_number_may_be_in_words(answer):
    assert compare(answer, "12", HowCompared(kind="number")).is_correct


@table("truth", ["R$ 5", "¥5", "US$ 5", "₹500"])
def test_sums_of_money_are_numbers(truth):
    assert how_compared([truth]).kind == "number"
