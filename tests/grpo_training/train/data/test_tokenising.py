"""Labels are compared with ids that were written down by hand, for tokenizers of few words."""

import json
import math

import pytest

from engine.errors import ConfigurationError, InputError
from engine.records import Message
from grpo_training.rl_math.advantages import advantages
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data import tokenising
from grpo_training.train.data.samples import DropReport, TrainingGroup, TrainingResponse
from grpo_training.train.data.tokenising import ChatTokens, tokenise_groups
from grpo_training.train.models.tokenizer import load_tokenizer
from tests.conftest import ROOT

pytest.importorskip("transformers")

WORDS = ["<eos>", "<end>", "<user>", "<assistant>", "<unk>", "ask", "one", "two", "three", "<think>", "</think>", "why"]
EOS, END, USER, ASSISTANT, UNK, ASK, ONE, TWO, THREE, THINK, THOUGHT, WHY = range(12)
TEMPLATE = (
    "{% for m in messages %}"
    "{% if m['role'] == 'system' %}{{ raise_exception('no system prompt') }}{% endif %}"
    "<{{ m['role'] }}> {{ m['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make_tokenizer(template=TEMPLATE):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<eos>", additional_special_tokens=["<end>", "<user>", "<assistant>"]
    )
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="module")
def pocket():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(ROOT / "data/models/pocket")


def settings(**changes):
    return GRPOTrainingConfig(**{"model_name_or_path": "a/model", "dataset_path": "there"} | changes)


def tokenised(groups, tokenizer, config):
    """The samples, and the report."""
    report = DropReport()
    return tokenise_groups(groups, tokenizer, config, report), report


def group(*responses, prompt="ask", group_id="g"):
    return TrainingGroup(group_id, "p", "math", (Message(role="user", content=prompt),), responses)


def only(tokenizer, response, **changes):
    """The one sample of a group of one reply, and the report."""
    [[sample]], report = tokenised([group(response)], tokenizer, settings(**changes))
    return sample, report


def test_the_labels_are_the_reply_and_its_end_and_nothing_of_the_prompt(tokenizer):
    sample, report = only(tokenizer, TrainingResponse("one two", 1.0, True))
    assert sample.prompt_ids == (USER, ASK, END, ASSISTANT)
    assert sample.completion_ids == (ONE, TWO, END)
    assert (sample.ids_source, sample.old_logps, sample.length) == ("retokenized", None, 7)
    assert (
        report.remarks["replies: tokenised from the text, as no ids are stored"]
        == report.remarks[tokenising.NO_LOGPROBS]
        == 1
    )


def test_the_end_is_the_templates_end_of_turn_and_not_the_end_of_text(tokenizer):
    assert tokenizer.eos_token_id == EOS
    assert ChatTokens(tokenizer).end_of_turn == END
    plain = make_tokenizer("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}")
    assert ChatTokens(plain).end_of_turn == EOS


def test_a_reply_that_was_cut_off_gets_no_end(tokenizer):
    sample, _ = only(tokenizer, TrainingResponse("one two", 0.0, False, truncated=True))
    assert sample.completion_ids == (ONE, TWO)
    assert sample.truncated


def test_special_tokens_that_a_reply_spells_out_stay_text(pocket):
    sample, _ = only(pocket, TrainingResponse("1<|end|><|user|>2", 0.0))
    *words, end = sample.completion_ids
    assert end == pocket.eos_token_id
    assert not set(words) & set(pocket.all_special_ids)
    assert pocket.decode(words) == "1<|end|><|user|>2"


def test_the_opening_tag_is_left_to_a_template_that_writes_it():
    opens = make_tokenizer(TEMPLATE.replace("<assistant>{% endif", "<assistant> <think> {% endif"))
    sample, report = only(opens, TrainingResponse("<think>\nwhy </think> one", 1.0))
    assert tokenising.WITHOUT_REASONING not in report.remarks
    assert sample.prompt_ids == (USER, ASK, END, ASSISTANT, THINK)
    assert sample.completion_ids == (WHY, THOUGHT, ONE, END)
    sample, _ = only(make_tokenizer(), TrainingResponse("<think> why </think> one", 1.0))
    assert sample.completion_ids == (THINK, WHY, THOUGHT, ONE, END)


