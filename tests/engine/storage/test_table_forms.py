"""Tables: what separates their fields, their encoding, quotes, and lines of names."""

import csv
import gzip
import json

import pytest

from engine.errors import InputError
from tests.engine.storage.forms import ASKED, LISTS, NUMBERED, PAIRS, opening, written
from tests.support.table import table


@pytest.fixture
def opened(tmp_path):
    return opening(tmp_path)


@table("mark", [",", ";", "\t", "|"])
def test_a_table_is_known_by_its_lines(opened, mark):
    rows = [{"mail": f'Is {n} 5" long; or 4,5 | 6?', "team": "ab"[n % 2]} for n in range(5)]
    for name in ("a.csv", "a.tsv", "a.txt", "a", "a.jsonl"):
        assert opened(written(rows, mark), name)[0] == rows
        assert opened(written(rows, mark, names=False), name, columns=["mail", "team"])[0] == rows
    assert opened(f"sep={mark}\n{written(rows, mark)}", "a.csv")[0] == rows


@table(
    ("content", "note"),
    [
        (written(PAIRS).encode("utf-8-sig"), None),
        (written(PAIRS).encode("utf-16"), None),
        ("\ufeff".encode("utf-16-be") + written(PAIRS).encode("utf-16-be"), None),
        (written([{"mail": "Un café à midi?", "team": "für"}]).encode("cp1252"), "read as CP1252"),
        (written([{"mail": "“Ça va?”", "team": "oui"}]).encode("cp1252"), "read as CP1252"),
        ("题目,答案\n走了多久？,3小时\n".encode("gb18030"), "read as GB18030"),
        ("text\tlabel\n我要退款，怎么办\t账单\n".encode("gb18030"), "read as GB18030"),
    ],
)
def test_the_encoding_of_a_table_is_found_and_said(opened, content, note):
    text = next(
        content.decode(encoding)
        for encoding in ((note or "").rpartition(" ")[2] or "utf-16", "utf-8-sig")
        if _decodes(content, encoding)
    )
    for packed in (content, gzip.compress(content)):
        rows, file = opened(packed)
        assert [list(row.values()) for row in rows] == list(
            csv.reader(text.splitlines(), delimiter="\t" if "\t" in text else ",")
        )[1:]
        assert note is None or note in file.notes


def _decodes(content, encoding):
    try:
        return "," in content.decode(encoding) or "\t" in content.decode(encoding)
    except UnicodeDecodeError:
        return False


@table(
    ("content", "said"),
    [
        ("вопрос,ответ\nсколько будет два,четыре\n".encode("cp1251"), "not UTF-8"),
        ("質問,答え\nこれはなんですか,りんごです\n".encode("shift_jis"), "not UTF-8"),
        ("text,label\nüber,a\nüb".encode() + b"\xfcr,b\n", "line 3: not UTF-8"),
        (written(PAIRS).encode("utf-16")[2:], "not a text file"),
    ],
)
def test_other_encodings_are_refused_with_the_ways_out(opened, content, said):
    with pytest.raises(InputError, match=said) as caught:
        opened(content, "a.csv")
    assert "UTF-8" in caught.value.fix


