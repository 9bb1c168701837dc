"""Losses against numbers worked out by hand."""

import math

import pytest

torch = pytest.importorskip("torch")

from engine.errors import ConfigurationError  # noqa: E402
from grpo_training.rl_math.losses import (  # noqa: E402
    LossTerm,
    StepTotals,
    kl_per_token,
    policy_loss,
    rce_loss,
    sft_loss,
)
from tests.support.table import table  # noqa: E402

NAN = float("nan")


def policy(ratios, advantages, *, mask=None, totals=None, **settings):
    """``policy_loss`` on given ratios: the old log-probs are 0.5 nats a token, the new ones follow. Also the leaf."""
    old = torch.full((len(ratios), len(ratios[0])), -0.5)
    logps = (old + torch.tensor(ratios).log()).requires_grad_()
    mask = torch.ones_like(old) if mask is None else torch.tensor(mask)
    defaults = {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.2, "max_completion_length": 10}
    term = policy_loss(
        logps,
        settings.pop("old", old),
        torch.tensor(advantages),
        mask,
        totals=totals or StepTotals(len(ratios), int(mask.sum())),
        **(defaults | settings),
    )
    return term, logps


@pytest.mark.parametrize(
    ("advantage", "ratio", "cost", "gradient"),
    [
        (1.0, 1.5, -1.2, 0.0),  # gone too far up already: clipped
        (1.0, 0.5, -0.5, -0.5),  # d(-r A)/d logp = -r A
        (-1.0, 1.5, 1.5, 1.5),
        (-1.0, 0.5, 0.8, 0.0),  # gone too far down already: clipped
    ],
)
def test_the_clipped_term(advantage, ratio, cost, gradient):
    term, logps = policy([[ratio]], [advantage])
    term.loss.backward()
    assert term.loss.item() == pytest.approx(cost)
    assert logps.grad.item() == pytest.approx(gradient)
    assert term.metrics["clip_ratio/high_mean"] == float(advantage > 0 and ratio > 1)
    assert term.metrics["clip_ratio/low_mean"] == float(advantage < 0 and ratio < 1)
    assert term.metrics["clip_ratio/region_mean"] == float(gradient == 0)
    assert term.metrics["ratio_mean"] == pytest.approx(ratio)


def test_the_upper_bound_may_be_wider_than_the_lower():
    term, _ = policy([[1.5], [0.5]], [1.0, -1.0], epsilon=0.2, epsilon_high=0.28)
    assert term.loss.item() == pytest.approx((-1.28 + 0.8) / 2)
    one_sided, _ = policy([[1.5]], [1.0], epsilon=0.3, epsilon_high=None)
    assert one_sided.loss.item() == pytest.approx(-1.3)


# A response of 2 tokens costs 1 each, one of 8 tokens costs 0.
TWO_AND_EIGHT = [[1.0] * 2 + [0.0] * 6, [1.0] * 8]


@pytest.mark.parametrize(
    ("loss_type", "loss"),
    [
        ("grpo", 0.5),  # (2/2 + 0/8) / 2 responses
        ("dapo", 0.2),  # 2 / 10 tokens
        ("bnpo", 0.2),
        ("dr_grpo", 0.1),  # 2 / (2 responses x 10 tokens at most)
    ],
)
def test_what_each_type_divides_by(loss_type, loss):
    term, _ = policy([[1.0] * 8] * 2, [-1.0, 0.0], mask=TWO_AND_EIGHT, loss_type=loss_type)
    assert term.loss.item() == pytest.approx(loss)


def test_cispo_keeps_the_gradient_of_clipped_tokens():
    # -min(r, 1.2) A logp, with logp = log(r) - 0.5; the gradient is -min(r, 1.2) A on every token
    term, logps = policy([[3.0, 0.5]], [2.0], loss_type="cispo", epsilon_high=1.2)
    term.loss.backward()
    expected = -(1.2 * 2 * (math.log(3) - 0.5) + 0.5 * 2 * (math.log(0.5) - 0.5)) / 2
    assert term.loss.item() == pytest.approx(expected)
    assert logps.grad.tolist() == [[pytest.approx(-1.2), pytest.approx(-0.5)]]
    assert term.metrics["cispo_clip_ratio"] == 0.5


