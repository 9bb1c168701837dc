"""The network: sizes, masks, log-probs, sampling, beam search, checkpoints."""

import itertools
import math

import pytest

torch = pytest.importorskip("torch")

from engine.errors import InputError, MissingInputError  # noqa: E402
from grpo_training.selector.model.checkpoint import CheckpointInfo, load_model, load_plain, save_model  # noqa: E402
from grpo_training.selector.model.decoding import beam_search, sequence_logps_at  # noqa: E402
from grpo_training.selector.model.pointer import PointerSelector, SelectorConfig  # noqa: E402


def sequence_logps(model, encoded, labels):
    return sequence_logps_at(model, encoded, labels, (1.0,))[0]


def make(seed=0, **more):
    torch.manual_seed(seed)
    return PointerSelector(SelectorConfig(**{"d_model": 6, "hidden_dim": 8, **more})).eval()


def inputs(batch=3, places=5, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 6, generator=generator), torch.randn(batch, places, 6, generator=generator)


def test_parameters_of_the_published_size():
    assert sum(weight.numel() for weight in PointerSelector(SelectorConfig(512)).parameters()) == 657_152


def test_equal_dimensions_need_no_input_projection():
    assert "input_proj.weight" not in dict(make(d_model=8).state_dict())


def test_logits_are_bounded_and_used_places_are_masked():
    model, (query, pool) = make(), inputs()
    with torch.no_grad():
        encoded = model.encode(query, pool)
        first = model.logits(encoded, model.begin(encoded, 1))
        chosen = torch.tensor([[0], [2], [4]])
        second = model.logits(encoded, model.step(encoded, model.begin(encoded, 1), chosen))
    assert first.shape == second.shape == (3, 1, 5)
    assert float(first.abs().max()) <= 10.001
    assert second.gather(2, chosen.unsqueeze(-1)).flatten().tolist() == [-100.0] * 3
    by_hand = [
        math.log(math.exp(row[index]) / sum(map(math.exp, row)))
        for row, index in zip(first[:, 0].tolist(), (0, 2, 4), strict=True)
    ]
    logps = sequence_logps(model, encoded, chosen.unsqueeze(-1)).flatten().tolist()
    assert logps == pytest.approx(by_hand, rel=1e-4)


def test_the_logits_depend_on_what_was_chosen_before():
    query, pool = inputs(batch=1)
    model = make()
    encoded = model.encode(query, pool)
    logits, other_logits = (
        model.logits(encoded, model.step(encoded, model.begin(encoded, 1), torch.tensor([[first]])))[0, 0, 2:4]
        for first in (0, 1)
    )
    assert not torch.allclose(logits, other_logits)


def test_a_padded_pool_gives_what_the_query_alone_gives():
    """Pools of different sizes in one batch: padding changes neither log-probs nor what is chosen."""
    model, (query, pool) = make(), inputs()
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1, 3:] = False
    padded = pool.masked_fill(~mask.unsqueeze(-1), 99.0)
    labels = torch.tensor([[[0, 2], [1, 0]]] * 3)
    together = sequence_logps(model, model.encode(query, padded, mask), labels)
    best = beam_search(model, model.encode(query, padded, mask), 2, 3)
    alone_encoded = model.encode(query[1:2], pool[1:2, :3])
    assert torch.allclose(together[1], sequence_logps(model, alone_encoded, labels[1:2])[0], atol=1e-5)
    alone = beam_search(model, alone_encoded, 2, 3)
    assert torch.allclose(best.logps_BN[1], alone.logps_BN[0], atol=1e-5)


def test_order_of_the_pool_does_not_matter():
    model, (query, pool) = make(), inputs(batch=1)
    order = torch.tensor([3, 0, 4, 1, 2])
    best = beam_search(model, model.encode(query, pool), 2, 4)
    moved = beam_search(model, model.encode(query, pool[:, order]), 2, 4)
    assert torch.equal(order[moved.places_BNS[0]], best.places_BNS[0])


