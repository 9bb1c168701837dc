"""Commands of Scaffold-GRPO: ``python -m grpo_training.COMMAND``, or ``scaffold-grpo COMMAND``."""

import sys

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"]:  # the value of argv[0] while `python -m grpo_training.COMMAND` imports this package
    if sys.version_info < (3, 11):  # noqa: UP036 - a checkout can be started with any Python
        sys.exit("Scaffold-GRPO needs Python 3.11 or newer. This is Python %d.%d." % sys.version_info[:2])  # noqa: UP031
    from grpo_training.cli.before_install import explain_missing_packages

    explain_missing_packages()

from engine.public_names import public_names

__getattr__, __all__ = public_names(__name__, __file__)