def test_one_ratio_a_response_is_the_geometric_mean():
    # ratios 4 and 1 over two tokens, the third is masked: sqrt(4) = 2 for both
    settings = {"mask": [[1.0, 1.0, 0.0]], "importance_sampling_level": "sequence"}
    term, _ = policy([[4.0, 1.0, 9.0]], [-1.0], loss_type="grpo", **settings)
    assert term.loss.item() == pytest.approx(2.0)
    assert term.metrics["ratio_mean"] == pytest.approx(2.0)
    clipped, logps = policy([[4.0, 1.0, 9.0]], [1.0], loss_type="grpo", **settings)
    clipped.loss.backward()
    assert clipped.loss.item() == pytest.approx(-1.2)
    assert clipped.metrics["clip_ratio/high_mean"] == 1.0
    assert logps.grad.abs().sum() == 0


def test_the_metrics_of_one_ratio_a_response_are_means_over_responses_also_where_replies_have_one_token():
    """A step of two responses in two micro-batches, of one token and of three; only the first is clipped."""
    totals = StepTotals(sequences=2, tokens=4)
    short, _ = policy([[2.0]], [1.0], loss_type="grpo", importance_sampling_level="sequence", totals=totals)
    long, _ = policy([[1.0] * 3], [1.0], loss_type="grpo", importance_sampling_level="sequence", totals=totals)
    for name, mean in {"ratio_mean": 1.5, "clip_ratio/high_mean": 0.5, "clip_ratio/region_mean": 0.5}.items():
        assert short.metrics[name] + long.metrics[name] == pytest.approx(mean), name


def test_an_unknown_old_log_prob_means_ratio_one_and_is_counted():
    old = torch.tensor([[NAN, -0.5, NAN]])  # the third is padding, which counts as nothing
    term, logps = policy([[3.0, 1.1, 1.0]], [1.0], mask=[[1.0, 1.0, 0.0]], old=old)
    term.loss.backward()
    assert term.loss.item() == pytest.approx(-(1.0 + 1.1) / 2)
    assert logps.grad.tolist() == [[pytest.approx(-0.5), pytest.approx(-0.55), 0.0]]
    assert term.metrics["old_logps_missing"] == 1
    assert term.metrics["ratio_mean"] == pytest.approx(1.05)


def test_a_hopeless_ratio_stays_finite():
    old = torch.tensor([[-0.5 - 300.0]])
    term, logps = policy([[1.0]], [0.0], old=old)
    term.loss.backward()
    assert term.loss.item() == 0.0
    assert torch.isfinite(logps.grad).all()
    kl = kl_per_token(torch.tensor([-300.0]), torch.tensor([0.0]))
    assert torch.isfinite(kl).all()


def test_the_kl_of_a_token():
    logp, ref = torch.tensor([-1.0]), torch.tensor([-1.2])
    assert kl_per_token(logp, ref).item() == pytest.approx(0.0187308, abs=1e-6)
    assert kl_per_token(logp, logp).item() == 0.0
    assert (kl_per_token(torch.linspace(-3, 3, 101), torch.zeros(101)) >= 0).all()


def test_kl_pulls_towards_the_reference():
    for ref, sign in ((-0.9, -1), (-0.1, +1)):  # the policy stands at -0.5
        term, logps = policy([[1.0]], [0.0], beta=0.5, ref_logps_BC=torch.tensor([[ref]]))
        term.loss.backward()
        expected = math.exp(ref + 0.5) - (ref + 0.5) - 1
        assert term.loss.item() == pytest.approx(0.5 * expected, abs=1e-6)
        assert term.metrics["kl"] == pytest.approx(expected, abs=1e-6)
        assert math.copysign(1, -logps.grad.item()) == sign


def test_a_reference_without_beta_is_only_measured():
    term, _ = policy([[1.0]], [1.0], beta=0.0, ref_logps_BC=torch.tensor([[-0.7]]))
    assert term.loss.item() == pytest.approx(-1.0)
    assert term.metrics["kl"] == pytest.approx(0.0187308, abs=1e-6)