def test_a_wide_beam_finds_every_pair_with_its_exact_log_prob():
    model, (query, pool) = make(), inputs(batch=1, places=4)
    pairs = list(itertools.permutations(range(4), 2))
    encoded = model.encode(query, pool)
    logps = sequence_logps(model, encoded, torch.tensor([pairs])).sum(-1)[0]
    assert float(logps.exp().sum()) == pytest.approx(1, abs=1e-4)
    best = beam_search(model, encoded, 2, 12)
    expected = sorted(zip(logps.tolist(), pairs, strict=True), reverse=True)
    assert [tuple(pair) for pair in best.places_BNS[0].tolist()] == [pair for _, pair in expected]
    assert best.logps_BN[0].tolist() == pytest.approx([logp for logp, _ in expected], abs=1e-4)
    first = int(model.logits(encoded, model.begin(encoded, 1)).argmax())
    assert beam_search(model, encoded, 2, 1).places_BNS[0, 0, 0] == first


def test_impossible_requests_are_refused():
    model, (query, pool) = make(), inputs()
    with pytest.raises(InputError, match="6 steps are not possible"):
        beam_search(model, model.encode(query, pool), 6, 2)


def test_a_checkpoint_restores_the_weights_and_refuses_others(tmp_path):
    model, (query, pool) = make(seed=5), inputs()
    save_model(tmp_path / "a.ckpt", model, CheckpointInfo("sft", 3, {"files": ["e.npy"]}, 2, 1e-4))
    loaded, info = load_model(tmp_path / "a.ckpt")
    assert (info.phase, info.epoch, info.shots, info.embeddings) == ("sft", 3, 2, {"files": ["e.npy"]})
    labels = torch.tensor([[[0, 1]]] * 3)
    assert torch.equal(*(sequence_logps(policy, policy.encode(query, pool), labels) for policy in (loaded, model)))

    content = load_plain(tmp_path / "a.ckpt")
    # earlier attempts lost weights because names did not match and nobody looked
    for change in ({"attention.in_proj_bias": None}, {"pointer_selector.gate.bias": torch.zeros(8)}):
        weights = {name: value for name, value in {**content["state_dict"], **change}.items() if value is not None}
        torch.save(content | {"state_dict": weights}, tmp_path / "b.ckpt")
        with pytest.raises(InputError, match="not those of its architecture"):
            load_model(tmp_path / "b.ckpt")
    torch.save(content | {"config": content["config"] | {"hidden_dim": 4}}, tmp_path / "b.ckpt")
    with pytest.raises(InputError, match="not those of its architecture"):
        load_model(tmp_path / "b.ckpt")
    torch.save(content | {"config": content["config"] | {"hidden_dim": "8"}}, tmp_path / "b.ckpt")
    with pytest.raises(InputError, match="not those of its architecture"):
        load_model(tmp_path / "b.ckpt")
    torch.save({"state_dict": {}}, tmp_path / "b.ckpt")
    with pytest.raises(InputError, match="no checkpoint of a selector"):
        load_model(tmp_path / "b.ckpt")
    (tmp_path / "b.ckpt").write_bytes(b"PK damaged")
    with pytest.raises(InputError, match="Cannot read the checkpoint"):
        load_model(tmp_path / "b.ckpt")
    with pytest.raises(MissingInputError):
        load_model(tmp_path / "none.ckpt")


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content["config"].update(dropout=3),
        lambda content: content["config"].update(hidden_dim=0),
    ],
)
def test_a_damaged_checkpoint_is_named(tmp_path, damage):
    path = tmp_path / "a.ckpt"
    save_model(path, PointerSelector(SelectorConfig(8, hidden_dim=8)), CheckpointInfo("sft", 1))
    content = torch.load(path, weights_only=True)
    damage(content)
    torch.save(content, path)
    with pytest.raises(InputError, match="a.ckpt"):
        load_model(path)


def test_embeddings_of_other_dimensions_are_named():
    model = PointerSelector(SelectorConfig(8, hidden_dim=4))
    with pytest.raises(InputError, match="needs embeddings of 8 dimensions, these have 6"):
        model.encode(torch.zeros(1, 6), torch.zeros(1, 3, 6))
