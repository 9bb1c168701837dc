"""The names of the policies that an evaluation compares."""

import pytest

from engine.errors import InputError
from grpo_training.traffic.evaluation.policies import policies_of
from grpo_training.traffic.settings import EvaluateSettings


def names(*given):
    return [one.name for one in policies_of(EvaluateSettings(policy=",".join(map(str, given)), all=True))]


@pytest.fixture
def model(tmp_path):
    """Makes the folder of a model."""

    def make(path):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "config.json").write_text("{}")
        return tmp_path / path

    return make


def test_a_model_has_the_name_of_its_folder_or_of_the_training_that_made_it(model):
    assert names("max-pressure", model("near"), model("outputs/far/merged")) == ["max-pressure", "near", "far"]


def test_folders_of_the_same_name_get_as_many_parts_of_their_paths_as_tell_them_apart(model):
    given = [model(path) for path in ("h20/model/merged", "h60/model/merged", "x/h60/model", "other")]
    assert names(*given[:2], given[3]) == ["h20/model", "h60/model", "other"]
    assert names(given[1], given[2]) == [f"{given[1].parents[2].name}/h60/model", "x/h60/model"]


def test_one_folder_that_is_named_twice_is_refused(model, monkeypatch):
    folder = model("near")
    monkeypatch.chdir(folder.parent)
    with pytest.raises(InputError, match="Two policies are called"):
        names(folder, "near")
