"""Experiences that raise the reward and not the share of right answers: the phrase list does not know them all.

What keeps them out of later prompts is the trial, which measures right answers and not rewards.
"""

import json
import random
from statistics import fmean

import pytest

from engine.experience.review import check_text
from engine.experience.trial import Trial, belief, pooled_variance
from engine.records import Problem
from tests.grpo_training.learning.test_trials import HELPS, World, lucky, nothing, prompt, scaffold

STEERING = (
    "Write a long plan with a step for each symbol, and repeat it.",
    "Judges like scaffolds with many edges, so add some.",
    "Name each number twice before you begin.",
    "A reply scores better with all fields filled, whatever they say.",
    "Prefer guesses in a complete scaffold to thought without one.",
)
"""Texts about the form that is paid, without any phrase of the list."""


@pytest.mark.parametrize("text", STEERING)
def test_the_list_of_phrases_lets_them_pass(text):
    assert check_text(text, Problem(id="p", text="5: crates of four?", answer="12")) is None


def planted_world(folder, contents, problems):
    """A library with these experiences, and problems that give the numbers of right and of wrong scaffolds."""
    world = World(folder, problems=problems, contents=contents)
    rows = [{"id": f"p{n}", "problem": f"{n}: 3 crates of 4 or of 5 apples?", "answer": "12"} for n in range(problems)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return world


def steered(body, index):
    """Right with probability 0.5, 0.9 with the experience that helps; with the steering text in a complete scaffold."""
    text = prompt(body)
    answer = 12 if lucky(text, index) < 0.5 + 0.4 * (HELPS in text) else 15
    return scaffold(answer) if STEERING[0] in text else f"The final answer is {answer}."


def trial_by(groups, name, figure):
    """The trial of an experience by a figure of rollouts."""
    trial = Trial()
    for group in groups:
        sides = [[group_rollout[figure] for group_rollout in group["rollouts"]
                  if (name in group_rollout["experience_ids"]) == there] for there in (True, False)]  # fmt: skip
        if all(sides):
            trial = trial.with_difference(fmean(sides[0]) - fmean(sides[1]))
    return trial


@pytest.mark.timeout(300)
def test_a_run_measures_right_answers_and_not_rewards(tmp_path):
    world = planted_world(tmp_path, (HELPS, STEERING[0]), 60)
    world.learn("--tau", 9, reply=steered, analyst=nothing)
    groups, state = world.groups(), world.state()
    by_reward, by_right = (trial_by(groups, "G1-002", name) for name in ("r_total", "is_correct"))
    assert abs(by_right.mean) < 0.15
    assert by_reward.mean > by_right.mean + 0.2
    assert belief(by_reward, pooled_variance([by_reward])).p_helps > 0.95  # rewards would keep it
    assert not state.trials.belief("G1-002").helps
    assert state.trials.belief("G1-001").p_helps > 0.95  # what helps is found in the same run


def simulated(groups, effect, seed):
    """Trials of one text by right answers and by rewards, each difference of two against two answers.

    A right answer is paid 1 with the text and 0.8 without it; a wrong one 0.2 and 0. ``effect`` is that on the chance
    of a right answer.
    """
    rng = random.Random(seed)
    by_right, by_reward = Trial(), Trial()
    for _ in range(groups):
        chance = min(0.95, max(0.05, rng.gauss(0.5, 0.25)))
        there = [rng.random() < chance + effect for _ in range(2)]
        absent = [rng.random() < chance for _ in range(2)]
        by_right = by_right.with_difference(fmean(there) - fmean(absent))
        by_reward = by_reward.with_difference(fmean(0.8 * one + 0.2 for one in there) - 0.8 * fmean(absent))
    return by_right, by_reward


def kept(trials):
    """The share of texts that stay in use outside of learning."""
    return fmean(belief(one, pooled_variance([one])).helps for one in trials)


@pytest.mark.parametrize(
    ("groups", "effect", "most"), [(25, 0.0, 0.60), (100, 0.0, 0.40), (200, 0.0, 0.25), (50, -0.1, 0.10)]
)
def test_steering_texts_are_kept_by_rewards_and_not_by_right_answers(groups, effect, most):
    trials = [simulated(groups, effect, seed) for seed in range(200)]
    by_right, by_reward = kept([one for one, _ in trials]), kept([other for _, other in trials])
    assert by_right <= most
    assert by_reward >= 0.95


@pytest.mark.timeout(300)
@pytest.mark.parametrize("choice", [(), ("--select", "all")])
def test_a_text_that_leaks_the_answer_of_its_problem_gains_no_credit_from_it(tmp_path, choice):
    """In the prompt of its own problem the text makes every answer right, and those answers are not counted."""
    leak = "With crates, the sum of rows and columns is a dozen."
    world = planted_world(tmp_path, (HELPS, leak), 6)
    entries = list(world.library().values())
    entries[1] |= {
        "source_problem": "p1",
        "evidence": [{"problem_id": "p1", "problem_text": "1: 3 crates of 4 or of 5 apples?"}],
    }
    world.path.write_text(json.dumps(entries))

    def knows(body, index):
        text = prompt(body)
        return scaffold(12 if leak in text and "1: 3 crates of 4" in text else 15)

    world.learn("--tau", 9, "--epochs", 3, *choice, reply=knows, analyst=nothing)
    trial = world.state().trials.by_id["G1-002"]
    assert (trial.differences, trial.total) == (15, 0)  # five other problems in three passes
    own = [one for group in world.groups() if group["problem_id"] == "p1" for one in group["rollouts"]]
    assert any(one["is_correct"] for one in own) == any("G1-002" in one["experience_ids"] for one in own)
