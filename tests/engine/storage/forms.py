"""Rows, and files of them, for the tests of data files."""

import csv
import io
import json

from engine.storage.data_files import open_data_file

PAIRS = [{"mail": f"Where is order {n}?", "team": ("billing", "shipping")[n % 2]} for n in range(8)]
ASKED = [{"question": f"Is {n} even?", "answer": ("yes", "no")[n % 2]} for n in range(6)]
LISTS = [list(row.values()) for row in ASKED]
COLUMNS = {name: [row[name] for row in ASKED] for name in ASKED[0]}
NUMBERED = [{"1": question, "2": answer} for question, answer in LISTS]


def opening(folder):
    """A function that writes a file and opens it: its rows, and what :func:`open_data_file` returns."""

    def opened(content, name="rows", **options):
        path = folder / name
        if not isinstance(content, str | bytes):
            content = json.dumps(content, indent=1)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        file = open_data_file(path, **options)
        return list(file.rows), file

    return opened


def written(rows, mark=",", names=True):
    """Rows as the text of a table."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=mark)
    if names:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
