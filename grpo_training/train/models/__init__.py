"""The model of a training: loading, tokenizer, and what is written at the end."""
