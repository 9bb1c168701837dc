"""Rewrite the golden files: ``python -m tests.characterisation.regenerate [--inputs] [CASE ...]``.

Without names all cases are rewritten; a case whose data is not on this machine is left as it is. What the tests only
read (a journal of the shipped model's replies, an unfinished cache, an interrupted training) is kept; ``--inputs``
records it anew too. For each case it prints how many rollouts and fusions have other rewards than before. Where a
reward changes on purpose, regenerate in the same commit and say that number in its message.
"""

import argparse
import importlib
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.characterisation.support import changed_rollouts, stored_golden, write_golden


def _modules():
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    modules = [importlib.import_module(f"tests.characterisation.{name}") for name in names]
    return {module.CASE: module for module in modules}


def main():
    """Rewrite what the command line names."""
    modules = _modules()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(modules))
    parser.add_argument("--inputs", action="store_true", help="also record anew what the tests only read")
    flags = parser.parse_args()
    if unknown := set(flags.cases) - modules.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for case in flags.cases or modules:
        folder = Path(tempfile.mkdtemp())
        try:
            if flags.inputs and hasattr(modules[case], "record_inputs"):
                modules[case].record_inputs(folder / "inputs")
            observed = modules[case].observe(folder / "case")
        except pytest.skip.Exception as reason:
            print(f"{case}: left as it is ({reason})")
            continue
        finally:
            shutil.rmtree(folder)
        changed, count = changed_rollouts(stored_golden(case), observed)
        write_golden(case, observed)
        print(f"{case}: {changed} of {count} rollouts and fusions have other rewards than before")


if __name__ == "__main__":
    main()
