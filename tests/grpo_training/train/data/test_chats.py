import json

import pytest

pytest.importorskip("transformers")

from engine.errors import InputError, MissingInputError
from grpo_training.train.data.chats import load_chats
from grpo_training.train.data.tokenising import WITHOUT_REASONING
from tests.support.tiny_model import END, TEMPLATE, WORDS, settings, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("torch")
    return write_model(tmp_path_factory.mktemp("model"))


def chats(model, path, **changes):
    return load_chats(settings(model, mode="sft", dataset_path=path, **{"validation_share": 0.0} | changes))


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def chat(number, reply="w20"):
    return {"messages": [{"role": "user", "content": f"w{number}"}, {"role": "assistant", "content": reply}]}


def words(ids):
    return [WORDS[token] for token in ids]


def test_only_the_last_message_and_its_end_are_labels(model, tmp_path):
    turns = [
        {"role": "user", "content": "w1"},
        {"role": "assistant", "content": "w2"},
        {"role": "user", "content": "w3"},
        {"role": "assistant", "content": "w4 w5"},
    ]
    [[sample]] = chats(model, write(tmp_path / "chats.jsonl", {"messages": turns})).groups
    expected = "<user> w1 <end> <assistant> w2 <end> <user> w3 <end> <assistant>"
    assert words(sample.prompt_ids) == expected.split()
    assert words(sample.completion_ids) == ["w4", "w5", "<end>"]
    assert sample.completion_ids[-1] == END


def test_prompt_and_completion_rows_mean_the_same(model, tmp_path):
    rows = [
        chat(3),
        {"prompt": [{"role": "user", "content": "w3"}], "completion": [{"role": "assistant", "content": "w20"}]},
        {"prompt": "w3", "completion": "w20"},
    ]
    groups = chats(model, write(tmp_path / "chats.jsonl", *rows)).groups
    assert len({(group[0].prompt_ids, group[0].completion_ids) for group in groups}) == 1


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_beside_the_reply_is_part_of_it(tmp_path, name):
    model = write_model(tmp_path / "model", more_words=("<think>", "</think>"))
    reply = {"role": "assistant", "content": "w20", name: "w7"}
    rows = [
        {"messages": [{"role": "user", "content": "w3"}, reply]},
        {"prompt": [{"role": "user", "content": "w3"}], "completion": [reply]},
        {"prompt": "w3", "completion": "w20", name: "w7"},
        {"prompt": "w3", "completion": "<think> w7 </think> w20", name: "w7"},
    ]
    groups = chats(model, write(tmp_path / "chats.jsonl", *rows)).groups
    tokens = ["<think>", "w7", "</think>", "w20", "<end>"]
    assert [[(*WORDS, "<think>", "</think>")[token] for token in group[0].completion_ids] for group in groups] == [
        tokens
    ] * 4


def test_replies_without_reasoning_are_counted_where_the_template_opens_it(tmp_path):
    think = ("<think>", "</think>")
    opens = TEMPLATE.replace("<assistant>{% endif", "<assistant> <think> {% endif")
    model = write_model(tmp_path / "model", more_words=think, template=opens)
    rows = [chat(1), chat(2), chat(3, "<think> w7 </think> w20"), chat(4, "w7 </think> w20")]
    path = write(tmp_path / "chats.jsonl", *rows)
    assert chats(model, path).report.remarks == {WITHOUT_REASONING: 2}
    assert not chats(write_model(tmp_path / "plain", more_words=think), path).report.remarks


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"messages": [{"role": "user", "content": "w1"}]}', "the messages do not end with a reply"),
        ('{"messages": [{"role": "assistant", "content": "w1"}]}', "the messages do not end with a reply"),
        ('{"prompt": "w1", "completion": " "}', "the reply has no text"),
        ('{"text": "w1"}', "no prompt"),
        ('{"task_id": "a", "prompt": "w1", "code": []}', "code: Input should be a valid string"),
        ('["w1"]', "not a JSON object"),
        ('{"prompt": "w1", "compl', "not JSON"),
    ],
)
def test_a_row_that_is_no_chat_is_an_error_with_its_place(model, tmp_path, line, message):
    path = write(tmp_path / "chats.jsonl", chat(1))
    path.write_text(path.read_text() + "\n" + line + "\n" + json.dumps(chat(2)) + "\n")
    with pytest.raises(InputError, match=rf"chats\.jsonl, line 3: {message}") as caught:
        chats(model, path)
    assert caught.value.fix.startswith(("Correct or remove that row.", "Each line must be one complete JSON object."))


def test_chats_that_are_too_long_are_counted(model, tmp_path):
    data = chats(model, write(tmp_path / "chats.jsonl", chat(1), chat(4, " ".join(["w5"] * 200))), max_seq_length=100)
    assert (len(data.groups), sum(data.report.dropped.values())) == (1, 1)
    with pytest.raises(InputError, match="No chats to train on"):
        chats(model, write(tmp_path / "none.jsonl"))
    with pytest.raises(MissingInputError, match="No file of chats"):
        chats(model, tmp_path)


def test_a_random_share_is_held_out(model, tmp_path):
    data = chats(model, write(tmp_path / "chats.jsonl", *[chat(number) for number in range(20)]), validation_share=0.25)
    held_out = [group[0].group_id for group in data.validation]
    assert (len(data.groups), len(held_out)) == (15, 5)
    assert held_out != [f"chats:{number}" for number in range(16, 21)]
    assert not {group[0].group_id for group in data.groups} & set(held_out)


def test_chats_of_one_prompt_are_held_out_together(model, tmp_path):
    rows = [chat(number % 5, f"w{20 + number}") for number in range(15)]
    data = chats(model, write(tmp_path / "chats.jsonl", *rows), validation_share=0.4)
    assert (len(data.groups), len(data.validation)) == (9, 6)
    assert not {group[0].prompt_ids for group in data.groups} & {group[0].prompt_ids for group in data.validation}


def test_half_of_a_surrogate_pair_in_a_reply_is_replaced(model, tmp_path):
    [[sample]] = chats(model, write(tmp_path / "chats.jsonl", {"prompt": "w1", "completion": "w2 \ud83d"})).groups
    assert len(sample.completion_ids) == 3


def test_a_trace_without_full_response_is_named_as_never_executed(model, tmp_path):
    trace = {"task_id": "a", "prompt": "w1", "code": "x = 1", "test_list": ["assert x"]}
    extra = {"prompt": "w3", "completion": "w20", "code": "a column of its own"}
    data = chats(model, write(tmp_path / "chats.jsonl", trace, extra))
    assert len(data.groups) == 1
    assert data.report.dropped == {"traces: of another program, and never executed here": 1}
