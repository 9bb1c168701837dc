"""Rows in the columns and forms of public sets: how they are read, and how replies to them are judged.

JEEBench, TheoremQA, DeepMath, SciBench, TabMWP, TAT-QA, BBQ, ReCoRD, GoEmotions, PopQA, SYNTHETIC-1, Math23K,
Open-Reasoner-Zero, ReClor, TriviaQA, NarrativeQA, Natural Instructions.
"""

import json

import pyarrow
import pytest
from pyarrow import parquet

from engine.answers.verify import verify_answer
from engine.datasets import load_dataset
from engine.tasks.answers.task import truth_of
from engine.tasks.registry import task_named
from tests.engine.own_data.test_public_data import check, judged
from tests.support.table import table


def kinds(problems):
    return [truth_of(problem)[1].kind for problem in problems]


def jeebench():
    options = "\n\n(A) it doubles\n\n(B) it falls\n\n(C) it is kept\n\n(D) it vanishes"
    golds = ["B", "ABD", "9", "C", "2.35", "CD", "10.00", "D", "A", "6", "BCD", "0.75"]
    return [
        {"description": "Paper 1", "index": n, "type": "x", "gold": gold, "question": f"What of case {n}?{options}"}
        if gold.isalpha()
        else {"description": "Paper 1", "index": n, "type": "x", "gold": gold, "question": f"Which ratio has case {n}?"}
        for n, gold in enumerate(golds)
    ]


def theoremqa():
    answers = [0.02, 924.0, True, [1, 1], 5, 63.4, False, [3, 1], 1850.0, 3.464, 8, [0.33, 0.33, 0.34]]
    return [{"Question": f"Case {n}?", "Answer": answer, "Picture": None} for n, answer in enumerate(answers)]


def deepmath():
    answers = ["0", "Yes", r"\frac{\pi}{3}", "No", r"2\pi", "12", r"\infty", "-1", r"\sqrt{2}", "Yes", "3", "5"]
    return [{"question": f"Limit {n}?", "final_answer": answer, "topic": "x"} for n, answer in enumerate(answers)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (jeebench(), "choice set number choice number set number choice choice number set number"),
        (theoremqa(), "number number label list number number label list number number number list"),
        (deepmath(), "number label formula label formula number formula number formula label number number"),
    ],
)
def test_each_answer_is_compared_as_it_is(loaded, rows, expected):
    dataset = loaded(rows)
    assert kinds(dataset.problems) == expected.split()
    check(dataset.problems)
    prompts = {str(task_named("answers").prompt_values(problem)) for problem in dataset.problems}
    assert len(prompts) == 1, "the prompt says nothing of the kind of one answer"
    count = expected.split().count("number")
    assert f"{count} of 12 answers are of another kind and compared as numbers" in dataset.note


def test_a_comparison_that_the_user_names_is_that_of_all_rows(loaded):
    assert set(kinds(loaded(theoremqa(), compare_as="text").problems)) == {"text"}


def test_texts_among_numbers_and_codes(loaded):
    rows = [{"question": f"How much is {n}?", "answer": f"{n}.5 kg" if n else "none"} for n in range(10)]
    dataset = loaded(rows)
    assert kinds(dataset.problems) == ["text", *["number"] * 9]
    assert "9 of 10 answers are of another kind and compared as numbers: '1.5 kg'" in dataset.note
    codes = [{"question": f"Which one is {n}?", "answer": answer} for n, answer in enumerate(["007", "12", "x-1", "5"])]
    assert set(kinds(loaded(codes).problems)) == {"text"}


