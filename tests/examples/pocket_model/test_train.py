import json
import math
import random
from types import SimpleNamespace

import pytest

from examples.pocket_model.corpus import Corpus
from examples.pocket_model.quickstart import FAMILIES
from examples.pocket_model.settings import PocketTrainSettings

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from examples.pocket_model.batches import Batch, draw_batches, encode  # noqa: E402
from examples.pocket_model.muon import Muon, orthogonal  # noqa: E402
from examples.pocket_model.trainer import (  # noqa: E402
    CHOICE_WEIGHT,
    Trainer,
    learning_rate,
    load_or_train_tokenizer,
    reply_loss,
)

POOL = 12


def trainer_of(settings):
    return Trainer(settings, pool=POOL, validate=lambda model, tokenizer: {})


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Settings of a run that takes a second, with a trained tokenizer in its folder."""
    folder = tmp_path_factory.mktemp("pocket")
    settings = PocketTrainSettings(
        run_dir=folder, output=folder / "model", hidden=64, layers=1, tokens=6000, batch_tokens=600, threads=1
    )
    load_or_train_tokenizer(settings, POOL)
    return settings


def test_the_learning_rate_rises_and_falls_along_a_cosine():
    assert learning_rate(1.0, 0.02) == pytest.approx(1.0)
    assert learning_rate(1.0, 0.0) == pytest.approx(0.05 / 1.05)
    assert learning_rate(1.0, 0.51) == pytest.approx(0.03 + 0.97 / 2)  # half way down
    assert learning_rate(2.0, 1.0) == pytest.approx(0.06)


def test_tokens_are_whole_words_single_digits_and_lose_nothing(small):
    tokenizer = trainer_of(small).tokenizer
    text = 'Ada pays 1203 euros, "50%" of it; 2^3 = 8.\n- [G1-001] Grüße {x}'
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    pieces = [tokenizer.decode([index]) for index in ids]
    with_digits = [piece for piece in pieces if any(sign.isdigit() for sign in piece)]
    assert with_digits == list("1203502381001")


def test_only_the_reply_has_labels_and_the_choice_is_marked(small):
    tokenizer = trainer_of(small).tokenizer
    item = Corpus("train", 3).generator(FAMILIES["crew"], random.Random(0))
    row = encode(tokenizer, item)
    assert tokenizer.decode(row.ids[row.prompt :]) == item.reply + "<|end|>"
    assert tokenizer.decode(row.ids[: row.prompt]).endswith("<|end|><|assistant|>")
    assert tokenizer.decode(row.ids[row.prompt : row.fork]) == '{"chosen_strategy":"'
    first, other = (tokenizer.decode([token]) for token in (row.ids[row.fork], row.other))
    assert item.reply.removeprefix('{"chosen_strategy":"').startswith(first)
    assert item.other_reply.removeprefix('{"chosen_strategy":"').startswith(other)
    assert first != other
    for batch in draw_batches(tokenizer, small, 0, 3, POOL):
        assert batch.ids.shape == batch.labels.shape == batch.others.shape == batch.chances.shape
        assert (batch.others != -100).sum(dim=1).tolist() == [1] * len(batch.ids)
        assert (batch.chances[batch.others == -100] == 1).all()
        for ids, marks in zip(batch.ids, batch.labels, strict=True):
            learned = tokenizer.decode(ids[marks != -100])
            json.loads(learned.removesuffix("<|end|>"))
            assert tokenizer.pad_token not in learned


def test_the_loss_covers_the_replies_and_both_tokens_at_the_choice():
    class Fixed:
        """Predicts token 0 with probability 1/2 and tokens 1 and 2 with 1/4 each, at every position."""

        def model(self, input_ids, use_cache):
            return SimpleNamespace(last_hidden_state=torch.zeros(*input_ids.shape, 1))

        def lm_head(self, hidden):
            return torch.log(torch.tensor([0.5, 0.25, 0.25])).expand(*hidden.shape[:-1], 3)

    batch = Batch(
        ids=torch.tensor([[1, 0, 0, 1, 2]]),  # two tokens of prompt, the reply 0 1, padding
        labels=torch.tensor([[-100, -100, 0, 1, -100]]),
        others=torch.tensor([[-100, -100, 2, -100, -100]]),
        chances=torch.tensor([[1.0, 1.0, 0.25, 1.0, 1.0]]),
    )
    choice = 0.25 * math.log(2) + 0.75 * math.log(4)
    assert float(reply_loss(Fixed(), batch)) == pytest.approx((CHOICE_WEIGHT * choice + math.log(4)) / 2)


def test_padding_changes_no_loss(small):
    trainer = trainer_of(small)
    batch = next(draw_batches(trainer.tokenizer, small, 0, 3, POOL))
    fills = {"ids": trainer.tokenizer.pad_token_id, "labels": -100, "others": -100, "chances": 1.0}
    wider = Batch(
        **{name: torch.nn.functional.pad(getattr(batch, name), (0, 7), value=fill) for name, fill in fills.items()}
    )
    with torch.no_grad():
        losses = [float(reply_loss(trainer.model, inputs)) for inputs in (batch, wider)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_an_interrupted_run_gives_the_same_weights(small, tmp_path):
    undisturbed = trainer_of(small)
    undisturbed.run()
    folder = tmp_path / "again"
    folder.mkdir()
    (small.run_dir / "tokenizer").rename(folder / "tokenizer")
    try:
        cut = small.model_copy(update={"run_dir": folder})
        first = trainer_of(cut)
        first.train_on_pool()
        first.save()
        second = trainer_of(cut)
        assert second.tokens == first.tokens > 0
        second.run()
    finally:
        (folder / "tokenizer").rename(small.run_dir / "tokenizer")
    assert (second.steps, second.tokens) == (undisturbed.steps, undisturbed.tokens)
    for expected, weight in zip(undisturbed.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(expected, weight)


def test_muon_makes_updates_orthogonal():
    torch.manual_seed(0)
    for shape in ((2, 8, 20), (2, 20, 8)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert values.min() > 0.5
        assert values.max() < 1.3
    weight = torch.nn.Parameter(torch.eye(2))
    weight.grad = torch.tensor([[3.0, 0.0], [0.0, 0.03]])  # the small direction moves as far as the large one
    Muon([weight], lr=0.1, weight_decay=0.0).step()
    moved = (torch.eye(2) - weight).detach().diagonal()
    assert (moved / (0.1 * 0.2 * 2**0.5)).tolist() == pytest.approx([1.0, 1.0], abs=0.35)
