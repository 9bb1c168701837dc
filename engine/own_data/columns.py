"""Which columns of a table are the question, its context, its options and the right answer, by their names.

Names are compared without case, spaces, ``_`` and ``-``. Of a nested column, as ``question.stem``, the last part
counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import InputError
from engine.own_data.cells import as_text, cells, is_filled, is_text, plain_name, value_of
from engine.own_data.messages import are_messages, message_of
from engine.own_data.options import SCORED_OPTIONS, listed_options
from engine.records import IMAGE_COLUMN

QUESTIONS = tuple(
    "problem question problemtext questiontext originaltext questionstem squestion prompt userinput stem goal query "
    "claim statement hypothesis conclusion instruction input sentence utterance text message mail email review "
    "comment tweet post headline description content body document dialogue dialog article abstract story word ctx "
    "utt scenario turns inputs "
    "题目 问题 题干".split()
)
"""Columns of the question, in the order in which they are looked for."""
_ASKS = frozenset(QUESTIONS[: QUESTIONS.index("claim")])
"""Columns whose text asks something, so that a text before it needs no heading."""
_CONTEXTS = frozenset(
    "passage passages context contexts article story premise premises body paragraph paragraphs background support "
    "table tabletext case document documents dialogue dialog conversation history utterances text input content "
    "instruction code schema ctx sentence sentences narrative puzzle situation theory evidence hint tools "
    "definition retrievedcontexts retrievalcontext referencecontexts referencecontext system systemprompt".split()
)
_OF_LABELS = frozenset("aspect aspectterm word span1text span2text responsea responseb output1 output2".split())
"""What a label is about: a part of the text, a word of two sentences, or two answers of which one is better."""
_TITLED = frozenset("description body text content abstract article document story".split())
"""Columns to which a title belongs."""
_OPTIONS = frozenset("choices options endings answerchoices answeroptions alternatives candidates".split())
_SERIES = ("abcdefghij", "0123456789", "123456789")
_OPTION = re.compile(r"(?:option|choice|opt|op|ending|answer|ans|sol|solution|alternative|选项)(?:[a-j]|\d)|[a-j]")
_WRONG_OPTIONS = re.compile(r"(?:distractors?|(?:best)?incorrectanswers?|wronganswers?)\d?")
_ASK_WORDS = frozenset("question problem text body".split())
_ANSWER_WORDS = frozenset("answer answers truth label intent emotion sentiment".split())
"""Words in longer names, as ``review_text``, which count where no column has a known name."""
_OTHER_WORDS = frozenset("id type types start unit format explanation latex source incorrect wrong url".split())
_PAIR = re.compile(r"(.+?)(1|2|a|b|one|two)")
_TRUE = "ground gold golden true correct expected reference ideal human best final".split()
ANSWERS = (
    *(true + of for true in _TRUE for of in ("truth", "truths", "answer", "output", "response", "completion")),
    *"answer ans gold stance target correct correctoption answerkey answeridx answerindex expected reference".split(),
    *"ideal truth completion response output answers targets cop lsolutions finaldecision accept 答案".split(),
)
"""Columns of the right answer, in the order in which they are looked for: an output may be that of a model."""
_CLASSES = "label class category intent emotion sentiment topic stance verdict decision".split()
LABELS = (
    *(f"{true}label" for true in _TRUE),
    *(of + part for part in ("", "name", "label") for of in _CLASSES),
    *"labels labeltext 标签".split(),
)
"""Columns of a class, which count where there is no column of an answer."""
_LATE_ANSWERS = tuple("solution summary summary1 translation sql regex query choices".split())
_NAMES_OF_CLASSES = frozenset([*LABELS, *"labelnames labeldesc labelstr answertext targettext".split()])
RUBRICS = ("rubric", "rubrics")
"""The column of rows without a right answer: what a judge looks for."""
_CHATS = frozenset("messages conversations conversation contents".split())
NO_CONTENT = frozenset("id idx index qid guid task compare split meta".split())
_MOST, _NEARLY_ALL = 0.5, 0.95
"""Shares of the rows: a column counts if half of them have a value in it, and is what nearly all of its values are."""
_BOXED = re.compile(r"\\boxed\{|####|<answer>")
_SQL = re.compile(r"\s*(?:select|with|insert|update|delete)\s", re.IGNORECASE)


@dataclass(frozen=True)
class Columns:
    """The columns of a dataset, by what they are.

    Args:
        question: the template of a problem's text, with columns in braces: ``{passage}\\n\\n{question}``. With a chat,
            of what stands before it.
        answer: the column of the right answer; empty where a conversation ends with it.
        options: the columns of the options: one with all of them, or one for each.
        names: the column with the name of each class id; empty if there is none.
        chat: the column with the messages of a conversation that is the question; empty if there is none.
        unused: what no prompt shows.
        images: the columns of images.
        unit: the column with the unit of each answer; empty if there is none.
    """

    question: str
    answer: str
    options: tuple[str, ...] = ()
    names: str = ""
    chat: str = ""
    unused: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    unit: str = ""

    def used(self) -> set[str]:
        """The columns of which a prompt or the right answer consists."""
        return {*names_in(self.question), self.chat, *self.options, *self.images, self.answer, self.names, self.unit}


def names_in(template: str) -> list[str]:
    """The columns in the braces of a template."""
    return re.findall(r"\{([^{}]+)\}", template)


def is_answer(column: str) -> bool:
    """Whether a column has the right answer by its name alone."""
    name = plain_name(column)
    return name in (*ANSWERS, *LABELS, *SCORED_OPTIONS, *_LATE_ANSWERS) or bool(_words_of(column) & _ANSWER_WORDS)


def find_columns(
    rows: Sequence[Mapping[str, Any]],
    fields: Mapping[str, str],
    where: str,
    *,
    by_name: bool = False,
    reads_images: bool = False,
) -> list[Columns]:
    """The columns of rows; the most likely ones, then the same with other columns of the right answer.

    Args:
        rows: of the dataset, see :func:`~engine.own_data.cells.cells`.
        fields: what the user says: ``problem`` (a template), ``answer``, ``options``, each with columns.
        where: the file, for messages.
        by_name: whether only columns with known names count. Else the only further column is what is missing.
        reads_images: whether prompts show images; else their columns are as any others.

    Raises:
        InputError: it is not clear which column is which, or there is no right answer.
    """
    table = _Table(rows, reads_images)
    template = as_template(fields.get("problem", ""))
    answers = [fields["answer"]] if "answer" in fields else table.answers(set(names_in(template))) or [""]
    candidates = [_with_answer(table, template, answer, fields, where, by_name) for answer in answers[:1]]
    candidates += [replace(candidates[0], answer=answer) for answer in answers[1:] if candidates[0].options]
    _refuse_ambiguous(table, candidates[0], where, is_given="answer" in fields)
    return [replace(columns, unused=table.unused(columns)) for columns in candidates]


def _with_answer(
    table: _Table, template: str, answer: str, fields: Mapping[str, str], where: str, by_name: bool
) -> Columns:
    options = tuple(fields["options"].split("+")) if "options" in fields else table.options(answer)
    named = [*([answer] if "answer" in fields else ()), *(options if "options" in fields else ())]
    table.check([*names_in(template), *named], where)
    question = template or table.question({answer, *options})
    chat = "" if template or (question and answer) else table.chat()
    # Gemini's is in systemInstruction.parts.
    question = as_template(table.any_of(("system", "systemprompt", "parts"), {answer})) if chat else question
    if not by_name:
        question, answer = _completed(table, question, chat, answer)
    if not (question or chat or table.images) or not (answer or (chat and table.ends_with_reply(chat))):
        raise _unclear(table, question or chat, answer, where)
    names = table.names_of_classes(answer) if answer else ""
    unit = table.any_of(("unit", "units", "scale"), {*names_in(question), answer})
    return Columns(question, answer, options, names, chat, images=table.images, unit=unit)


def _completed(table: _Table, question: str, chat: str, answer: str) -> tuple[str, str]:
    """Question and answer, of which those that are missing are taken from columns with other names, if it is clear."""
    if (question or chat) and not answer and not (chat and table.ends_with_reply(chat)):
        return question, table.only_other({*names_in(question), chat})
    if answer and not question and not chat:
        return table.only_other({answer}, braces=True), answer
    return table.two_unknown() if not question and not chat else (question, answer)


def as_template(columns: str) -> str:
    """``{passage}\n\n{question}`` for ``passage+question``; a template as it is."""
    if "{" in columns or not columns:
        return columns
    return "\n\n".join(f"{{{name.strip()}}}" for name in columns.split("+"))


class _Table:
    """The columns of rows, in the order of their first value."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], reads_images: bool) -> None:
        self.given = rows
        self.rows = [cells(row) for row in rows]
        filled: dict[str, int] = {}
        for row in self.rows:
            for name, value in row.items():
                filled[name] = filled.get(name, 0) + is_filled(value)
        self.names = [name for name in filled if name and filled[name]]
        images = tuple(filter(self._holds_images, self.names)) if reads_images else ()
        self.images = tuple(name for name in images if name.startswith("decoded_")) or images  # MathVista
        self._common = [name for name in self.names if filled[name] >= _MOST * len(rows) and name not in self.images]
        self._by_name = {plain_name(name): name for name in reversed(self._common)}

    def check(self, columns: Iterable[str], where: str) -> None:
        """Raise ``InputError`` if no row has one of the columns."""
        for name in columns:
            if not any(value_of(row, name) is not None or name in getattr(row, "empty", ()) for row in self.given):
                here = ", ".join(self.names)[:300] or "none"
                raise InputError(f"{where}: there is no field {name!r}, which --fields names (here: {here})")

    def first(self, names: Iterable[str], taken: str) -> str:
        """The first of the names that is another column with values; empty if none is."""
        return next((self._by_name[name] for name in names if self._by_name.get(name, taken) != taken), "")

    def values(self, name: str) -> list[Any]:
        """The values of a column that are filled."""
        return [row[name] for row in self.rows if is_filled(row.get(name))]

    def answers(self, taken: set[str]) -> list[str]:
        """The columns that may have the right answer by their names, the likeliest first."""
        # In results of LangSmith outputs of a model stand beside reference.answer.
        stated = [name for name in self._common if "reference" in name.rpartition(".")[0].casefold()] or self._common
        known = {plain_name(column): column for column in reversed(stated) if column not in taken}
        columns = [known[name] for name in (*SCORED_OPTIONS, *ANSWERS) if name in known]
        labels = [known[name] for name in LABELS if name in known]
        if labels and columns == [known.get("answers")] and self._are_indices(labels[0], columns[0]):  # ReClor
            columns = []
        late = [known[name] for name in _LATE_ANSWERS if name in known and self._holds(name, known[name])]
        late = [column for column in late if self.question({column})]
        # The topics of dialogues that have summaries are all different, and no classes.
        columns += sorted([*labels, *late], key=lambda column: column in labels and not self._repeats(column))
        # One that is always the same is no answer, as "accept" in data of Prodigy.
        columns.sort(key=lambda column: len(set(map(as_text, self.values(column)))) < 2)
        if not columns and (rubric := self.first(RUBRICS, "")):
            return [rubric]
        return columns or self._with_word(_ANSWER_WORDS)

    def _are_indices(self, labels: str, lists: str) -> bool:
        """Whether the labels are indices of the entries of lists."""
        pairs = [(as_text(row.get(labels)), len(cell)) for row in self.rows if isinstance(cell := row.get(lists), list)]
        return sum(label.isdecimal() and int(label) < count for label, count in pairs) >= _NEARLY_ALL * len(self.rows)

    def _with_word(self, words: frozenset[str]) -> list[str]:
        """The columns whose names have one of the words, and none of another meaning."""
        return [name for name in self._common if _words_of(name) & words and not _words_of(name) & _OTHER_WORDS]

    def _repeats(self, column: str) -> bool:
        values = [as_text(value) for value in self.values(column)]
        return 2 * len(set(values)) <= len(values)

    def _holds(self, name: str, column: str) -> bool:
        """Whether a column of this name has right answers: a solution with a box, a query in SQL, one choice."""
        if name == "solution":  # those of proofs have none
            return sum(_BOXED.search(str(value)) is not None for value in self.values(column)) >= _MOST * len(self.rows)
        if name == "choices":  # Label Studio
            return self._nearly_all(column, lambda value: isinstance(value, list) and len(value) == 1)
        return name != "query" or self._nearly_all(column, lambda value: bool(_SQL.search(str(value))))

    def options(self, answer: str) -> tuple[str, ...]:
        """The columns of the options of a choice."""
        if plain_name(answer) in SCORED_OPTIONS:
            return ()
        lists = {*_OPTIONS, "answers"} if plain_name(answer) in LABELS else _OPTIONS
        listed = next((name for name in self.names if plain_name(name) in lists and name != answer), "")
        if listed and self._nearly_all(listed, lambda value: listed_options(value) is not None):
            return (listed,)
        series: dict[str, list[str]] = {}
        for name in self.names:
            match = _OPTION.fullmatch(plain_name(name))
            if match and name != answer:
                series.setdefault(name.rpartition(".")[0] + "." + plain_name(name)[:-1], []).append(name)
        for names in series.values():
            marks = "".join(plain_name(name)[-1] for name in names)
            if len(names) > 1 and any(all_marks.startswith(marks) for all_marks in _SERIES):
                return tuple(names)
        wrong = [name for name in self.names if _WRONG_OPTIONS.fullmatch(plain_name(name))]
        wrong = [name for name in wrong if plain_name(name).startswith("best")] or wrong  # TruthfulQA
        return (answer, *wrong) if wrong and answer else ()

    def question(self, taken: set[str]) -> str:
        """The template of the question with its context; empty if no column has a known name."""
        texts = [name for name in self._common if name not in taken and self._is_text(name)]
        pair = self._pair(texts)
        if pair:
            return "\n".join(f"{name}: {{{name}}}" for name in [*self._judged(taken, pair), *pair])
        known = {plain_name(name): name for name in reversed(texts)}
        column = next((known[name] for name in QUESTIONS if name in known), "")
        column = column or next((name for name in self._with_word(_ASK_WORDS) if name in texts), "")
        if not column:
            return ""
        kind = plain_name(column)
        if kind == "instruction" and (context := self.any_of(("input", "context"), taken)):
            return f"{{{column}}}\n\n{{{context}}}"
        contexts = {*_CONTEXTS, *(["title"] if kind in _TITLED else ())}
        judged = self._judged(taken, [column])
        others = [name for name in self.names if name not in {column, *taken}]
        before = [name for name in others if name in judged or plain_name(name) in contexts]
        if judged or (kind not in _ASKS and any(plain_name(name) != "title" for name in before)):
            return "\n".join(f"{name}: {{{name}}}" for name in [*before, column])
        return "\n\n".join(f"{{{name}}}" for name in [*before, column])

    def any_of(self, names: Iterable[str], taken: set[str]) -> str:
        """A column of one of the names, which may be empty in most rows."""
        return next((name for name in self.names for key in names if plain_name(name) == key and name not in taken), "")

    def _judged(self, labels: set[str], asked: Sequence[str]) -> list[str]:
        """The columns that the labels are about, beside those that are asked about."""
        others = [name for name in self.names if name not in {*labels, *asked}] if any(labels) else []
        return [name for name in others if plain_name(name) in _OF_LABELS]

    def _pair(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Two columns that differ in their last sign, as ``sentence1`` and ``sentence2``, and are both asked about."""
        stems: dict[str, list[str]] = {}
        for name in texts:
            match = _PAIR.fullmatch(plain_name(name))
            if match and match[1] in QUESTIONS and match[1] not in self._by_name:
                stems.setdefault(match[1], []).append(name)
        return next((tuple(names) for names in stems.values() if len(names) == 2), ())

    def chat(self) -> str:
        """The column with the messages of a conversation; empty if there is none."""
        return next((name for name in self._common if self._holds_messages(name)), "")

    def _holds_images(self, name: str) -> bool:
        if not IMAGE_COLUMN.fullmatch(name.rpartition(".")[2]):
            return False
        from engine.storage.images import looks_like_image  # few files have such a column

        values = self.values(name)
        return sum(map(looks_like_image, values)) >= _MOST * len(values)

    def _holds_messages(self, name: str) -> bool:
        is_named = plain_name(name) in _CHATS or plain_name(name) in QUESTIONS
        return is_named and self._nearly_all(name, are_messages)

    def ends_with_reply(self, chat: str) -> bool:
        """Whether the conversations end with a message of the model."""
        return self._nearly_all(chat, lambda value: message_of(value[-1])[0] == "assistant")

    def _nearly_all(self, name: str, fits: Callable[[Any], bool]) -> bool:
        """Whether nearly all values of a column fit: one odd row does not decide for all."""
        values = self.values(name)
        return sum(map(fits, values)) >= _NEARLY_ALL * len(values)

    def only_other(self, taken: set[str], *, braces: bool = False) -> str:
        """The only further column of a table; empty if there are several."""
        others = [name for name in self._common if name not in taken and plain_name(name) not in NO_CONTENT]
        column = others[0] if len(others) == 1 and (not braces or self._is_text(others[0])) else ""
        return f"{{{column}}}" if braces and column else column

    def _is_text(self, name: str) -> bool:
        return self._nearly_all(name, is_text)

    def two_unknown(self) -> tuple[str, str]:
        """Question and answer of a table of two columns: the answer has fewer different values, or is the second."""
        columns = [name for name in self._common if plain_name(name) not in NO_CONTENT]
        if len(columns) != 2:
            return "", ""
        first, second = (len({as_text(value) for value in self.values(name)}) for name in columns)
        question, answer = columns if 2 * first > second else reversed(columns)
        return (f"{{{question}}}", answer) if self._is_text(question) else ("", "")

    def names_of_classes(self, answer: str) -> str:
        """The column that has one name for each class id in the column of the answer; empty if there is none."""
        if not all(re.fullmatch(r"-?\d+", as_text(value)) for value in self.values(answer)):
            return ""
        for name in self._common:
            if plain_name(name) not in _NAMES_OF_CLASSES or name == answer:
                continue
            pairs = {
                (as_text(row.get(answer)), as_text(row.get(name))) for row in self.rows if is_filled(row.get(name))
            }
            if len(pairs) == len({code for code, _ in pairs}) == len({label for _, label in pairs}) < len(self.rows):
                return name
        return ""

    def unused(self, columns: Columns) -> tuple[str, ...]:
        """The columns that no prompt shows."""
        used = columns.used()
        return tuple(name for name in self.names if name not in used and plain_name(name) not in NO_CONTENT)

    def likely(self) -> tuple[str, str]:
        """For a proposal: the column with the longest texts, and the one with the fewest different values."""
        columns = [name for name in self._common if plain_name(name) not in NO_CONTENT] or self.names
        texts = {name: [as_text(value) for value in self.values(name)] for name in columns}
        longest = max(columns, key=lambda name: sum(map(len, texts[name])) / max(1, len(texts[name])), default="NAME")
        others = [name for name in columns if name != longest]
        short = min(others, key=lambda name: (len(set(texts[name])) < 2, len(set(texts[name]))), default="NAME")
        return longest, short


def _words_of(name: str) -> frozenset[str]:
    """The words of a column's name: ``answer_number`` and ``answerNumber`` have two."""
    return frozenset(word.casefold() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name.rpartition(".")[2]))