@table(
    ("number", "unit", "right", "wrong"),
    [
        ("+65.49", r"$\mathrm{kJ} \mathrm{mol}^{-1}$", ["65.49 kJ/mol", "65490 J/mol", "65.49"], ["65.49 J", "70"]),
        ("50.7", r"$\mathrm{atm}$ ", ["50.7 atm", "5.14e6 Pa", "50.7"], ["50.7 Pa", "0.507"]),
        ("1.5", r"$10^{-3} \mathrm{~m}$", ["1.5 mm", r"1.5 \times 10^{-3} m", "1.5"], ["1.5 m"]),
        ("67", r"$\mathrm{J} \mathrm{K}^{-1}$ ", ["67 J/K", "66.99", "67.0 J K⁻¹"], ["67 kJ/K", "670"]),
        ("22.6", r"$\mathrm{JK}^{-1}$ ", ["22.6", "22.6 J/K", "22.6 JK^-1"], ["2.26", "22.6 kJ/K"]),
        ("5.29", "$a_0$", ["5.29", "5.29 a_0"], ["5.29 m", "52.9"]),
        ("8.3", r"$\%$", ["8.3%", "8.3", "0.083"], ["83%"]),
        ("3.50", "$", ["$3.50", "3.50", "3.5 dollars"], ["$35"]),
        ("17.7", "percent", ["17.7%", "17.7 percent"], ["19"]),
        ("5.2", "million", ["5.2 million", "5200000", "5.2"], ["5.2 thousand"]),
        ("0", " ", ["0"], ["1"]),
    ],
)
def test_a_unit_in_a_column_of_its_own(loaded, number, unit, right, wrong):
    others = [{"problem_text": f"Predict {n}.", "answer_number": f"{n}.25", "unit": "K"} for n in range(30)]
    dataset = loaded([{"problem_text": "Predict it.", "answer_number": number, "unit": unit}, *others])
    problem = dataset.problems[0]
    assert "question = problem_text, unit = unit, answer = answer_number" in dataset.note
    assert ("(unit of the answer:" in problem.text) is bool(unit.strip())
    assert set(kinds(dataset.problems)) == {"number"}
    assert [reply for reply in right if judged(problem, f"Answer: {reply}") is not True] == []
    assert [reply for reply in wrong if judged(problem, f"Answer: {reply}")] == []


def test_lists_of_numbers_are_answers_and_no_alternatives(loaded):
    problem = loaded(theoremqa()).problems[3]
    assert judged(problem, "Answer: [1, 1]")
    assert judged(problem, "Answer: 1, 1.0")
    assert not judged(problem, "Answer: 1")
    assert not judged(problem, "Answer: [1, 2]")


def test_a_value_among_lists_is_no_list_of_one(loaded):
    answers = [["5.2", "3.1"], 17.7, ["sales", "costs"], ["2019", "2016"], ["2018", "2017"], ["cash", "debt"]]
    dataset = loaded([{"question": f"What is {n}?", "answer": each} for n, each in enumerate(answers)])
    assert kinds(dataset.problems) == ["list", "number", *["list"] * 4]
    assert judged(dataset.problems[1], "Answer: 17.7")
    assert judged(dataset.problems[2], "Answer: [sales, costs]")


def test_options_beside_an_object_with_the_same_names(loaded):
    info = {f"ans{n}": ["x", "old"] for n in range(3)}
    rows = [
        {"context": f"Two men, {n}.", "question": "Who?", "ans0": "The old man", "ans1": "The boy", "ans2": "Unknown"}
        | {"answer_info": info, "label": n % 3}
        for n in range(12)
    ]
    dataset = loaded(rows)
    assert set(kinds(dataset.problems)) == {"choice"}
    check(dataset.problems)


def test_an_index_of_several_parts_is_no_passage(loaded):
    row = {"passage": "They met.", "query": "@placeholder came.", "answers": ["Ann"], "idx": {"passage": 7, "query": 1}}
    assert loaded([row, row | {"query": "@placeholder went.", "answers": ["Bo"]}]).problems[0].text == (
        "They met.\n\n@placeholder came."
    )


def test_several_classes_of_one_text(tmp_path, loaded):
    rows = [{"text": f"So it is, {n}.", "labels": [n % 4] if n % 5 else [n % 4, 4]} for n in range(40)]
    assert "numbers without names" in loaded(rows).note
    names = ["admiration", "anger", "fear", "joy", "neutral"]
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "List"}
    schema = {b"huggingface": json.dumps({"info": {"features": {"labels": feature}}}).encode()}
    path = tmp_path / "emotions.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows).replace_schema_metadata(schema), path)
    problem = load_dataset(str(path)).problems[5]
    assert truth_of(problem)[1].labels == tuple(names)
    assert judged(problem, "Answer: neutral, anger")
    assert not judged(problem, "Answer: anger")


def test_lists_and_objects_that_are_written_as_texts(loaded):
    names = [["politician", "a politician", "political leader"], ["film director", "director"], ["actor", "film actor"]]
    dataset = loaded(
        [{"question": f"What is {n}?", "possible_answers": json.dumps(each)} for n, each in enumerate(names)]
    )
    assert judged(dataset.problems[0], "Answer: political leader")
    info = [{"prompt": f"Find {n}.", "verification_info": json.dumps({"ground_truth": str(n)})} for n in range(9)]
    assert judged(loaded(info).problems[3], "Answer: 3")


