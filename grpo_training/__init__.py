"""Commands of Scaffold-GRPO: ``python -m grpo_training.COMMAND``, or ``scaffold-grpo COMMAND``."""

import importlib.util
import sys

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"]:  # the value of argv[0] while `python -m grpo_training.COMMAND` imports this package
    if sys.version_info < (3, 11):  # noqa: UP036 - a checkout can be started with any Python
        sys.exit("Scaffold-GRPO needs Python 3.11 or newer. This is Python %d.%d." % sys.version_info[:2])  # noqa: UP031
    if importlib.util.find_spec("pydantic") is None:
        sys.exit(
            "Scaffold-GRPO's dependencies are not installed in this Python environment (" + sys.prefix + ").\n"
            "Run `make install`, then `source .venv/bin/activate`. Or run `pip install scaffold-grpo`."
        )
