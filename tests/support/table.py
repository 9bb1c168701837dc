"""Tables of cases that are one test."""

import inspect

import pytest


def table(names, rows):
    """Run the decorated test for each row of a table, as one test. All rows run; a failure names each row that fails.

    ``pytest.mark.parametrize`` makes each case a test of its own, with its own fixtures. That is right for cases that
    differ in kind. Rows that differ only in their values are a table.

    Args:
        names: the arguments that a row gives, as for ``parametrize``.
        rows: the values of one argument, or one tuple per row.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]
    assert cases, "a table without rows tests nothing"

    def decorate(test):
        assert not inspect.iscoroutinefunction(test), "a table does not await; use pytest.mark.parametrize"

        def run(**fixtures):
            failures = []
            for case in cases:
                try:
                    test(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised below
                    failures.append(error)
                    error.add_note(f"Row: {', '.join(f'{name}={value!r:.300}' for name, value in case.items())}")
                    if isinstance(error, pytest.fail.Exception):  # the time limit of the test, for example
                        break
            if failures:
                for other in failures[1:]:
                    failures[0].add_note("\n".join([*other.__notes__, f"{type(other).__name__}: {other!s:.300}"]))
                raise failures[0]

        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=fixtures)
        run.__name__, run.__module__, run.__doc__ = test.__name__, test.__module__, test.__doc__
        run.pytestmark = getattr(test, "pytestmark", [])
        return run

    return decorate