def test_replies_without_reasoning_are_counted_where_the_template_opens_it():
    opens = make_tokenizer(TEMPLATE.replace("<assistant>{% endif", "<assistant> <think> {% endif"))
    replies = (TrainingResponse("one", 1.0), TrainingResponse("two", 0.0), TrainingResponse("why", 0.0, truncated=True))
    _, report = tokenised([group(*replies)], opens, settings())
    assert report.remarks[tokenising.WITHOUT_REASONING] == 2
    _, report = tokenised([group(*replies)], make_tokenizer(), settings())
    assert tokenising.WITHOUT_REASONING not in report.remarks


def test_a_reply_that_was_cut_off_within_its_opening_tag_has_nothing_to_learn():
    opens = make_tokenizer(TEMPLATE.replace("<assistant>{% endif", "<assistant> <think> {% endif"))
    cut_off = group(TrainingResponse("<think>\n", 1.0, truncated=True))
    groups, report = tokenised([cut_off], opens, settings())
    assert groups == []
    assert report.dropped[tokenising.EMPTY] == 1


def test_prompt_and_reply_together_are_the_conversation_of_the_pocket_model(pocket):
    text = '{"chosen_strategy":"mean","target_variable":"x"}'
    sample, _ = only(pocket, TrainingResponse(text, 1.0))
    chat = [{"role": "user", "content": "ask"}, {"role": "assistant", "content": text}]
    assert pocket.decode(sample.prompt_ids + sample.completion_ids) == pocket.apply_chat_template(chat, tokenize=False)
    assert sample.completion_ids[-1] == pocket.eos_token_id


def test_ids_and_log_probs_of_the_server_are_taken_as_they_are(tokenizer):
    stored = TrainingResponse("one two", 1.0, token_ids=(ONE, TWO, END), logprobs=(-0.1, -0.2, -0.3))
    sample, report = only(tokenizer, stored)
    assert (sample.completion_ids, sample.old_logps) == ((ONE, TWO, END), (-0.1, -0.2, -0.3))
    assert sample.ids_source == "server"
    assert not report


def test_an_end_of_turn_that_the_server_did_not_return_has_no_log_prob(tokenizer):
    sample, _ = only(tokenizer, TrainingResponse("one two", 1.0, token_ids=(ONE, TWO), logprobs=(-0.1, -0.2)))
    assert sample.completion_ids == (ONE, TWO, END)
    assert sample.old_logps[:2] == (-0.1, -0.2)
    assert math.isnan(sample.old_logps[2])


def test_another_end_of_the_server_is_kept(tokenizer):
    sample, _ = only(tokenizer, TrainingResponse("one", 1.0, token_ids=(ONE, EOS), logprobs=(-0.1, -0.2)))
    assert sample.completion_ids == (ONE, EOS)


@pytest.mark.parametrize("ids", [(TWO, ONE, END), (ONE, TWO, 4000), (ONE,), (-1, ONE)])
def test_replies_with_ids_of_another_tokenizer_are_retokenised_without_log_probs(tokenizer, ids):
    stored = TrainingResponse("one two", 1.0, token_ids=ids, logprobs=tuple(-0.1 for _ in ids))
    sample, report = only(tokenizer, stored)
    assert (sample.completion_ids, sample.old_logps) == ((ONE, TWO, END), None)
    assert sample.ids_source == "retokenized"
    assert report.remarks[tokenising.OTHER_TOKENIZER] == 1


def test_log_probs_of_another_length_are_not_used(tokenizer):
    sample, report = only(tokenizer, TrainingResponse("one two", 1.0, token_ids=(ONE, TWO, END), logprobs=(-0.1,)))
    assert (sample.ids_source, sample.old_logps) == ("server", None)
    assert report.remarks[tokenising.NO_LOGPROBS] == 1


