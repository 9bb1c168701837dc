"""The examples of the page about answers have the verdicts that it states."""

import re
from pathlib import Path

from engine.answers.verify import verify_answer
from tests.support.table import table

PAGE = Path(__file__).parents[3] / "docs/reference/answers.md"
ROW = re.compile(r"\| `(.+?)` \| `(.+?)` \| (yes|no) \|")
EXAMPLES = ROW.findall(PAGE.read_text(encoding="utf-8"))


@table(("truth", "answer", "right"), EXAMPLES)
def test_an_example(truth, answer, right):
    assert verify_answer(answer.replace(r"\n", "\n"), truth).correct is (right == "yes")


def test_the_page_has_examples():
    assert len(EXAMPLES) >= 20
