"""How ``data/models/pocket`` was made: families of word problems, a corpus, a tokenizer, and the training."""