@table(
    ("text", "columns"),
    [
        ("ham\tmessage one\nspam\tmessage two\nham\tmessage three\n", "label,text"),
        ("a fine, moving film\t1\nbad\t0\ndull\t0\ngood\t1\n", "text,label"),
        ("What is it?,x,y,z,A\nHow is it?,x,q,y,B\nWhy is it so?,p,q,r,A\n", "question,A,B,C,answer"),
        ("Web;Erster Text\nSport;Zweiter Text\nWeb;Dritter Text\n", "label,text"),
        ("这部电影真的很好看，我很喜欢。|好\n这部电影真的不好看，我不喜欢。|坏\n这部电影还可以。|好\n", None),
    ],
)
def test_a_table_without_names_is_refused_with_names_for_its_columns(opened, text, columns):
    for name in ("a.csv", "a.txt"):
        with pytest.raises(InputError, match="The first line of .* looks like a row, not like names") as caught:
            opened(text, name)
        assert columns is None or f"--columns {columns}." in caught.value.fix
    width = (
        max(len(text.splitlines()[0].split(mark)) for mark in ",;\t|") if columns is None else columns.count(",") + 1
    )
    rows = opened(text, numbered=True)[0]
    assert list(rows[0]) == [str(number) for number in range(1, width + 1)]
    names = [f"n{number}" for number in range(width)]
    assert [list(row.values()) for row in opened(text, columns=names)[0]] == [list(row.values()) for row in rows]
    with pytest.raises(InputError, match=r"--columns names 1 columns(?s:.*)It is: 1 = "):
        opened(text, columns=["text"])


@table(
    "text",
    [
        "question,answer\nquestion,answer\n1,2\n",
        "text,label\nThe label is text.,text\n",
        "0,1\nfirst,a\nsecond,b\n",
        "english,german\nant,Ameise\nbee,Biene\n",
        "v1,v2\nham,ok\nham,no\n",
        "Kundenanfrage,Abteilung\nWo ist es?,Versand\nWas?,Versand\n",
        "What do you think of the product?,Team\nIt is quite good.,a\nIt is rather bad.,b\n",
        "A,B\n1,2\n2,3\n",
        "Timestamp,2019\n1,2\n3,4\n",
        "only,names\n",
    ],
)
def test_a_first_line_of_names_is_never_refused(opened, text):
    rows, _ = opened(text, "a.csv")
    assert all(list(row) == text.splitlines()[0].split(",") for row in rows)


def test_the_first_line_is_left_out_where_it_has_the_names(opened):
    text = written(ASKED)
    assert opened(text, columns=["question", "answer"])[0] == ASKED
    rows, file = opened(text, numbered=True)
    assert (rows, file.notes) == (NUMBERED, ("the first line has names and is left out",))
    assert opened(LISTS, columns=["question", "answer"])[0] == ASKED
    for content in (ASKED, "".join(json.dumps(row) + "\n" for row in ASKED)):
        with pytest.raises(InputError, match="--columns is for rows without names"):
            opened(content, columns=["a", "b"])


@table(
    ("text", "rows"),
    [
        ('q,a\n"Is "x" it?",1\n"a ""b""",2\n', [{"q": 'Is "x" it?', "a": "1"}, {"q": 'a "b"', "a": "2"}]),
        ('q,a\n"Is \\"x\\", or y?",1\n', [{"q": 'Is "x", or y?', "a": "1"}]),
        ('q,a\n5" pipe,"so "it" is"\n', [{"q": '5" pipe', "a": 'so "it" is'}]),
        ('q\ta\n"Open it\tx\nSaid "so"\ty\n', [{"q": '"Open it', "a": "x"}, {"q": 'Said "so"', "a": "y"}]),
        ('"q"\t"a"\n"with a\ttab\nin it"\t"x"\n', [{"q": "with a\ttab\nin it", "a": "x"}]),
        ('q\ta\n"two\nlines"\tx\n', [{"q": "two\nlines", "a": "x"}]),
        ('q, a\n"x, y", "z, w"\n', [{"q": "x, y", "a": "z, w"}]),
        ("q,a,,,\nx,y,,,\nz,w, more,,\n", [{"q": "x", "a": "y"}, {"q": "z", "a": "w", "3": " more"}]),
        ("q,a\nx,y,,\n", [{"q": "x", "a": "y"}]),
        (",q,a\n0,x,y\n1,z,w\n", [{"q": "x", "a": "y"}, {"q": "z", "a": "w"}]),
        ("q,a\r1,2\r3,4", [{"q": "1", "a": "2"}, {"q": "3", "a": "4"}]),
    ],
)
def test_quotes_and_columns_without_names(opened, text, rows):
    assert opened(text, "a.csv")[0] == rows