def test_word_problems_in_chinese(loaded):
    """The form of Math23K; 1(1/2) is a mixed number there."""
    answers = ["60", "75%", "(5/6)", "3.5", "1(1/2)", "12"]
    dataset = loaded([{"original_text": f"第{n}题", "equation": "x=1", "ans": each} for n, each in enumerate(answers)])
    assert [problem.task for problem in dataset.problems] == ["math"] * 6
    assert verify_answer("1.5", dataset.problems[4].answer).correct
    assert not verify_answer("0.5", dataset.problems[4].answer).correct


def test_rows_that_are_conversations(loaded):
    """The form of Open-Reasoner-Zero."""
    rows = [
        [{"from": "human", "value": f"Find {n}."}, {"from": "assistant", "ground_truth": {"value": str(n + 5)}}]
        for n in range(9)
    ]
    problem = loaded(rows).problems[2]
    assert (problem.text, judged(problem, "Answer: 7")) == ("Find 2.", True)


def test_the_conversations_that_gemini_is_tuned_on(loaded):
    texts = [("user", "Find {}."), ("model", "It is {}.")]
    rows = [
        {"contents": [{"role": role, "parts": [{"text": text.format(n)}]} for role, text in texts]} for n in range(9)
    ]
    problem = loaded(rows).problems[2]
    assert (problem.text, truth_of(problem)[0]) == ("Find 2.", "It is 2.")


def test_answers_that_are_the_options_of_a_label(loaded):
    """The form of ReClor."""
    rows = [
        {"context": f"Text {n}.", "question": "What follows?", "answers": ["one", "two", "three"], "label": n % 3}
        for n in range(12)
    ]
    dataset = loaded(rows)
    assert set(kinds(dataset.problems)) == {"choice"}
    check(dataset.problems)


@table(
    ("answer", "right"),
    [
        (
            {
                "aliases": ["NYC"],
                "matched_wiki_entity_name": "",
                "normalized_matched_wiki_entity_name": "",
                "value": "N Y",
            },
            ["NYC", "N Y"],
        ),  # TriviaQA
        ([{"text": "He is a boy.", "tokens": ["He"]}, {"text": "a boy", "tokens": ["a"]}], ["a boy", "He is a boy"]),
    ],
)
def test_answers_with_facts_beside_them(loaded, answer, right):
    problem = loaded([{"question": f"Who, in story {n}?", "answer": answer} for n in range(3)]).problems[1]
    assert [reply for reply in right if not judged(problem, f"Answer: {reply}")] == []
    assert not judged(problem, "Answer: a girl")


def test_a_definition_stands_before_its_inputs(loaded):
    """The form of Natural Instructions."""
    rows = [{"definition": "Say A or B.", "inputs": f"Text {n}", "targets": "AB"[n % 2]} for n in range(12)]
    assert loaded(rows).problems[0].text == "definition: Say A or B.\ninputs: Text 0"


def test_an_answer_of_signs_only_is_not_any_answer(loaded):
    rows = [{"question": f"Which sign ends sentence {n}?", "answer": ".!?;"[n % 4]} for n in range(4)]
    for problem in loaded(rows).problems:
        truth = truth_of(problem)[0]
        assert judged(problem, f"Answer: {truth}")
        assert not judged(problem, "Answer: banana")


@pytest.mark.parametrize(
    ("question", "contexts", "answer", "others"),
    [
        ("question", "contexts", "ground_truth", {"answer": "a model's"}),
        ("user_input", "retrieved_contexts", "reference", {"response": "a model's"}),
        ("input", "retrieval_context", "expected_output", {"actual_output": "a model's"}),
        ("question", "reference_context", "reference_answer", {"metadata": {"question_type": "simple"}}),
        ("query", "reference_contexts", "reference_answer", {"reference_answer_by": {"model_name": "a model's"}}),
    ],
)
def test_sets_for_retrieval_have_contexts_and_answers_of_a_model(loaded, question, contexts, answer, others):
    """RAGAS before and after its columns were renamed, DeepEval, Giskard, LlamaIndex."""
    rows = [
        {question: f"Who won race {n}?", **others, contexts: [f"Ann{n} ran.", "She won."], answer: f"Ann{n}"}
        for n in range(12)
    ]
    problem = loaded(rows).problems[3]
    assert truth_of(problem)[0] == "Ann3"
    headed = f"{contexts}: Ann3 ran.\nShe won.\n{question}: Who won race 3?"
    assert problem.text == (headed if question == "input" else "Ann3 ran.\nShe won.\n\nWho won race 3?")


