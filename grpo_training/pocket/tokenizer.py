"""The pocket model's tokenizer: byte-level BPE with single digits and few tokens for the JSON of a scaffold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

END, PAD = "<|end|>", "<|pad|>"
SPECIAL = (END, PAD, "<|system|>", "<|user|>", "<|assistant|>")
MAX_VOCABULARY = 2000

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {"content": {"close_pattern": r"<\|end\|>", "content": "text"}},
}
"""Marks the reply in the model's output. Without it ``transformers serve`` looks for Qwen's markers, which this chat
template does not have, and returns the prompt before each reply."""

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


def train_tokenizer(
    texts: Iterable[str], *, pieces: str = _PIECES, whole: Sequence[str] = _FRAME
) -> PreTrainedTokenizerFast:
    """Train the vocabulary.

    Args:
        texts: to train on.
        pieces: a regular expression; no token spans two of its matches.
        whole: texts that are one token each.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=MAX_VOCABULARY - len(whole),
        min_frequency=3,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in whole])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
