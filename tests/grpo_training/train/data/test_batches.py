import pytest

torch = pytest.importorskip("torch")

from grpo_training.train.data.batches import collate  # noqa: E402
from tests.support.tiny_model import END, PAD, sample  # noqa: E402


def test_rows_as_tensors():
    nan = float("nan")
    rows = [
        sample((20, 21, END), 1.0, 7.0, group="a", prompt=(2, 3), old=(-0.5, nan, -0.25)),
        sample((22,), 0.0, -9.0, group="b", prompt=(2, 10, 3), truncated=True),
    ]
    batch = collate(rows, PAD)
    assert batch.input_ids_BT.tolist() == [[2, 3, 20, 21, END], [2, 10, 3, 22, PAD]]
    assert batch.attention_mask_BT.tolist() == [[1] * 5, [1, 1, 1, 1, 0]]
    assert batch.completion_start_B.tolist() == [2, 3]
    assert batch.mask_BC.tolist() == [[True, True, True], [True, False, False]]
    assert torch.equal(batch.old_logps_BC.isnan(), torch.tensor([[False, True, False], [True, True, True]]))
    assert batch.old_logps_BC[0, 2] == -0.25
    assert batch.advantages_B.tolist() == [7.0, -9.0]
    assert batch.rewards_B.tolist() == [1.0, 0.0]
    assert batch.group_of_B.tolist() == [0, 1]
    masked = collate(rows, PAD, mask_truncated=True)
    assert masked.mask_BC.tolist() == [[True, True, True], [False, False, False]]


def test_padding_is_determined_by_length_not_by_id():
    batch = collate([sample((20, END), 1.0, 0.0), sample((20,), 1.0, 0.0)], END)
    assert batch.mask_BC.tolist() == [[True, True], [True, False]]
    assert batch.attention_mask_BT.sum().item() == 6 + 5