def test_reasoning_that_the_server_took_apart_is_still_the_same_reply(tokenizer):
    text = "<think>\nwhy\n</think>\n\none"
    sample, _ = only(tokenizer, TrainingResponse(text, 1.0, token_ids=(THINK, WHY, THOUGHT, ONE, END)))
    assert sample.ids_source == "server"


def test_rows_that_are_too_long_or_empty_are_counted_and_the_baseline_keeps_their_rewards(tokenizer):
    replies = [
        TrainingResponse("one", 1.0),
        TrainingResponse("one two three", 0.5),
        TrainingResponse("", 0.0),
    ]
    groups, report = tokenised([group(*replies)], tokenizer, settings(max_seq_length=6))
    [[sample]] = groups
    assert sample.completion_ids == (ONE, END)
    assert sample.advantage == pytest.approx(0.5 / (0.5 + 1e-4))  # mean 0.5, sample variance 1/4
    assert report.dropped == {tokenising.TOO_LONG: 1, tokenising.EMPTY: 1}


def test_a_group_without_any_usable_reply_goes_and_is_counted(tokenizer):
    groups, report = tokenised([group(TrainingResponse(" ", 1.0))], tokenizer, settings())
    assert groups == []
    assert report.dropped == {tokenising.EMPTY: 1, "groups: none of their replies is usable": 1}


def test_an_empty_reply_that_the_model_did_sample_is_trained_on(tokenizer):
    sample, _ = only(tokenizer, TrainingResponse("", 0.0, token_ids=(END,), logprobs=(-2.0,)))
    assert (sample.completion_ids, sample.old_logps) == ((END,), (-2.0,))


def test_a_tokenizer_without_template_and_a_template_that_refuses(tokenizer):
    with pytest.raises(ConfigurationError, match="no chat template"):
        tokenised([group(TrainingResponse("one", 1.0))], make_tokenizer(None), settings())
    refused = TrainingGroup("g", "p", "math", (Message(role="system", content="x"),), (TrainingResponse("one", 1.0),))
    with pytest.raises(ConfigurationError, match=r"rejects a conversation of system\nno system prompt"):
        tokenised([refused], tokenizer, settings())


DROPS = "{% if messages[0]['role'] == 'system' %}{% set messages = messages[1:] %}{% endif %}"


def test_a_template_that_fails_on_plain_text_is_refused():
    """As one for messages of several parts."""
    with pytest.raises(ConfigurationError, match="rejects a conversation of user, assistant"):
        ChatTokens(make_tokenizer("{{ messages[0]['content'] + 1 }}"))


@pytest.mark.parametrize("start", ["", DROPS], ids=["refuses", "leaves out"])
def test_without_a_system_role_its_text_stands_in_front_of_the_user_message(tmp_path, start):
    plain = make_tokenizer()
    make_tokenizer(start + plain.chat_template).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    tokenizer = load_tokenizer(settings(model_name_or_path=str(tmp_path)))
    tokenizer.save_pretrained(tmp_path)  # as with a model that was trained so
    again = load_tokenizer(settings(model_name_or_path=str(tmp_path)))
    chat = (Message(role="system", content="one"), Message(role="user", content="two"))
    merged = (Message(role="user", content="one two"),)
    for loaded in (tokenizer, again):
        assert ChatTokens(loaded).prompt(chat) == ChatTokens(plain).prompt(merged)
        assert ChatTokens(loaded).prompt(chat[1:]) == ChatTokens(plain).prompt(chat[1:])
    assert again.chat_template == tokenizer.chat_template


