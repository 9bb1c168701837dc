"""What a token of a packed sequence sees, against the definition: the tokens before it in its row."""

import random

import pytest

torch = pytest.importorskip("torch")

from grpo_training.train.objective.packing import Cost, packed  # noqa: E402
from tests.support.table import table  # noqa: E402

BLOCK = 128


def padded_rows(seed):
    """Rows of two prompts, some of them padded on the left: the tokens of each, and the rows as tensors."""
    draw = random.Random(seed)
    prompts = [[draw.randrange(50) for _ in range(draw.randint(1, 300))] for _ in range(2)]
    rows = [
        (draw.choice(prompts), [draw.randrange(50) for _ in range(draw.randint(0, 300))], draw.randint(0, 3))
        for _ in range(draw.randint(1, 7))
    ]
    width = max(len(prompt) + len(reply) + padding for prompt, reply, padding in rows)
    ids, is_token = torch.zeros(len(rows), width, dtype=torch.long), torch.zeros(len(rows), width, dtype=torch.bool)
    for number, (prompt, reply, padding) in enumerate(rows):
        ids[number, padding : padding + len(prompt + reply)] = torch.tensor(prompt + reply)
        is_token[number, padding : padding + len(prompt + reply)] = True
    return rows, (ids, is_token, torch.tensor([padding + len(prompt) for prompt, _, padding in rows]))


def all_pairs(sequence):
    index = torch.arange(len(sequence.ids_S))
    return sequence.sees(index.unsqueeze(1), index.unsqueeze(0))


@table("seed", range(12))
def test_each_token_sees_its_prompt_and_its_reply_up_to_itself(seed):
    rows, tensors = padded_rows(seed)
    sequence = packed(*tensors, in_blocks=bool(seed % 2))
    sees = all_pairs(sequence)
    for number, (prompt, reply, padding) in enumerate(rows):
        for count in range(len(prompt), len(prompt + reply) + 1):
            places = sees[sequence.place_BT[number, padding + count - 1]].nonzero().flatten()
            assert sequence.ids_S[places].tolist() == (prompt + reply)[:count]
            assert sequence.position_S[places].tolist() == list(range(count))
    tokens = {tuple(prompt): len(prompt) for prompt, _, _ in rows}
    length = sum(tokens.values()) + sum(len(reply) for _, reply, _ in rows)
    assert len(sequence.ids_S) == (length + -length % BLOCK if seed % 2 else length)


@table("seed", range(12))
def test_the_blocks_are_those_of_the_mask(seed):
    _, tensors = padded_rows(seed)
    sequence = packed(*tensors, in_blocks=True)
    mask, sees = sequence.block_mask(), all_pairs(sequence)
    count = len(sequence.ids_S) // BLOCK
    partly, full = torch.zeros(count, count, dtype=torch.bool), torch.zeros(count, count, dtype=torch.bool)
    for of_kind, numbers, indices in (
        (partly, mask.kv_num_blocks, mask.kv_indices),
        (full, mask.full_kv_num_blocks, mask.full_kv_indices),
    ):
        for line in range(count):
            of_kind[line, indices[0, 0, line, : numbers[0, 0, line]].long()] = True
    by_block = sees.view(count, BLOCK, count, BLOCK).permute(0, 2, 1, 3).flatten(2)
    assert not (partly & full).any()
    assert torch.equal(partly | full, by_block.any(-1))
    assert by_block.all(-1)[full].all()
    assert torch.equal(mask.mask_mod(0, 0, *torch.meshgrid(*[torch.arange(count * BLOCK)] * 2, indexing="ij")), sees)


def test_most_blocks_of_a_long_prompt_with_many_replies_are_left_out():
    prompt, replies = torch.arange(1024), torch.arange(16 * 512).view(16, 512)
    ids = torch.cat([prompt.expand(16, 1024), replies], dim=1)
    sequence = packed(ids, torch.ones_like(ids, dtype=torch.bool), torch.full((16,), 1024), in_blocks=True)
    mask = sequence.block_mask()
    blocks = int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum())
    assert len(sequence.ids_S) == 1024 + 16 * 512
    assert blocks == 8 * 9 // 2 + 16 * (4 * 8 + 4 * 5 // 2)  # of 72 x 72
    assert int(mask.kv_num_blocks.sum()) == 8 + 16 * 4  # only those on the diagonal are computed token by token


def test_a_long_sequence_of_short_rows_is_not_worth_its_mask():
    cost = Cost(weights=1_000_000, attention=1000)
    assert cost.is_less_packed(tokens=8 * 64 + 64, rows=8, width=128)
    assert not cost.is_less_packed(tokens=128 * 64 + 64, rows=128, width=128)
    assert not cost.is_less_packed(tokens=128, rows=1, width=128)
