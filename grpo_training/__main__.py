"""``python -m grpo_training``: the list of commands, or one of them."""

from grpo_training.cli.program import main

if __name__ == "__main__":
    main()