def test_padding_changes_nothing_whatever_it_holds():
    small, leaf = policy([[1.5, 0.9]], [1.0], beta=0.1, ref_logps_BC=torch.tensor([[-0.4, -0.6]]))
    small.loss.backward()
    wide, padded = policy(
        [[1.5, 0.9, 7.0]],
        [1.0],
        mask=[[1.0, 1.0, 0.0]],
        old=torch.tensor([[-0.5, -0.5, float("inf")]]),
        beta=0.1,
        ref_logps_BC=torch.tensor([[-0.4, -0.6, NAN]]),
    )
    wide.loss.backward()
    assert wide.loss.item() == pytest.approx(small.loss.item())
    assert wide.metrics == pytest.approx(small.metrics)
    assert padded.grad.tolist() == [[*(pytest.approx(value) for value in leaf.grad[0].tolist()), 0.0]]


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo", "bnpo", "cispo"])
def test_a_batch_without_tokens_has_a_gradient_of_zero(loss_type):
    term, logps = policy([[1.3, 1.0]], [1.0], mask=[[0.0, 0.0]], loss_type=loss_type, epsilon_high=2.0)
    term.loss.backward()
    assert term.loss.item() == 0.0
    assert logps.grad.tolist() == [[0.0, 0.0]]
    assert all(math.isfinite(value) for value in term.metrics.values())


@pytest.mark.parametrize(
    "settings",
    [
        {"loss_type": "cispo", "epsilon_high": None},
        {"beta": 0.1},
    ],
)
def test_what_cannot_be_computed_is_refused(settings):
    with pytest.raises(ConfigurationError):
        policy([[1.0]], [1.0], **settings)


def test_sft_is_the_mean_over_its_own_tokens():
    # ten positions, three of them labels with a cross-entropy of 1
    logps = torch.full((1, 10), -1.0, requires_grad=True)
    mask = torch.zeros(1, 10)
    mask[0, 7:] = 1
    loss = sft_loss(logps, mask, tokens=3)
    loss.backward()
    assert loss.item() == pytest.approx(1.0)
    assert logps.grad[0].tolist() == [0.0] * 7 + [pytest.approx(-1 / 3)] * 3


def test_sft_without_tokens_is_zero():
    logps = torch.full((1, 2), -1.0, requires_grad=True)
    loss = sft_loss(logps, torch.zeros(1, 2), tokens=0)
    loss.backward()
    assert loss.item() == 0.0
    assert logps.grad.tolist() == [[0.0, 0.0]]


def test_rce_weighs_by_the_softmax_of_rewards_and_sums_over_tokens():
    # rewards 1 and 0 at temperature 0.5: weights e^2/(e^2+1) = 0.880797 and 0.119203
    logps = torch.tensor([[-0.5, -0.5], [-3.0, -9.0]], requires_grad=True)
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    term = rce_loss(logps, mask, torch.tensor([1.0, 0.0]), torch.tensor([7, 7]), temperature=0.5, groups=1)
    term.loss.backward()
    assert term.loss.item() == pytest.approx(0.880797 * 1.0 + 0.119203 * 3.0, abs=1e-5)
    assert logps.grad.tolist() == [
        [pytest.approx(-0.880797, abs=1e-5)] * 2,
        [pytest.approx(-0.119203, abs=1e-5), 0.0],
    ]
    assert term.metrics["rce/nll"] == pytest.approx(0.880797 * 0.5 + 0.119203 * 3.0, abs=1e-5)
    assert term.metrics["rce/weight_max"] == pytest.approx(0.880797, abs=1e-5)


def test_rce_keeps_groups_apart():
    # equal rewards in group 0, far apart in group 1; the rows are mixed
    logps = torch.tensor([[-1.0], [-2.0], [-3.0], [-4.0]], requires_grad=True)
    rewards = torch.tensor([0.3, 100.0, 0.3, 0.0])
    term = rce_loss(logps, torch.ones(4, 1), rewards, torch.tensor([0, 1, 0, 1]), temperature=1.0, groups=2)
    term.loss.backward()
    assert term.loss.item() == pytest.approx(((1 + 3) / 2 + 2) / 2)
    assert logps.grad.flatten().tolist() == pytest.approx([-0.25, -0.5, -0.25, 0.0])
    assert term.metrics["rce/weight_max"] == pytest.approx((0.5 + 1.0) / 2)


@pytest.mark.parametrize(("temperature", "weight"), [(2.0, 0.622459), (0.5, 0.880797)])
def test_rce_temperature_sharpens(temperature, weight):
    # softmax of (1, 0) / temperature
    logps = torch.tensor([[-1.0], [0.0]], requires_grad=True)
    rewards, group = torch.tensor([1.0, 0.0]), torch.tensor([0, 0])
    term = rce_loss(logps, torch.ones(2, 1), rewards, group, temperature=temperature, groups=1)
    assert term.loss.item() == pytest.approx(weight, abs=1e-5)


