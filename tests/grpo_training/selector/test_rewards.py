"""Normalisation, advantages, weights and reward modes, against numbers worked out by hand."""

import math

import pytest

torch = pytest.importorskip("torch")

from engine.errors import ConfigurationError  # noqa: E402
from grpo_training.selector.rewards import (  # noqa: E402
    clip_advantages,
    compute_softmax_weights,
    group_advantages,
    has_spread,
    normalize_rewards_zscore,
    sequence_reward,
)

# mean 0.0386, deviations .0074 .0064 -.0016 -.0036 -.0086, squares sum to 1.852e-4, unbiased std sqrt(4.63e-5)
SCORES = [0.046, 0.045, 0.037, 0.035, 0.030]
STD = math.sqrt(4.63e-5)


def test_z_scores_have_mean_0_and_std_1_also_for_tiny_scores():
    expected = torch.tensor([[0.0074, 0.0064, -0.0016, -0.0036, -0.0086]]) / STD
    for scale in (1.0, 1e-6, 1e4):
        scores = torch.tensor([SCORES], dtype=torch.float64) * scale
        z_scores = normalize_rewards_zscore(scores)
        assert torch.allclose(z_scores.float(), expected, atol=1e-4)
        assert abs(float(z_scores.mean())) < 1e-9
        assert abs(float(z_scores.std()) - 1) < 1e-9


def test_equal_rewards_have_no_spread_whatever_their_rounding():
    rewards = torch.tensor([[0.1 + 0.2, 0.3, 0.3], [1.6, 0.0, 2.0]], dtype=torch.float64)
    assert has_spread(rewards).tolist() == [False, True]
    assert normalize_rewards_zscore(rewards)[0].tolist() == [0.0, 0.0, 0.0]
    assert normalize_rewards_zscore(torch.tensor([[5.0]])).tolist() == [[0.0]]


def test_candidates_outside_the_mask_count_for_nothing():
    rewards = torch.tensor([[1.0, 3.0, 900.0]])
    mask = torch.tensor([[True, True, False]])
    half = 1 / math.sqrt(2)
    assert torch.allclose(normalize_rewards_zscore(rewards, mask), torch.tensor([[-half, half, 0.0]]))


def test_advantages_are_clipped():
    assert clip_advantages(torch.tensor([-10.0, 5.0, 0.0, 3.0, 8.0])).tolist() == [-5, 5, 0, 3, 5]
    outlier = torch.tensor([[0.0] * 99 + [1.0]])
    assert float(group_advantages(outlier, torch.ones_like(outlier, dtype=torch.bool)).max()) == 5


def test_softmax_weights():
    """On raw InfoScores the weights at temperature 2 are uniform to two decimals; on z-scores they are not."""
    raw = compute_softmax_weights(torch.tensor([SCORES]), temperature=2.0)
    assert abs(float(raw.sum()) - 1) < 1e-6
    assert float((raw - 0.2).abs().max()) < 0.001
    scored = compute_softmax_weights(normalize_rewards_zscore(torch.tensor([SCORES])), temperature=0.5)
    # exp(2 x z): z = 1.0875, 0.9406, -0.2351, -0.5291, -1.2639
    powers = [math.exp(2 * z) for z in (1.0875, 0.9406, -0.2351, -0.5291, -1.2639)]
    assert torch.allclose(scored[0], torch.tensor([power / sum(powers) for power in powers]), atol=1e-3)
    with pytest.raises(ConfigurationError, match="must be above 0"):
        compute_softmax_weights(raw, temperature=0)


def test_the_sequence_level_is_coherence_and_diversity():
    query = torch.tensor([1.0, 0.0])
    # cosines with the query 1 and 0.6; between the shots 0.6
    coherence, diversity = sequence_reward(query, torch.tensor([[2.0, 0.0], [0.6, 0.8]]))
    assert coherence == pytest.approx(0.8)
    assert diversity == pytest.approx(0.4)
    assert sequence_reward(query, torch.tensor([[-1.0, 0.0]])) == (0.0, 1.0)
