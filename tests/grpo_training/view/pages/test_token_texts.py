import json

import pytest

from engine.records import Completion
from grpo_training.view.pages.rollout_view import token_views
from grpo_training.view.pages.token_texts import token_texts
from tests.conftest import ROOT

tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")

POCKET = ROOT / "data/models/pocket"
REPLY = 'weigh: 15% of 60 \n {"是": "é"}'


@pytest.fixture(scope="module")
def ids():
    return tokenizers.Tokenizer.from_file(str(POCKET / "tokenizer.json")).encode(REPLY).ids


def test_tokens_have_the_texts_of_the_reply_and_characters_of_several_tokens_are_whole(ids):
    texts = token_texts(str(POCKET), ids, REPLY)
    assert "".join(texts) == REPLY
    assert len(texts) == len(ids)
    assert "是" in texts
    assert "" in texts  # the tokens that only begin a character


def test_a_model_of_the_hub_is_read_from_its_cache(ids, tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
    folder = tmp_path / "models--own--tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("abc")
    (folder / "snapshots/abc").mkdir(parents=True)
    (folder / "snapshots/abc/tokenizer.json").write_bytes((POCKET / "tokenizer.json").read_bytes())
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert "".join(token_texts("own/tiny", ids, REPLY)) == REPLY


@pytest.mark.parametrize("model", ["", "pocket", "own/nothing", "a/b/c", "/nothing", "\0", "~nobody/x"])
def test_without_the_tokenizer_there_are_no_texts(ids, model):
    assert token_texts(model, ids, REPLY) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", "\x00", json.dumps({"version": "1.0", "model": {}})])
def test_a_file_that_is_no_tokenizer_gives_no_texts(ids, tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    assert token_texts(str(tmp_path), ids, REPLY) is None


def test_texts_of_another_tokenizer_and_impossible_ids_are_not_shown(ids):
    assert token_texts(str(POCKET), ids, "another reply") is None
    assert token_texts(str(POCKET), [-1], "") is None
    assert token_texts(str(POCKET), [10**30], "") is None


def test_log_probs_without_ids_or_tokenizer_keep_their_colours(ids):
    logprobs = [-0.01] * (len(ids) - 1) + [-9.0]
    for completion, model, has_texts in (
        (Completion(text=REPLY, logprobs=logprobs, token_ids=ids), str(POCKET), True),
        (Completion(text=REPLY, logprobs=logprobs, token_ids=ids), "pocket", False),
        (Completion(text=REPLY, logprobs=logprobs), str(POCKET), False),
    ):
        views = token_views(completion, model)
        assert [view.level for view in views] == [0] * (len(ids) - 1) + [4]
        assert all((view.text is not None) == has_texts for view in views)
