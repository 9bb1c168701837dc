"""What is read of the configuration of a scenario."""

import pytest

from engine.tasks.traffic.scenarios import unused_step_length


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<c><time><step-length value="0.1"/></time></c>', "0.1"),
        ('<c><step-length v="5"/></c>', "5"),
        ('<c><processing><step-length value="10"/></processing></c>', "10"),
        ('<c><time><step-length value="1.0"/></time></c>', ""),
        ('<c><time><step-length value="1"/></time></c>', ""),
        ('<c><time><end value="900"/></time></c>', ""),
        ("<c>", ""),
    ],
)
def test_the_step_length_of_a_configuration_is_named_where_it_is_not_used(tmp_path, text, expected):
    (tmp_path / "a.sumocfg").write_text(text)
    assert unused_step_length(tmp_path / "a.sumocfg") == expected