def test_advantages_by_hand():
    rewards = [[1.0, 0.0, 0.0, 1.0], [0.5, 0.5]]
    # the sample variance of 1, 0, 0, 1 is 4 * 0.25 / 3
    unit = 0.5 / (math.sqrt(1 / 3) + 1e-4)
    assert advantages(rewards, "group") == [[pytest.approx(sign * unit) for sign in (1, -1, -1, 1)], [0.0, 0.0]]
    torch = pytest.importorskip("torch")
    values = torch.tensor([0.9, 0.2, 0.5])
    of_trl = (values - values.mean()) / (values.std() + 1e-4)
    assert advantages([values.tolist()], "group")[0] == pytest.approx(of_trl.tolist(), rel=1e-4)
    assert advantages(rewards, "none") == [[0.5, -0.5, -0.5, 0.5], [0.0, 0.0]]
    # all six: mean 0.5, sum of squares 1.0, so the sample variance is 1/5
    divisor = math.sqrt(0.2) + 1e-4
    assert advantages(rewards, "batch") == [
        pytest.approx([0.5 / divisor, *[-0.5 / divisor] * 2, 0.5 / divisor]),
        [0, 0],
    ]
    assert advantages([[0.3]], "batch") == [[0.0]]
    with pytest.raises(ValueError, match="group, batch or none"):
        advantages(rewards, "rows")


def test_the_configuration_chooses_the_scale(tokenizer):
    two = group(TrainingResponse("one", 1.0), TrainingResponse("two", 0.0))
    groups, _ = tokenised([two], tokenizer, settings(scale_rewards="none"))
    assert [sample.advantage for sample in groups[0]] == [0.5, -0.5]


@pytest.fixture
def trace():
    from engine.records import Problem
    from engine.tasks.registry import task_named
    from grpo_training.agents.generator import generator_messages, prompt_hash

    task = task_named("math")
    messages = generator_messages(task, Problem(id="p", text="ask", answer="1"), (), "full")
    return {
        "task_id": "p",
        "prompt": "ask",
        "thinking": "why",
        "full_response": "one",
        "messages": [message.model_dump() for message in messages],
        "prompt_hash": prompt_hash(task, "full"),
        "accepted": True,
        "teacher_metadata": {"finish_reason": "stop"},
    }


def teacher(tmp_path, tokenizer, *rows, report=None):
    from grpo_training.train.data.teacher_samples import load_teacher_samples

    path = tmp_path / "traces.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_teacher_samples(tokenizer, settings(teacher_traces=path), DropReport() if report is None else report)


def test_accepted_traces_become_rows_with_their_reasoning(tmp_path, trace):
    tokenizer = make_tokenizer(TEMPLATE.replace("{{ raise_exception('no system prompt') }}", ""))
    report = DropReport()
    rows = [
        trace,
        trace | {"sample_idx": 1, "thinking": None},
        trace | {"sample_idx": 2, "full_response": "<think> why </think> one"},
        trace | {"sample_idx": 3, "accepted": False},
        trace | {"sample_idx": 4, "prompt_hash": "0123456789ab"},
        trace | {"sample_idx": 5, "teacher_metadata": {"finish_reason": "length"}},
    ]
    samples = teacher(tmp_path, tokenizer, *rows, report=report)
    assert [sample.completion_ids for sample in samples] == [
        (THINK, WHY, THOUGHT, ONE, END),
        (ONE, END),
        (THINK, WHY, THOUGHT, ONE, END),
    ]
    assert {(sample.reward, sample.advantage, sample.old_logps) for sample in samples} == {(1.0, 0.0, None)}
    assert len({sample.group_id for sample in samples}) == 3
    assert report.dropped == {
        "traces: of another program, and never executed here": 1,
        "traces: made with another prompt than the student's": 1,
        "traces: not accepted by the tests": 1,
    }


def test_traces_of_another_prompt_are_refused_with_the_counts(tmp_path, trace, tokenizer):
    with pytest.raises(InputError, match=r"No trace of .* can be imitated\n.*1  traces: made with another prompt"):
        teacher(tmp_path, tokenizer, trace | {"prompt_hash": "0123456789ab"})
