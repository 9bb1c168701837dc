"""The network: sizes, masks, log-probs, sampling, beam search, checkpoints."""

import itertools
import math

import pytest

torch = pytest.importorskip("torch")

from engine.errors import InputError, MissingInputError  # noqa: E402
from grpo_training.selector.model.checkpoint import CheckpointInfo, load_model, load_plain, save_model  # noqa: E402
from grpo_training.selector.model.decoding import beam_search, sample_sequences, sequence_logps_at  # noqa: E402
from grpo_training.selector.model.pointer import PointerSelector, SelectorConfig, count_parameters  # noqa: E402

VARIANTS = [
    {"decoder": "static"},
    {"decoder": "gate", "num_layers": 2, "num_heads": 2},
    {"decoder": "gru"},
    {"decoder": "gate", "stop": True},
]


def sequence_logps(model, encoded, labels):
    return sequence_logps_at(model, encoded, labels, (1.0,))[0]


def make(variant, seed=0, **more):
    torch.manual_seed(seed)
    return PointerSelector(SelectorConfig(**{"d_model": 6, "hidden_dim": 8, **variant, **more})).eval()


def inputs(batch=3, places=5, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 6, generator=generator), torch.randn(batch, places, 6, generator=generator)


def test_parameters_of_the_published_sizes():
    """d 512, h 256, 1 layer: 525,824 without the gate and 657,152 with it; the projections are 49.85 % of them."""
    static = PointerSelector(SelectorConfig(512, decoder="static"))
    assert count_parameters(static) == 525_824
    assert count_parameters(PointerSelector(SelectorConfig(512, decoder="gate"))) == 657_152
    for parameter in static.backbone():
        parameter.requires_grad_(False)
    assert round(count_parameters(static, trainable=True) / 525_824, 4) == 0.5015


def test_equal_dimensions_need_no_input_projection():
    assert "input_proj.weight" not in dict(make({}, d_model=8).state_dict())


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_are_bounded_used_places_are_masked_and_the_loss_is_a_cross_entropy(variant):
    model, (query, pool) = make(variant), inputs()
    labels = torch.tensor([[0, 1], [2, 0], [4, 3]])
    with torch.no_grad():
        output = model(query, pool, labels_BS=labels)
    assert output.logits_BSK.shape == (3, 2, 5 + model.config.stop)
    first = output.logits_BSK[:, 0]
    assert float(first[:, :5].abs().max()) <= 10.001
    assert (first[:, 5:] == -math.inf).all()  # no sequence is empty
    assert [float(output.logits_BSK[row, 1, labels[row, 0]]) for row in range(3)] == [-100.0] * 3
    by_hand = [
        -math.log(math.exp(float(row[step][label])) / sum(math.exp(float(one)) for one in row[step]))
        for row, wanted in zip(output.logits_BSK, labels.tolist(), strict=True)
        for step, label in enumerate(wanted)
    ]
    assert float(output.loss) == pytest.approx(sum(by_hand) / 6, rel=1e-4)


def test_only_a_decoder_with_a_state_depends_on_what_was_chosen_before():
    query, pool = inputs(batch=1)
    for decoder, differs in (("static", False), ("gate", True), ("gru", True)):
        model = make({"decoder": decoder})
        one, other = (
            model(query, pool, labels_BS=torch.tensor([[first, 4]])).logits_BSK[0, 1, 2:4] for first in (0, 1)
        )
        assert torch.allclose(one, other) != differs, decoder


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_padded_pool_gives_what_the_query_alone_gives(variant):
    """Pools of different sizes in one batch: padding changes neither log-probs nor what is chosen."""
    model, (query, pool) = make(variant), inputs()
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
    samples = sample_sequences(model, model.encode(query, padded, mask), 2, 50, generator=torch.Generator())
    shots = samples.places_BNS[1]
    assert int(shots[shots < 5].max()) < 3


def test_order_of_the_pool_does_not_matter():
    model, (query, pool) = make({"decoder": "gate"}), inputs(batch=1)
    order = torch.tensor([3, 0, 4, 1, 2])
    best = beam_search(model, model.encode(query, pool), 2, 4)
    moved = beam_search(model, model.encode(query, pool[:, order]), 2, 4)
    assert torch.equal(order[moved.places_BNS[0]], best.places_BNS[0])


@pytest.mark.parametrize("variant", VARIANTS[:3])
def test_a_wide_beam_finds_every_pair_with_its_exact_log_prob(variant):
    model, (query, pool) = make(variant), inputs(batch=1, places=4)
    pairs = list(itertools.permutations(range(4), 2))
    encoded = model.encode(query, pool)
    logps = sequence_logps(model, encoded, torch.tensor([pairs])).sum(-1)[0]
    assert float(logps.exp().sum()) == pytest.approx(1, abs=1e-4)
    best = beam_search(model, encoded, 2, 12)
    expected = sorted(zip(logps.tolist(), pairs, strict=True), reverse=True)
    assert [tuple(one) for one in best.places_BNS[0].tolist()] == [pair for _, pair in expected]
    assert best.logps_BN[0].tolist() == pytest.approx([logp for logp, _ in expected], abs=1e-4)
    greedy = model(query, pool, steps=2).predictions_BS[0].tolist()
    assert greedy == beam_search(model, encoded, 2, 1).places_BNS[0, 0].tolist()


