from grpo_training.train.data.samples import fingerprint
from tests.support.tiny_model import good_and_bad


def test_different_samples_have_different_fingerprints():
    groups = good_and_bad(2)
    assert fingerprint(groups) == fingerprint(good_and_bad(2))
    assert fingerprint(groups) != fingerprint(groups[::-1])
    assert fingerprint([groups[0] + groups[1]]) != fingerprint(groups)
