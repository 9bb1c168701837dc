import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

from grpo_training.train.online.outcome import judge_training


def logs(rewards, kl=None):
    return [{"reward": reward} | ({} if kl is None else {"kl": kl}) for reward in rewards] + [{"train_runtime": 3.0}]


RISING = [0.2, 0.3, 0.25, 0.35, 0.3] * 2 + [0.5, 0.55, 0.6, 0.5, 0.58]


def test_a_reward_that_rises_helped():
    helped, why = judge_training(logs(RISING))
    assert helped
    assert why == "reward of the sampled completions: 0.280 in the first third of the steps, 0.546 in the last"


def test_a_reward_that_falls_by_more_than_chance_did_not():
    helped, why = judge_training(logs(RISING[::-1]))
    assert not helped
    assert "fell: 0.546 in the first third of the steps, 0.280 in the last" in why
    assert judge_training(logs([0.5, 0.1, 0.9, 0.2, 0.8] * 2 + [0.4, 0.1, 0.9, 0.2, 0.8]))[0]  # by chance


@pytest.mark.parametrize("kl", [0.6, 1e9, float("nan")])
def test_a_policy_far_from_the_initial_model_did_not(kl):
    helped, why = judge_training(logs(RISING, kl))
    assert not helped
    assert "above 0.5" in why


def test_a_few_steps_are_not_judged():
    assert judge_training(logs([0.9, 0.1])) == (True, "too few steps to compare the rewards")


def test_steps_without_a_score_are_no_evidence():
    nan = float("nan")
    assert judge_training(logs([nan, nan])) == (False, "no completion could be scored")
    assert not judge_training(logs([nan, *RISING[::-1], nan, nan]))[0]
    assert judge_training(logs([]))[0]  # more logging_steps than steps