def test_a_response_without_tokens_takes_no_weight():
    logps = torch.tensor([[-1.0], [-2.0], [-5.0]], requires_grad=True)
    mask = torch.tensor([[0.0], [1.0], [0.0]])
    rewards, group = torch.tensor([9.0, 0.0, 1.0]), torch.tensor([0, 0, 1])
    term = rce_loss(logps, mask, rewards, group, temperature=1.0, groups=2)
    term.loss.backward()
    assert term.loss.item() == pytest.approx(2.0 / 2)  # the second group has nothing to give
    assert logps.grad.flatten().tolist() == [0.0, -0.5, 0.0]


def test_rce_needs_a_temperature():
    with pytest.raises(ConfigurationError):
        rce_loss(torch.zeros(1, 1), torch.ones(1, 1), torch.zeros(1), torch.zeros(1), temperature=0.0, groups=1)


CUTS = [[(0, 8)], [(0, 2), (2, 4), (4, 6), (6, 8)], [(0, 1), (1, 6), (6, 8)]]


def a_step():
    """Eight responses in two groups of four (rows 0-3 and 4-7 are not split by RCE's cuts), and their figures."""
    generator = torch.Generator().manual_seed(0)
    logps = -torch.rand(8, 6, generator=generator) - 0.1
    lengths = torch.tensor([6, 1, 3, 2, 5, 0, 4, 6])
    mask = (torch.arange(6) < lengths.unsqueeze(1)).float()
    old = logps + 0.5 * torch.randn(8, 6, generator=generator)
    old[2, 1] = NAN
    ref = logps + 0.3 * torch.randn(8, 6, generator=generator)
    rewards = torch.rand(8, generator=generator)
    return logps, mask, old, ref, rewards


def whole_step(term_of_rows, cuts):
    """Losses, metrics and gradients of a step, summed over its micro-batches."""
    logps, *_ = a_step()
    leaf = logps.clone().requires_grad_()
    loss, metrics = 0.0, {}
    for start, stop in cuts:
        term = term_of_rows(leaf[start:stop], slice(start, stop))
        term.loss.backward()
        loss += term.loss.item()
        for name, value in term.metrics.items():
            metrics[name] = metrics.get(name, 0.0) + value
    return loss, metrics, leaf.grad


def policy_rows(loss_type, level):
    _, mask, old, ref, rewards = a_step()
    totals = StepTotals(8, int(mask.sum()))

    def rows(logps, chunk):
        return policy_loss(
            logps,
            old[chunk],
            rewards[chunk] - 0.5,
            mask[chunk],
            loss_type=loss_type,
            epsilon=0.1,
            epsilon_high=1.1 if loss_type == "cispo" else 0.1,
            importance_sampling_level=level,
            beta=0.1,
            ref_logps_BC=ref[chunk],
            max_completion_length=6,
            totals=totals,
        )

    return rows


def sft_rows():
    _, mask, *_ = a_step()
    return lambda logps, chunk: LossTerm(sft_loss(logps, mask[chunk], tokens=int(mask.sum())), {})


def rce_rows():
    _, mask, _, _, rewards = a_step()
    group = torch.arange(8) // 4
    return lambda logps, chunk: rce_loss(logps, mask[chunk], rewards[chunk], group[chunk], temperature=0.5, groups=2)


TERMS = {
    f"{loss_type}-{level}": policy_rows(loss_type, level)
    for loss_type in ("grpo", "dr_grpo", "dapo", "bnpo", "cispo")
    for level in ("token", "sequence")
} | {"sft": sft_rows()}


@table("name", TERMS)
@table("cuts", CUTS[1:])
def test_any_cut_of_a_step_is_the_same_step(name, cuts):
    assert_same_step(TERMS[name], cuts)


def test_rce_may_be_cut_between_groups():
    assert_same_step(rce_rows(), [(0, 4), (4, 8)])


def assert_same_step(term_of_rows, cuts):
    loss, metrics, gradient = whole_step(term_of_rows, CUTS[0])
    cut_loss, cut_metrics, cut_gradient = whole_step(term_of_rows, cuts)
    assert abs(loss) > 1e-3
    assert gradient.abs().sum() > 0.1
    assert cut_loss == pytest.approx(loss, abs=1e-6)
    assert cut_metrics == pytest.approx(metrics, abs=1e-6)
    torch.testing.assert_close(cut_gradient, gradient, atol=1e-7, rtol=1e-5)
