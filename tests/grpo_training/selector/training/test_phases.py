"""The objectives of RCE and GRPO, against numbers worked out by hand."""

import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from grpo_training.selector.data.groups import Batch  # noqa: E402
from grpo_training.selector.training import phases  # noqa: E402
from grpo_training.selector.training.loop import adapted_temperature  # noqa: E402
from grpo_training.selector.training.state import is_best  # noqa: E402


def batch_of(rewards, steps=2):
    rewards_BN = torch.tensor(rewards, dtype=torch.float64)
    real_BN = ~rewards_BN.isnan()
    nothing = torch.zeros(0)
    step_mask = real_BN.unsqueeze(-1).expand(*real_BN.shape, steps)
    return Batch(nothing, nothing, nothing, nothing, step_mask, rewards_BN.nan_to_num(0.0), real_BN)


@pytest.fixture
def scored(monkeypatch):
    """Replaces the network by given log-probs of the steps."""

    def give(logps_BNS):
        monkeypatch.setattr(phases, "step_logps", lambda model, batch: logps_BNS)
        monkeypatch.setattr(phases, "step_logps_at", logps_at)

    def logps_at(model, batch, temperatures):
        """Of the trained policy (None) those given; of the old one, its own log-probs of whole sequences."""
        if model is None:
            return torch.stack([phases.step_logps(model, batch)] * len(temperatures))
        return torch.stack([model.unsqueeze(-1)] * len(temperatures))

    return give


def test_rce_weighs_the_summed_cross_entropy_by_the_softmax_of_the_rewards(scored):
    logps = torch.tensor([[[-1.0, -2.0], [-0.5, -0.5]], [[-3.0, -1.0], [-9.0, -9.0]]], requires_grad=True)
    scored(logps)
    batch = batch_of([[1.0, 0.0], [0.4, math.nan]])
    term = phases.rce_step(None, batch, 0.5)
    weight = math.exp(2 * 2**0.5) / (math.exp(2 * 2**0.5) + 1)  # z-scores of two differ by the root of 2
    assert float(term.loss) == pytest.approx(((weight * 3 + (1 - weight) * 1) + 4.0) / 2, rel=1e-5)
    weight = math.exp(2**0.5) / (math.exp(2**0.5) + 1)
    assert float(phases.rce_term(logps, batch, 1.0).loss) == pytest.approx(
        (weight * 3 + (1 - weight) * 1 + 4) / 2, rel=1e-5
    )


def test_grpo_is_the_clipped_gradient_with_sequence_ratios_and_the_kl_of_the_plan(scored):
    new = torch.tensor([[[-1.0, -1.0], [-2.0, -1.0], [-1.0, -0.5]]], requires_grad=True)
    scored(new)
    old = torch.tensor([[-2.5, -3.1, -1.0]])
    term = phases.grpo_step(None, batch_of([[2.0, 0.0, 1.0]]), old, top_k=None, beta=0.3, epsilon=0.2)
    # advantages 1, -1, 0 (mean 1, unbiased std 1); log ratios 0.5, 0.1, -0.5
    ratios = [math.exp(0.5), math.exp(0.1), math.exp(-0.5)]
    policy = -(min(ratios[0], 1.2) - ratios[1] + 0) / 3
    kl = sum(ratio - 1 - math.log(ratio) for ratio in ratios) / 3
    assert term.metrics["loss/policy"] == pytest.approx(policy, rel=1e-5)
    assert term.metrics["kl"] == pytest.approx(kl, rel=1e-5)
    assert float(term.loss) == pytest.approx(policy + 0.3 * kl, rel=1e-5)
    term.loss.backward()
    # the first is clipped, so only the KL moves it: beta (ratio - 1) / 3
    assert new.grad[0, 0, 0].item() == pytest.approx(0.3 * (ratios[0] - 1) / 3, rel=1e-4)
    assert new.grad[0, 1, 0].item() == pytest.approx((ratios[1] + 0.3 * (ratios[1] - 1)) / 3, rel=1e-4)


def test_the_best_candidates_keep_their_advantage_over_all_of_them(scored):
    """With the five best of twelve, ties would have advantage 0 if they were compared with each other only."""
    scored(torch.zeros(1, 12, 2, requires_grad=True))
    rewards = [[1.6] * 6 + [0.0] * 6]
    term = phases.grpo_step(None, batch_of(rewards), torch.zeros(1, 12), top_k=5, beta=0.0, epsilon=0.2)
    assert term.metrics["advantage/mean"] == pytest.approx(0.8 / (0.8 * math.sqrt(12 / 11)), rel=1e-5)
    assert term.metrics["frac_reward_zero_std"] == 0


