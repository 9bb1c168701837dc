"""The pocket model's tokenizer: byte-level BPE with single digits and few tokens for the JSON of a scaffold."""

from collections.abc import Iterable

from transformers import PreTrainedTokenizerFast

from examples.pocket_model.new_model import train_tokenizer

_FRAME = (
    '{"chosen_strategy":"',
    '","target_variable":"',
    '","knowns":{"',
    '},"causal_graph":[{"cause":["',
    '"],"effect":"',
    '","rule":"',
    '"},{"cause":["',
    '"}],"computation_plan":[],"final_answer":""}',
    '"}]}',
    '{"operations":[',
    '{"op":"add","content":"',
    '{"op":"modify","id":"',
    '","content":"',
    '","category":"',
    '"}',
    "]}",
)
"""JSON that occurs in every reply; as single tokens it makes replies a third as long."""

# Words with the space before them, single digits, punctuation, white space. No token spans two of these.
_PIECES = r" ?[A-Za-z_]+|[0-9]| ?[^\sA-Za-z0-9_]+|\s+"


def pocket_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Train the vocabulary on texts."""
    return train_tokenizer(texts, pieces=_PIECES, whole=_FRAME)
