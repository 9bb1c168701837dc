"""The names of the policies that an evaluation compares."""

import pytest

from grpo_training.traffic.evaluation import policies_of
from grpo_training.traffic.settings import EvaluateSettings


def names(*policies):
    return list(policies_of(EvaluateSettings(policy=",".join(map(str, policies)), all=True)))


@pytest.fixture
def model(tmp_path):
    """Makes the folder of a model."""

    def make(path):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "config.json").write_text("{}")
        return tmp_path / path

    return make


def test_a_model_has_the_name_that_it_was_given_and_is_there_once(model):
    policies = ["max-pressure", str(model("near")), str(model("outputs/far/merged"))]
    assert names(*policies, policies[1]) == policies