def test_queries_without_spread_add_nothing(scored):
    logps = torch.zeros(2, 2, 2, requires_grad=True)
    scored(logps)
    term = phases.grpo_step(
        None, batch_of([[1.6, 1.6], [2.0, 0.0]]), torch.zeros(2, 2), top_k=None, beta=0.1, epsilon=0.2
    )
    assert term.metrics["frac_reward_zero_std"] == 0.5
    term.loss.backward()
    assert logps.grad[0].abs().sum() == 0
    assert logps.grad[1].abs().sum() > 0
    nothing = phases.grpo_step(None, batch_of([[1.0, 1.0]]), torch.zeros(1, 2), top_k=None, beta=0.1, epsilon=0.2)
    assert float(nothing.loss) == 0
    assert "kl" not in nothing.metrics  # a KL that was not measured raises no temperature


def test_the_best_of_equal_candidates_are_the_first():
    batch = SimpleNamespace(**batch_of([[1.0, 3.0, 3.0, math.nan], [0.5, 0.1, 0.2, 0.3]])._asdict())
    assert phases.best_sequences(batch, 2).tolist() == [[False, True, True, False], [True, False, False, True]]
    assert phases.best_sequences(batch, None).tolist() == batch.sequence_mask_BN.tolist()


def test_the_best_epoch_of_grpo_is_near_its_start():
    best = []
    epochs = [(0.9, 0.5), (0.8, 0.05), (0.7, 0.02), (0.95, 0.4), (0.85, 0.09)]
    chosen = [is_best("grpo", {"validation/reward": reward, "validation/kl": kl}, best, 0.1) for reward, kl in epochs]
    assert chosen == [True, True, False, False, True]
    losses = []
    assert [is_best("sft", {"validation/loss": loss}, losses, 0) for loss in (3.0, 2.0, 2.5)] == [True, True, False]
    assert is_best("rce", {}, [], 0)  # without held-out queries the last epoch counts


def test_the_temperature_of_grpo_scales_both_policies_of_the_ratio(monkeypatch):
    """At temperature 2 the log-probs of the hand-made policies are halved; the KL in the metrics is that at 1."""

    def logps_at(model, batch, temperatures):
        logps = torch.tensor([[[0.0, -2.0], [-4.0, 0.0]]], requires_grad=True) if model is None else torch.tensor(model)
        return torch.stack([logps / temperature for temperature in temperatures])

    monkeypatch.setattr(phases, "step_logps_at", logps_at)
    old = [[[0.0, -2.2], [-3.4, 0.0]]]
    options = {"top_k": None, "beta": 0.5, "epsilon": 0.2}
    term = phases.grpo_step(None, batch_of([[1.0, 0.0]]), old, temperature=2.0, **options)
    ratios = [math.exp(0.1), math.exp(-0.3)]  # of log ratios 0.2 and -0.6
    advantage = 0.5 / math.sqrt(0.5)
    policy = -advantage * (ratios[0] - max(ratios[1], 0.8)) / 2
    kl = sum(ratio - 1 - math.log(ratio) for ratio in ratios) / 2
    assert float(term.loss.detach()) == pytest.approx(policy + 0.5 * kl, rel=1e-5)
    full = [math.exp(0.2), math.exp(-0.6)]
    assert term.metrics["kl"] == pytest.approx(sum(r - 1 - math.log(r) for r in full) / 2, rel=1e-5)
    assert term.metrics["grpo/temperature"] == 2.0
    weights = [math.exp(-2) / (math.exp(-2) + math.exp(-4))]
    assert term.metrics["reward"] == pytest.approx(weights[0], rel=1e-5)


def test_the_temperature_rises_while_the_kl_is_small_and_stays_within_its_bounds():
    assert adapted_temperature(1.0, 0.001, 0.01, 0.1) == 1.05
    assert adapted_temperature(1.99, 0.001, 0.01, 0.1) == 2.0
    assert adapted_temperature(1.2, 0.05, 0.01, 0.1) == 1.2
    assert adapted_temperature(1.0, 0.2, 0.01, 0.1) == pytest.approx(1 / 1.05)
    assert adapted_temperature(0.51, 0.2, 0.01, 0.1) == 0.5
