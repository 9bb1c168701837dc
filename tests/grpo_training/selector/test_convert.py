"""Checkpoints of Lever-Plus: their weights give the logits that its network gave."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from engine.errors import InputError  # noqa: E402
from grpo_training.selector.__main__ import main  # noqa: E402
from grpo_training.selector.model.checkpoint import load_model  # noqa: E402

D, H, K = 12, 8, 6


class Theirs(nn.Module):
    """The network as the specification describes it, written apart from ours."""

    def __init__(self, *, single):
        super().__init__()
        self.input_proj = nn.Linear(D, H, bias=False)
        one, norm = nn.MultiheadAttention(H, 1, batch_first=True), nn.LayerNorm(H)
        if single:
            self.cross_attn, self.attn_norm = one, norm
        else:
            self.cross_attn_layers, self.attn_norms = nn.ModuleList([one]), nn.ModuleList([norm])
        self.layer = lambda q, c: norm(q + one(q, c, c)[0])
        self.query_proj, self.cand_proj = nn.Linear(H, H, bias=False), nn.Linear(H, H, bias=False)
        self.query_update_gate = nn.Linear(2 * H, H)

    def logits(self, query, pool, chosen):
        query, pool = self.input_proj(query), self.input_proj(pool)
        state = functional.normalize(self.query_proj(self.layer(query.unsqueeze(1), pool).squeeze(1)), dim=-1)
        pool = functional.normalize(self.cand_proj(pool), dim=-1)
        first = torch.einsum("bh,bkh->bk", state, pool) / 0.1
        picked = pool[torch.arange(len(pool)), chosen]
        gate = torch.sigmoid(self.query_update_gate(torch.cat([state, picked], -1)))
        state = functional.normalize(gate * state + (1 - gate) * picked, dim=-1)
        second = torch.einsum("bh,bkh->bk", state, pool) / 0.1
        return first, second.scatter(1, chosen.unsqueeze(1), -100.0)


@pytest.mark.parametrize("single", [True, False])
def test_a_lightning_checkpoint_becomes_one_of_ours_with_the_same_logits(tmp_path, single):
    torch.manual_seed(0)
    theirs = Theirs(single=single)
    weights = {f"lever_lm.pointer_selector.{name}": value for name, value in theirs.state_dict().items()}
    weights["lever_lm.clip.visual.weight"] = torch.zeros(2)
    torch.save({"epoch": 19, "state_dict": weights, "hyper_parameters": {"lr": 1e-4}}, tmp_path / "v2.ckpt")
    torch.save(torch.zeros(4, D), tmp_path / "emb.pt")
    words = ["--checkpoint", str(tmp_path / "v2.ckpt"), "--img-emb", str(tmp_path / "emb.pt")]
    words += ["--text-emb", str(tmp_path / "emb.pt"), "--output", str(tmp_path / "ours.ckpt")]
    assert main(["convert", *words]) == 0
    ours, info = load_model(tmp_path / "ours.ckpt")
    assert (info.phase, info.epoch, info.learning_rate) == ("sft", 20, 1e-4)
    assert [part["modality"] for part in info.embeddings["parts"]] == ["image", "text"]
    query, pool, chosen = torch.randn(5, D), torch.randn(5, K, D), torch.tensor([0, 3, 5, 1, 2])
    labels = torch.stack([chosen, (chosen + 1) % K], 1)
    with torch.no_grad():
        expected = theirs.logits(query, pool, chosen)
        found = ours(query, pool, labels_BS=labels).logits_BSK
    assert torch.allclose(found[:, 0], expected[0], atol=1e-5)
    assert torch.allclose(found[:, 1], expected[1], atol=1e-5)


def test_weights_without_a_counterpart_are_refused_by_name(tmp_path):
    weights = Theirs(single=False).state_dict() | {"decoder_gru.weight_ih": torch.zeros(3)}
    torch.save({"model_state_dict": weights}, tmp_path / "v4.pt")
    torch.save(torch.zeros(4, D), tmp_path / "emb.pt")
    with pytest.raises(InputError, match=r"'decoder_gru.weight_ih' has no counterpart"):
        main(["convert", "--checkpoint", str(tmp_path / "v4.pt"), "--embeddings", str(tmp_path / "emb.pt")])


@pytest.mark.parametrize("weights", [{"pointer_selector.query_proj.weight": "x"}, {5: torch.ones(2)}])
def test_weights_that_are_no_tensors_with_names_are_refused(tmp_path, weights):
    torch.save({"state_dict": weights}, tmp_path / "bad.ckpt")
    words = ["--checkpoint", str(tmp_path / "bad.ckpt"), "--embeddings", str(tmp_path / "e.npy")]
    with pytest.raises(InputError, match="its weights are no tensors with names"):
        main(["convert", *words, "--output", str(tmp_path / "out.ckpt")])


@pytest.mark.parametrize("step", ["convert", "predict", "rewards", "infer"])
def test_no_file_that_is_read_is_written_over(tmp_path, step):
    path = tmp_path / "read"
    path.write_text("kept")
    words = {
        "convert": ["--checkpoint", str(path)],
        "predict": ["--checkpoint", "a.ckpt", "--test-data", str(path)],
        "rewards": ["--dataset", "quickstart", "--beam-data", str(path)],
        "infer": ["--checkpoint", "a.ckpt", "--dataset", "quickstart", "--shots-dataset", str(path)],
    }[step]
    with pytest.raises(InputError, match="--output must be another file than --"):
        main([step, *words, "--output", str(path)])
    assert path.read_text() == "kept"
