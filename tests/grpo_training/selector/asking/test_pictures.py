"""Questions about pictures, from beams to accuracy, against a server that decodes the pictures."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

from bench import picture_questions
from grpo_training.selector.data.beam_file import load_groups
from grpo_training.selector.vqa import vqa_accuracy
from tests.support import pictures


def test_the_program_sees_what_was_drawn(tmp_path):
    for seed in range(20):
        row = pictures.draw(seed, tmp_path)
        _, counts = pictures.see((tmp_path / row["image"]).read_bytes())
        kinds = [f"{colour} {shape}s" for colour in pictures.COLOURS for shape in pictures.SHAPES]
        asked = row["question"].removeprefix("how many ").removesuffix("?")
        assert str(counts[kinds.index(asked)]) == row["answers"][0]


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """The folder of a small run of the whole chain, what the server received, and the figures."""
    folder, log = tmp_path_factory.mktemp("chain"), []
    seeing_app = pictures.seeing_app
    pictures.seeing_app = lambda: seeing_app(log)
    try:
        figures = picture_questions.run(folder, train=40, queries=10, test=12, pool=6, beam_size=2, epochs=20)
    finally:
        pictures.seeing_app = seeing_app
    return folder, log, figures


def help_of(rows, query, shots):
    """The chance of a right answer, from the seeds of the drawings, without the code of the server."""
    papers = {row["question_id"]: pictures.random.Random(row["question_id"]).choice(pictures.PAPERS) for row in rows}
    shape = [row["question"].rsplit(" ", 1)[1] for row in rows]
    same_paper = any(papers[rows[shot]["question_id"]] == papers[rows[query]["question_id"]] for shot in shots)
    same_shape = any(shape[shot] == shape[query] for shot in shots)
    return pictures.BASE + pictures.SAME_PAPER * same_paper + pictures.SAME_SHAPE * same_shape


def test_beams_are_scored_by_log_probs_that_depend_on_the_images_of_the_shots(chain):
    folder, log, _ = chain
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    scored = [body for body in log if "prompt_logprobs" in body]
    for body in scored:
        assert body["continue_final_message"] is True
        assert body["add_generation_prompt"] is False
        content = body["messages"][0]["content"]
        assert [part["type"] for part in content] == ["image_url", "text"] * (len(content) // 2)
    groups = load_groups(folder / "beams/beams.json")
    assert len(groups) == 10
    for group in groups:
        for sequence in group.sequences:
            gain = 0.98 * (help_of(rows, group.query, sequence.shots) - help_of(rows, group.query, ()))
            assert sequence.reward == pytest.approx(gain, abs=1e-9)


def test_rewards_are_the_accuracy_of_the_answers_with_each_sequence(chain):
    folder, _, _ = chain
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    stored = json.loads((folder / "rewards.json").read_text())
    assert stored.pop("_meta")["vqa_model"] == "seeing"
    assert len(stored) == 10
    methods = set()
    for query, entry in stored.items():
        accuracies = {}
        for candidate in entry["pointer_candidates"]:
            methods.add(candidate["gen_method"])
            assert [entry["candidate_pool_ids"][index] for index in candidate["pointer"]] == candidate["pointer_global"]
            people = rows[int(query)]["answers"]
            assert candidate["vqa_acc_score"] == vqa_accuracy(candidate["vqa_pred_answer"], people)
            assert candidate["vqa_correct"] == (candidate["vqa_acc_score"] > 0)
            assert candidate["vqa_eval_mode"] == "vqaEval"
            chance = help_of(rows, int(query), candidate["pointer_global"])
            accuracies.setdefault(chance, set()).add(candidate["vqa_pred_answer"] == people[0])
        assert all(len(verdicts) == 1 for verdicts in accuracies.values())  # the same help, the same answer
        rights = [next(iter(accuracies[chance])) for chance in sorted(accuracies)]
        assert rights == sorted(rights)  # more help never makes an answer wrong
    assert methods == {"selector", "beam", "random"}


def test_several_selectors_are_compared_with_the_first_and_with_similarity(chain):
    _, log, figures = chain
    names = [name.partition(":")[0] for name in figures]
    assert names == ["random", "similarity", "selector sft_final.ckpt", "selector grpo_final.ckpt"]
    last = figures["selector grpo_final.ckpt: shot_num=2"]
    assert {"minus_similarity", "minus_selector_sft_final.ckpt", "choosing_ms_per_query"} <= last.keys()
    asked = [body for body in log if "prompt_logprobs" not in body]
    assert all(len(body["messages"][0]["content"]) == 6 for body in asked)