def _refuse_ambiguous(table: _Table, columns: Columns, where: str, *, is_given: bool) -> None:
    """Raise where a text is called the answer and a class 0 or 1 beside it may say whether it is a right one."""
    answer = columns.answer
    judged = table.first(("label", "iscorrect", "istrue", "correctness"), answer)
    if is_given or columns.options or not judged or plain_name(answer) not in ANSWERS:
        return
    values = {as_text(value).casefold() for value in table.values(judged)}
    texts = {as_text(value) for value in table.values(answer)}
    if values <= {"0", "1", "true", "false"} and len(values) > 1 and len(texts) > len(values):
        raise InputError(
            f"{where}: is {answer!r} the right answer, or does {judged!r} say whether it is right?",
            fix=f"Name the column: --fields answer={answer}, or --fields answer={judged}.",
        )


def _unclear(table: _Table, question: str, answer: str, where: str) -> InputError:
    named = ", ".join(table.names)[:300] or "none"
    longest, short = table.likely()
    if question and not answer:
        return InputError(
            f"{where}: there is no column with the right answer",
            why=f"The columns are {named}; the question is {question!r}.",
            fix=f"Name it: --fields answer={short}. Without a right answer, give each row a rubric for a judge (a "
            "column `rubric`), or a task of your own that scores replies: --task file.py:TASK.",
        )
    return InputError(
        f"{where}: it is not clear which column is the question and which the answer",
        why=f"The columns are {named}.",
        fix=f"Name them, for example: --fields problem={longest},answer={answer or short}. A template is possible: "
        f"--fields 'problem={{{longest}}} {{...}}'.",
    )