def test_samples_follow_the_probabilities_of_the_network():
    model, (query, pool) = make({"decoder": "gate"}), inputs(batch=1, places=3)
    with torch.no_grad():
        encoded = model.encode(query, pool)
    drawn = sample_sequences(model, encoded, 2, 20_000, generator=torch.Generator().manual_seed(3))
    pairs = list(itertools.permutations(range(3), 2))
    logps = sequence_logps(model, encoded, torch.tensor([pairs])).sum(-1)[0]
    for pair, logp in zip(pairs, logps.tolist(), strict=True):
        found = (drawn.places_BNS[0] == torch.tensor(pair)).all(-1)
        probability = math.exp(logp)
        assert abs(float(found.float().mean()) - probability) < 4 * math.sqrt(probability * (1 - probability) / 20_000)
        if bool(found.any()):
            assert torch.allclose(drawn.logps_BN[0][found], torch.tensor(logp), atol=1e-4)


def test_with_a_stop_entry_sequences_end_early_and_keep_their_probability():
    model, (query, pool) = make({"decoder": "gate", "stop": True}), inputs(batch=1, places=3)
    encoded = model.encode(query, pool)
    best = beam_search(model, encoded, 3, 40)
    exist = best.logps_BN[0] > -math.inf
    # sequences of 1, 2 and 3 shots: 3 + 6 + 6; none is empty
    assert int(exist.sum()) == 15
    assert float(best.logps_BN[0][exist].exp().sum()) == pytest.approx(1, abs=1e-4)
    assert sorted(best.length_BN[0][exist].tolist()) == [1] * 3 + [2] * 6 + [3] * 6
    drawn = sample_sequences(model, encoded, 3, 200, generator=torch.Generator().manual_seed(0))
    known = {
        tuple(places[:length]): logp
        for places, length, logp in zip(
            best.places_BNS[0].tolist(), best.length_BN[0].tolist(), best.logps_BN[0].tolist(), strict=True
        )
        if logp > -math.inf
    }
    for places, length, logp in zip(
        drawn.places_BNS[0].tolist(), drawn.length_BN[0].tolist(), drawn.logps_BN[0].tolist(), strict=True
    ):
        assert known[tuple(places[:length])] == pytest.approx(logp, abs=1e-4)


def test_impossible_requests_are_refused():
    model, (query, pool) = make({}), inputs()
    with pytest.raises(InputError, match="A label is no place of its pool"):
        model(query, pool, labels_BS=torch.tensor([[0, 5]] * 3))  # a dataset's id instead of a position
    with pytest.raises(InputError, match="6 steps"):
        model(query, pool, steps=6)
    with pytest.raises(InputError, match="6 steps are not possible"):
        beam_search(model, model.encode(query, pool), 6, 2)
    with pytest.raises(InputError, match="temperature must be above 0"):
        sample_sequences(model, model.encode(query, pool), 2, 1, temperature=0)


def test_a_checkpoint_restores_the_weights_and_refuses_others(tmp_path):
    model, (query, pool) = make({"decoder": "gru"}, seed=5), inputs()
    save_model(tmp_path / "a.ckpt", model, CheckpointInfo("sft", 3, {"files": ["e.npy"]}, 2, 1e-4))
    loaded, info = load_model(tmp_path / "a.ckpt")
    assert (info.phase, info.epoch, info.shots, info.embeddings) == ("sft", 3, 2, {"files": ["e.npy"]})
    assert torch.equal(loaded(query, pool, steps=2).logits_BSK, model(query, pool, steps=2).logits_BSK)

    content = load_plain(tmp_path / "a.ckpt")
    # earlier attempts lost weights because names did not match and nobody looked
    for change in ({"attention.0.in_proj_bias": None}, {"pointer_selector.gate.bias": torch.zeros(8)}):
        weights = {name: value for name, value in {**content["state_dict"], **change}.items() if value is not None}
        torch.save(content | {"state_dict": weights}, tmp_path / "b.ckpt")
        with pytest.raises(InputError, match="not those of its architecture"):
            load_model(tmp_path / "b.ckpt")
    torch.save(content | {"config": content["config"] | {"num_layers": 3}}, tmp_path / "b.ckpt")
    with pytest.raises(InputError, match="not those of its architecture"):
        load_model(tmp_path / "b.ckpt")
    torch.save(content | {"config": content["config"] | {"hidden_dim": "8"}}, tmp_path / "b.ckpt")
    with pytest.raises(InputError, match="not those of its architecture"):
        load_model(tmp_path / "b.ckpt")
    for name, value in {
        "state_dict": None,
        "config": [],
        "embeddings": [1],
        "shots": "2",
        "learning_rate": "x",
    }.items():
        torch.save(content | {name: value}, tmp_path / "b.ckpt")
        with pytest.raises(InputError, match=rf"b\.ckpt: {name} is a "):
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
        lambda content: content["config"].update(num_heads=3),
        lambda content: content["config"].update(hidden_dim=0),
        lambda content: content["state_dict"]["query_proj.weight"].fill_(float("nan")),
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
