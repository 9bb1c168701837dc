"""What a dataset is, from its rows: columns, forms of right answers, their comparison, and what is said of them."""

import itertools
import json

import pytest

from engine.answers.by_kind import compare
from engine.answers.how_compared import HowCompared
from engine.datasets import load_dataset
from engine.errors import EmptyRowError, InputError
from engine.own_data.describe import describe
from engine.tasks.answers.task import truth_of
from engine.tasks.registry import task_named
from tests.support.table import table

FRUITS = ["pear", "stone", "river"]
N = range(12)


def described(rows, **arguments):
    return describe(rows, where="rows", **arguments)


def rows_of(**columns):
    """Twelve rows; a column is a value, or a function of the number of the row."""
    return [{name: value(n) if callable(value) else value for name, value in columns.items()} for n in N]


def question(n):
    return f"Which one can be eaten, number {n}?"


def plain(rows, index=1, **arguments):
    row, how = described(rows, **arguments).plain_row(rows[index], "row")
    return row["problem"], row["answer"], how


def letter(n):
    return "ABC"[n % 3]


CHOICES = {
    "columns of one letter": rows_of(question=question, A="pear", B="stone", C="river", answer=letter),
    "columns with a number": rows_of(
        question=question, choice0="pear", choice1="stone", choice2="river", label=lambda n: n % 3
    ),
    "endings and an index": rows_of(ctx=question, endings=FRUITS, label=lambda n: n % 3),
    "a list, from 1": rows_of(question=question, choices=FRUITS, answer=lambda n: n % 3 + 1),
    "an index as text": rows_of(query=question, choices=FRUITS, gold=lambda n: str(n % 3)),
    "the text of the option": rows_of(question=question, options=FRUITS, correct_answer=lambda n: FRUITS[n % 3]),
    "a list that a text writes": rows_of(  # MuSR, MMMU
        question=question, choices="['pear', 'stone', 'river']", answer_index=lambda n: n % 3
    ),
    "an object that a text writes": rows_of(
        question=question, options='{"A": "pear", "B": "stone", "C": "river"}', answer=letter
    ),
    "marks in the options": rows_of(question=question, options=["A) pear", "B) stone", "C) river"], correct=letter),
    "marks in brackets": rows_of(
        question=question, options=["(A)pear", "(B)stone", "(C)river"], label=lambda n: f"({letter(n)})"
    ),
    "an object by mark": rows_of(
        question=question, options={"A": "pear", "B": "stone", "C": "river"}, answer_idx=letter
    ),
    "an object with nulls": rows_of(
        question=question, options={"A": "pear", "B": "stone", "C": "river", "D": None}, answer=letter
    ),
    "texts and marks": rows_of(question=question, choices={"text": FRUITS, "label": ["A", "B", "C"]}, answerKey=letter),
    "objects in a list": rows_of(
        question={"stem": "Eat?"},
        choices=[{"label": m, "text": t} for m, t in zip("ABC", FRUITS, strict=True)],
        answerKey=letter,
    ),
    "an explanation as another answer": rows_of(
        question=question,
        choices=FRUITS,
        answer=lambda n: f"It is {n} that one eats, as all know.",
        label=lambda n: n % 3,
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_options_are_shown_and_their_marks_are_the_answers(name):
    rows = CHOICES[name]
    for index in (0, 1, 2):
        text, answer, how = plain(rows, index)
        assert (how.kind, answer, how.options) == ("choice", letter(index), ("pear", "stone", "river"))
        assert text.endswith("(A) pear\n(B) stone\n(C) river")


OF_PUBLIC_DATA = {
    "MuSR": ({"narrative": "Mack died.", "question": question, "answer_choice": letter}, "Mack died.\n\n{}"),
    "ZebraLogic": ({"puzzle": "Two houses.", "question": question, "answer": letter}, "Two houses.\n\n{}"),
    "ROPES": (
        {"background": "Wood floats.", "situation": "Ann drops it.", "question": question, "answers": letter},
        "Wood floats.\n\nAnn drops it.\n\n{}",
    ),
    "ProofWriter": ({"theory": "Anne is quiet.", "question": question, "answer": letter}, "Anne is quiet.\n\n{}"),
    "ScienceQA": ({"question": question, "answer": letter, "hint": "It is hot."}, "It is hot.\n\n{}"),
    "VitaminC": ({"claim": question, "evidence": "It sold.", "label": letter}, "evidence: It sold.\nclaim: {}"),
    "TabFact": ({"table_text": "a#b", "statement": question, "label": letter}, "table_text: a#b\nstatement: {}"),
    "aspects": ({"text": question, "aspect": "food", "sentiment": letter}, "aspect: food\ntext: {}"),
    "MASSIVE": ({"scenario": "alarm", "utt": question, "intent": letter}, "{}"),
    "WiC": (
        {"word": "bank", "sentence1": question, "sentence2": "b", "label": letter},
        "word: bank\nsentence1: {}\nsentence2: b",
    ),
    "WSC": (
        {"text": question, "span1_text": "Ann", "span2_text": "she", "span1_index": 0, "label": letter},
        "span1_text: Ann\nspan2_text: she\ntext: {}",
    ),
    "JudgeBench": (
        {"question": question, "response_A": "a", "response_B": "b", "label": letter},
        "response_A: a\nresponse_B: b\nquestion: {}",
    ),
    "stance": ({"Target": "taxes", "Tweet": question, "Stance": letter}, "{}"),
}
"""Columns of public data sets -> the question with what it is about."""


@table("name", [*OF_PUBLIC_DATA])
def test_a_question_has_what_it_is_about(name):
    columns, asked = OF_PUBLIC_DATA[name]
    text, answer, _ = plain(rows_of(**columns))
    assert (text, answer) == (asked.format(question(1)), "B")


def test_functions_that_may_be_called_are_shown_and_calls_are_lists_of_objects():
    rows = rows_of(
        query=question,
        tools='[{"name": "weather"}]',
        answers=lambda n: json.dumps([{"name": "weather", "arguments": {"day": n}}]),
    )
    text, truth, how = plain(rows)
    assert text.startswith('[{"name": "weather"}]\n\n')
    assert (how.kind, how.keys) == ("list", ("name", "arguments"))
    call = '{"arguments": {"day": %d}, "name": "weather"}'
    assert compare(f"[{call % 1}]", truth, how).is_correct
    assert compare(call % 1, truth, how).is_correct
    for wrong in (call % 2, f"[{call % 1}, {call % 1}]", "[]", "{}", "weather"):
        assert not compare(wrong, truth, how).is_correct


def test_a_list_of_criteria_is_one_rubric():
    rubrics = [{"criterion": "Says to see a doctor", "points": 5}, {"criterion": "Is rude", "points": -3}]
    rows = rows_of(prompt=[{"role": "user", "content": "I have pain."}], rubrics=rubrics)
    text, answer, how = plain(rows)
    assert (text, json.loads(answer), how.kind, how.also) == ("I have pain.", rubrics, "rubric", ())


@table("none", ["proof", "notfound", '{"func_name": "validate_word_count", "N": 3}', '[{"instruction_id": ["x:y"]}]'])
def test_values_that_are_no_answers(none):
    rows = rows_of(problem=question, answer=lambda n: none if n % 4 == 0 else str(n), solution="So.")
    description = described(rows)
    assert description.how.kind == "number"
    with pytest.raises(EmptyRowError, match="field 'answer' has no answer that could be compared"):
        description.plain_row(rows[0], "")


@pytest.mark.parametrize("columns", [{"nums": [1, 2], "target": 3}, {"train": [{"input": 1}], "test": [{"input": 2}]}])
def test_what_is_no_text_is_no_question(columns):
    with pytest.raises(InputError, match="not clear which column is the question"):
        described(rows_of(**columns))


def test_the_best_wrong_answer_is_the_other_option():
    rows = rows_of(question=question, best_answer=letter, best_incorrect_answer="w", incorrect_answers="w; v")
    assert described(rows).columns.options == ("best_answer", "best_incorrect_answer")


def test_a_word_may_be_the_question_or_the_answer():
    assert described(rows_of(word=question, label=letter)).columns_line() == "question = word, answer = label"
    pair = described(rows_of(sentence1=question, sentence2="b", word=letter))
    assert pair.columns_line() == "question = sentence1: {sentence1} sentence2: {sentence2}, answer = word"


def test_an_aspect_alone_is_the_answer():
    assert described(rows_of(text=question, aspect=letter)).columns_line() == "question = text, answer = aspect"


def test_the_columns_of_a_chat_are_named():
    rows = rows_of(prompt=lambda n: [{"role": "user", "content": f"{n}?"}], reward_model=lambda n: {"ground_truth": n})
    assert described(rows).columns_line() == "question = prompt, answer = reward_model.ground_truth"


def test_marks_that_are_digits_stay_digits():
    rows = rows_of(
        question=question, choices={"text": FRUITS, "label": ["1", "2", "3"]}, answerKey=lambda n: str(n % 3 + 1)
    )
    text, answer, how = plain(rows)
    assert (answer, how.marks) == ("2", ("1", "2", "3"))
    assert "(2) stone" in text


@table(
    "listed",
    [
        "{}\nOptions:\n(A) pear\n(B) stone\n(C) river",
        "{} (A) pear (B) stone (C) river",
        "{}\nA. pear\nB. stone\nC. river",
        "{}\nA) pear\nB) stone\nC) river",
        "{} Answer Choices: (A) pear (B) stone (C) river",
    ],
)
def test_options_in_the_question_are_read_and_not_shown_twice(listed):
    for mark in (letter, lambda n: f"({letter(n)})"):
        rows = rows_of(input=lambda n: listed.format(question(n)), target=mark)
        text, answer, how = plain(rows)
        assert (text, answer, how.kind, how.options) == (rows[1]["input"], "B", "choice", ("pear", "stone", "river"))


def test_options_whose_right_one_is_always_first_are_put_in_another_order():
    scores = {"pear": 1, "stone": 0, "river": 0}
    wrong = rows_of(
        question=question, correct_answer="pear", distractor1="stone", distractor2="river", support="Pears grow."
    )
    for rows in (rows_of(input=question, target_scores=scores), wrong):
        description = described(rows)
        read = [description.plain_row(row, "") for row in rows]
        assert {how.options[how.marks.index(row["answer"])] for row, how in read} == {"pear"}
        assert len({row["answer"] for row, _ in read}) > 1
    assert read[0][0]["problem"].startswith("Pears grow.\n\nWhich")


CONTEXTS = {
    "Pears grow.\n\nEat?": [
        rows_of(passage="Pears grow.", question="Eat?", answer=lambda n: f"so {n}"),
        rows_of(context=["Pears grow."], question="Eat?", answers=lambda n: {"text": [f"so {n}"], "answer_start": [3]}),
        rows_of(Body="Pears grow.", Question="Eat?", Answer=lambda n: f"so {n}"),
        rows_of(question="Eat?", paragraphs={"text": "Pears grow."}, answer=lambda n: f"so {n}"),
        rows_of(instruction="Pears grow.", input="Eat?", output=lambda n: f"so {n}"),
        rows_of(title="Pears grow.", description="Eat?", label=lambda n: ("yes", "maybe")[n % 2]),
    ],
    "premise: Pears grow.\nhypothesis: They eat.": [
        rows_of(premise="Pears grow.", hypothesis="They eat.", label=lambda n: ("yes", "maybe")[n % 2])
    ],
    "sentence1: Pears grow.\nsentence2: They eat.": [
        rows_of(sentence1="Pears grow.", sentence2="They eat.", gold_label=lambda n: ("yes", "maybe")[n % 2])
    ],
    "name | weight\npear | 3\n\nHow heavy?": [
        rows_of(table=[["name", "weight"], ["pear", 3]], question="How heavy?", answer=lambda n: f"so {n}")
    ],
}


@pytest.mark.parametrize(("text", "rows"), [(text, rows) for text, forms in CONTEXTS.items() for rows in forms])
def test_everything_that_the_question_needs_is_in_the_prompt(text, rows):
    assert plain(rows)[0] == text


def test_an_instruction_whose_input_is_empty_in_some_rows_stands_alone():
    rows = rows_of(instruction="Name it.", input=lambda n: f"It is {n}." if n else "", output=lambda n: f"so {n}")
    assert [plain(rows, index)[0] for index in (0, 1)] == ["Name it.", "Name it.\n\nIt is 1."]


def test_what_is_used_and_what_is_not_is_said():
    rows = rows_of(id=str, Category="Health", Question=question, **{"Best Answer": lambda n: f"so {n}", "Source": "x"})
    (columns, read, *_) = described(rows).lines(len(rows), "answers, compared as texts", is_chosen=True)
    assert columns == "Columns: question = Question, answer = Best Answer; not used: Category, Source"
    assert "right answers: so 0, so 1, so 2" in read
    assert "--fields, --compare or --task changes this" in read


GOLD = {
    "after ####": (["Add.\n#### 3", "3 + 1 = 4 #### 4"], "4"),
    "after ####, and stated (MetaMathQA)": (["Add.\n#### 3\nThe answer is: 3", "4 #### 4\nThe answer is: 4"], "4"),
    "stated (MathInstruct)": (["It is 1+2=3. The answer is 3", "The answer is 4.5."], "4.5"),
    "stated, in a box or not": (["The answer is 3", r"The answer is $\boxed{4}$."], "4"),
    "in a box": ([r"So $\boxed{3}$.", r"First \boxed{2}, then \boxed{\frac{1}{4}}."], r"\frac{1}{4}"),
    "a float without a fraction": ([926.0, 1926.0], "1926"),
    "a float with a fraction": ([926.5, 1926.25], "1926.25"),
    "a list of one": ([["D"], ["A"]], "A"),
    "an object with aliases": ([{"value": "x", "aliases": ["x", "y"]}, {"value": "U S", "aliases": ["US"]}], "U S"),
    "a list of objects with texts": ([[{"text": "x", "answer_start": 1}], [{"text": "z", "answer_start": 2}]], "z"),
}


@pytest.mark.parametrize("name", GOLD)
def test_right_answers_are_read_from_their_form(name):
    values, truth = GOLD[name]
    rows = [{"question": question(n), "answer": values[n % 2]} for n in N]
    assert plain(rows)[1] == truth


def test_several_right_answers_and_lists_are_told_apart():
    aliases = [{"question": question(n), "answer": [f"Ann Lee{n}", f"A. Lee{n}"]} for n in N]
    assert plain(aliases)[2].also == ("A. Lee1",)
    in_a_table = [row | {"answer": str(row["answer"])} for row in aliases]  # as pandas writes lists
    assert plain(in_a_table)[1:] == plain(aliases)[1:]
    single = [{"question": question(n), "answer": f"['Lee {n}']"} for n in N]
    assert plain(single)[1] == "Lee 1"
    mixed = [{"question": question(n), "answer": [f"name {n}"] + ([f"other{n}"] if n % 3 == 0 else [])} for n in N]
    assert plain(mixed, 3)[2].also == ("other3",)
    topics = [{"question": question(n), "answer": [("network", "device")[n % 2], "house"]} for n in N]
    _, answer, how = plain(topics)
    assert (how.kind, json.loads(answer)) == ("list", ["device", "house"])
    letters = [{"question": f"{n}? (A) x (B) y (C) z", "answer": ["A"] if n % 2 else ["A", "C"]} for n in N]
    assert plain(letters, 2)[1:2] == ("A, C",)
    assert plain(letters, 2)[2].kind == "set"


@table(
    ("column", "values", "kind"),
    [
        ("is_duplicate", 2, "label"),  # Quora's pairs of questions
        ("stars", 5, "label"),  # reviews of Amazon and Yelp
        ("count", 12, "number"),
        ("answer", 2, "number"),
    ],
)
def test_few_whole_numbers_under_another_name_are_classes(column, values, kind):
    description = described([{"text": question(n), column: n % values} for n in range(40)])
    assert description.how.kind == kind
    assert ("a model cannot know" in " ".join(description.remarks)) is (kind == "label")


def test_class_ids_have_the_names_of_a_column_or_of_the_schema():
    rows = rows_of(text=question, label=lambda n: n % 2, label_text=lambda n: ("bad", "good")[n % 2])
    _, answer, how = plain(rows)
    assert (answer, how.kind, how.labels, how.ids) == ("good", "label", ("bad", "good"), ("0", "1"))
    bare = rows_of(text=question, label=lambda n: n % 2)
    assert plain(bare, class_names={"label": ("bad", "good")})[1] == "good"
    description = described(bare)
    assert description.how.labels == ("0", "1")
    assert "a model cannot know what they mean" in " ".join(description.remarks)


@pytest.mark.parametrize("name", ["intent_name", "topic_label", "sentimentLabel", "Category Name", "airline_sentiment"])
@pytest.mark.parametrize("asked", ["utterance", "review_body", "Tweet Text", "reviewText", "attributes.input.value"])
def test_texts_and_classes_have_names_of_several_words(asked, name):
    rows = rows_of(**{asked: question, "confidence": lambda n: n / 100, name: lambda n: ("bad", "good")[n % 2]})
    assert plain(rows)[1] == "good"


KINDS = {
    "label": [
        ["e", "n", "c"],
        ["US", "UK"],
        ["M", "F"],
        ["T", "F"],
        ["A1", "B2"],
        ["yes", "no"],
        ["ok", "it"],
        ["he", "she"],
        ["N/A", "spam"],
        ["*", "**", "***"],
        [".", "!", "?"],
        ["x²", "x2"],
        ["C", "C++", "C#"],
        [True, False],
    ],
    "text": [
        ["3.10", "3.9", "3.1", "3.11"],
        ["1.1.10", "1.1.1"],
        ["0-306-40610-0", "0-306-40611-1"],
        ["007", "012", "120"],
        ["10.0.0.1", "10.0.1.1"],
        ["2019/20", "2020/21"],
        ["12E4", "13E5"],
        ["Paris", "Rome", "Oslo"],
    ],
    "number": [
        ["1.20", "0.385", "41.4", "9.80"],
        ["7.5", "31.50", "7.05", "12"],
        ["3 h", "4 h"],
        ["5%", "7%"],
        ["$5", "$12"],
        [3, 5],
        [1.5, 2.25],
        ["3小时", "4小时"],
    ],
    "date": [["2026-03-04", "2026-03-05"], ["2026年3月4日", "2026年3月5日"]],
    "json": [[{"a": 1}, {"a": 2, "b": 3}]],
    "sql": [["SELECT a FROM b", "select c from d where e = 1"]],
    "formula": [["x + 1", r"\frac{1}{2}"], ["(1, 2)", "x=5"]],
}


@pytest.mark.parametrize(("kind", "values"), [(kind, values) for kind, lists in KINDS.items() for values in lists])
def test_the_kind_of_answers_is_found_from_all_of_them(kind, values):
    """Values that repeat are labels; numbers, dates and codes do not become labels because they repeat."""
    endless = itertools.cycle(values)
    if kind in ("text", "number", "date", "json", "sql", "formula"):
        rows = [{"question": question(n), "answer": value} for n, value in enumerate(values)]
    else:
        rows = [{"question": question(n), "answer": next(endless)} for n in N]
    assert described(rows).how.kind == kind


def test_many_labels_are_found():
    rows = [{"text": f"about {word} {n}", "intent": f"topic_{word}"} for word in "abcdefghij" for n in range(3)]
    rows += [{"text": f"about number{n % 60} {n}", "intent": f"topic_number{n % 60}"} for n in range(180)]
    description = described(rows)
    assert len(description.how.labels) == 70
    assert "each prompt lists the 70 labels" in " ".join(description.remarks)


@table(
    ("answer", "is_correct"),
    [
        ("card_arrival", True),
        ("Card arrival", True),
        ("card_arrival - it is late", True),
        ("top_up", False),
        ("card_arrival or top_up", False),
        ("not card_arrival", False),
    ],
)
def test_a_right_label_that_the_prompt_does_not_list_is_right(answer, is_correct):
    how = HowCompared(kind="label", labels=("card_lost", "top_up"))
    assert compare(answer, "card_arrival", how).is_correct is is_correct


def test_a_label_of_one_text_is_listed_by_its_name_and_not_by_its_own_text():
    rows = [{"text": f"word{n % 400} again {n}", "label": f"some_rather_long_topic_{n % 400}"} for n in range(1200)]
    alone = {"text": "a message without a word of any other", "label": "some_rather_long_topic_7"}
    labels = described([*rows, alone]).plain_row(alone, "")[1].labels
    assert described([*rows, {**alone, "label": "some_rather_long_topic_8"}]).plain_row(alone, "")[1].labels == labels


def test_a_few_odd_answers_do_not_change_the_kind_of_the_others():
    rows = [{"question": f"{n}? (A) x (B) y", "answer": f"({'AB'[n % 2]})"} for n in range(40)]
    rows[7]["answer"] = "Monsters, Inc"
    description = described(rows)
    assert description.how.kind == "choice"
    assert description.plain_row(rows[7], "")[1].kind == "text"
    assert "1 of 40 answers are of another kind and compared as texts: 'Monsters, Inc'" in description.remarks
    formulas = [{"problem": f"Find {n}.", "answer": str(n) if n else "x=5"} for n in range(40)]
    assert described(formulas).is_mathematics


@table(
    ("rows", "is_mathematics"),
    [
        ([{"question": "Q", "answer": "so\n#### 18"}], True),
        ([{"question": "Q", "answer": "so the answer is 18"}], True),
        ([{"problem": "Q", "answer": "18"}, {"problem": "R", "answer": "3"}], True),
        ([{"question": "Q", "answer": "18"}, {"question": "R", "answer": "3"}], False),
        ([{"question": "Q", "answer": r"\sqrt{2}"}], True),
        ([{"question": r"Find $x^2$ for $x=\sqrt{3}$.", "answer": "3"}], True),
        ([{"question": "Q", "answer": "A"}, {"question": "R", "answer": "B"}], False),
        ([{"problem": "Q", "answer": "007"}, {"problem": "R", "answer": "012"}], False),
    ],
)
def test_mathematics_is_announced_by_formulas_and_not_by_letters(rows, is_mathematics):
    assert described(rows).is_mathematics is is_mathematics


@pytest.mark.parametrize(
    ("compare_as", "given"), [("number:2%", {}), ("text", {}), (None, {"fields": {"answer": "answer"}})]
)
def test_a_comparison_makes_rows_answers_and_fields_do_not_change_the_task(tmp_path, compare_as, given):
    path = tmp_path / "towns.jsonl"
    path.write_text("".join(json.dumps({"problem": f"Town {n}?", "answer": str(1000 * n + 7)}) + "\n" for n in N))
    loaded = load_dataset(str(path), compare_as=compare_as, **given)
    assert {problem.task for problem in loaded.problems} == {"answers" if compare_as else "math"}
    if compare_as:
        assert truth_of(loaded.problems[0])[1].kind == compare_as.partition(":")[0]


def test_conversations_are_questions_and_their_last_message_is_the_answer():
    chat = [{"role": "system", "content": "Name it."}, {"role": "user", "content": "Sky?"}]
    ended = [*chat, {"role": "assistant", "content": "grey"}]
    shared = [{"from": "human", "value": "Sky?"}, {"from": "gpt", "value": "grey"}]
    assert plain(rows_of(input=chat, ideal="grey"))[:2] == ("Name it.\n\nSky?", "grey")
    assert plain(rows_of(messages=ended))[:2] == ("Name it.\n\nSky?", "grey")
    assert plain(rows_of(conversations=shared))[:2] == ("Sky?", "grey")
    longer = [*shared, {"from": "human", "value": "Sea?"}, {"from": "gpt", "value": "blue"}]
    assert plain(rows_of(conversations=longer))[:2] == ("User: Sky?\n\nAssistant: grey\n\nUser: Sea?", "blue")


def test_classes_come_before_texts_only_if_they_repeat():
    dialogues = rows_of(dialogue=question, summary=lambda n: f"They spoke about {n}.", topic=lambda n: f"topic {n}")
    assert described(dialogues).columns.answer == "summary"
    classes = rows_of(text=question, summary=lambda n: f"They spoke about {n}.", topic=lambda n: f"topic {n % 2}")
    assert described(classes).columns.answer == "topic"


def test_two_columns_of_other_names_are_decided_once_for_the_file():
    words = rows_of(english=lambda n: f"the word {n}" if n % 2 else "ant", german=lambda n: f"Wort{n}")
    assert described(words).columns.answer == "german"
    spam = rows_of(v1=lambda n: ("ham", "spam")[n % 2], v2=lambda n: f"a message {n}" if n else "Ok")
    assert described(spam).columns.answer == "v1"


@table(
    ("rows", "words", "fix"),
    [
        (rows_of(prompt=question, instruction_id_list=["x"], kwargs=[{}]), "no column with the right answer", "rubric"),
        (rows_of(Utterance=question, Mood=letter, Speaker="x"), "no column with the right answer", "answer=Mood"),
        (rows_of(a=question, b="x", c="y"), "not clear which column is the question", "problem=a,answer="),
        (
            rows_of(question=question, answer=lambda n: f"text {n}", label=lambda n: n % 2),
            "does 'label' say whether it is right",
            "--fields answer=label",
        ),
    ],
)
def test_what_is_not_clear_is_refused_with_the_names_of_the_file(rows, words, fix):
    with pytest.raises(InputError, match=words) as raised:
        described(rows)
    assert fix in raised.value.fix


def test_long_answers_are_said_before_anything_is_paid_for():
    rows = rows_of(dialogue=question, summary=lambda n: f"{n} " + "They spoke of many things and agreed on some. " * 4)
    assert "which no reply will equal" in " ".join(described(rows).remarks)


def test_the_prompt_names_the_marks_of_options_and_the_keys_of_all_rows():
    task = task_named("answers")
    for rows, value in (
        (CHOICES["columns of one letter"], ("marks", ["A", "B", "C"])),
        (rows_of(input=question, output=lambda n: {"LOC": [1]} if n else {"PER": [2]}), ("keys", ["PER", "LOC"])),
    ):
        row, how = described(rows).plain_row(rows[1], "")
        assert task.prompt_values(task.described_problem(row, how, ""))[value[0]] == value[1]