def test_a_category_beside_a_reference_is_no_answer(loaded):
    """The form of evaluations in Amazon Bedrock."""
    rows = [{"prompt": f"Who won race {n}?", "category": "sport", "referenceResponse": f"Ann{n}"} for n in range(12)]
    assert truth_of(loaded(rows).problems[3])[0] == "Ann3"


@pytest.mark.parametrize(
    ("right", "other", "value"),
    [
        ("expected_completion", "completion", "{}"),
        ("reference_output", "output", "{}"),
        ("human_label", "llm_label", "{}"),
        ("gold_label", "label", "{}"),
        ("final_answer", "answer", "{}"),
        ("label", "answer", "accept"),  # Prodigy
        ("reference.answer", "outputs.answer", "{}"),  # LangSmith
        ("reference_outputs.label", "outputs.answer", "{}"),
        ("reference", "attributes.output.value", "{}"),  # Phoenix
    ],
)
def test_an_output_of_a_model_beside_what_is_right(loaded, right, other, value):
    rows = [{"text": f"Case {n}", other: value.format(n % 3), right: ["no", "yes"][n % 2]} for n in range(12)]
    dataset = loaded(rows)
    assert f"answer = {right}; not used: {other}" in dataset.note
    assert {truth_of(problem)[0] for problem in dataset.problems} == {"no", "yes"}


def annotated(number, *labels):
    results = [
        {"result": [{"from_name": "mood", "type": "choices", "value": {"choices": [label]}}]} for label in labels
    ]
    return {
        "id": number,
        "data": {"text": f"Case {number}"},
        "annotations": [{"ground_truth": False, **r} for r in results],
    }


def test_annotations_of_label_studio(loaded):
    """Its form "JSON". A text that nobody has annotated, or two people, has no answer."""
    rows = [annotated(number, ("bad", "good")[number % 2]) for number in range(12)]
    dataset = loaded([*rows, annotated(12), annotated(13, "bad", "good")])
    assert [truth_of(problem)[0] for problem in dataset.problems] == ["bad", "good"] * 6
    assert dataset.problems[3].text == "Case 3"
    assert "2 rows have no question or no right answer and are left out" in dataset.note


def test_a_choice_of_prodigy(loaded):
    options = [{"id": name, "text": name} for name in ("sport", "trade")]
    rows = [
        {"text": f"Case {n}", "options": options, "accept": [("sport", "trade")[n % 2]], "answer": "accept"}
        for n in range(12)
    ]
    assert [truth_of(problem)[0] for problem in loaded(rows).problems] == ["A", "B"] * 6


@pytest.mark.parametrize("system", ["Be terse.", [{"text": "Be terse."}]])
def test_a_system_message_beside_a_conversation_is_a_part_of_the_question(loaded, system):
    """Files for fine-tuning of Anthropic, of Bedrock, and of LLaMA-Factory, where some rows have none."""
    rows = [
        {
            **({"system": system} if n % 2 else {}),
            "messages": [
                {"role": "user", "content": f"What is {n} + 1?"},
                {"role": "assistant", "content": str(n + 1)},
            ],
        }
        for n in range(12)
    ]
    dataset = loaded(rows)
    assert [problem.text for problem in dataset.problems[:2]] == ["What is 0 + 1?", "Be terse.\n\nWhat is 1 + 1?"]
    assert "question = system + messages, answer = the last message of messages" in dataset.note
    assert truth_of(dataset.problems[1])[0] == "2"


def test_completions_may_be_messages(loaded):
    """The conversational form of TRL: a prompt and a completion."""
    rows = [
        {
            "prompt": [{"role": "user", "content": f"What is {n} + 1?"}],
            "completion": [{"role": "assistant", "content": f"One more.\n#### {n + 1}"}],
        }
        for n in range(12)
    ]
    dataset = loaded(rows)
    assert "answer = completion (after ####)" in dataset.note
    assert dataset.problems[1].text == "What is 1 + 1?"
    assert truth_of(dataset.problems[1])[0] == "2"


def test_a_system_message_beside_a_question_is_its_context(loaded):
    rows = [{"system_prompt": "Be terse.", "question": f"What is {n} + 1?", "response": str(n + 1)} for n in range(12)]
    assert loaded(rows).problems[1].text == "Be terse.\n\nWhat is 1 + 1?"
