"""The documentation matches the program: commands parse, links, paths and messages exist, snippets run."""

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import engine
import grpo_training
import grpo_training.agents
from grpo_training.cli.program import commands
from tests.conftest import ROOT
from tests.support.command_help import help_of_all
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.table import table

PAGES = [
    *(
        ROOT / name
        for name in (
            "README.md",
            "README.zh-CN.md",
            "CONTRIBUTING.md",
            "TRAINING_GUIDE.md",
            "grpo_training/README.md",
            "data/models/pocket/README.md",
            "examples/README.md",
        )
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]
WRITTEN_BY_COMMANDS = re.compile(
    r"grpo_training/cache|data/(grpo_experiences|traffic|phaser|api_keys/api_config\.json|train|val|data_report|teacher_traces)|outputs/"
    r"|data/datasets/[a-z0-9_<>]+\.jsonl?"
)


def commands_of(text):
    """(module, its words) of each documented command line."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for match in re.finditer(r"(?:python -m grpo_training\.|scaffold-grpo )([a-z0-9_.]+)([^\n`]*)", joined):
        words = shlex.split(match[2].replace("'", "").split("<")[0], comments=True)
        yield match[1].rstrip("."), words


def test_documented_commands_have_their_flags():
    lines = [(page, *line) for page in PAGES for line in commands_of(page.read_text(encoding="utf-8"))]
    modules = {module for _, module, _ in lines}
    assert {module for module in modules if module not in commands() and not module.startswith("pocket.")} == set()
    helps = help_of_all(sorted([module] for module in modules), ROOT)
    with_steps = {module for module in modules if f"grpo_training.{module} STEP " in helps[module,].text}
    calls = [(module, *words[:1]) if module in with_steps else (module,) for _, module, words in lines]
    helps |= help_of_all(sorted({call for call in calls if call not in helps}), ROOT)
    wrong = []
    for (page, module, words), call in zip(lines, calls, strict=True):
        assert helps[call].code == 0, call  # each step has options of its own
        text = helps[call].text.replace("-\n", "-").replace("_", "-")
        shown = set(re.findall(r"--[a-z0-9][a-z0-9_-]*", text))
        for word in words:
            if word.startswith("--") and word != "--":
                flag = word.split("=")[0].rstrip(",.;:)").replace("_", "-")
                wrong += [] if flag in shown else [f"{page}: {module} has no flag {flag}"]
    assert not wrong


@table("page", PAGES)
def test_named_files_exist(page):
    text = page.read_text(encoding="utf-8")
    links = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    missing = [target for target in links if not (page.parent / target).exists()]
    words = re.findall(r"[\w./<>*-]+", " ".join(re.findall(r"`([^`\n]+)`", text)) + " " + " ".join(fences(text)))
    for word in words:
        is_path = re.match(r"(engine|prompts|docs|examples|tests|bench|data|grpo_training)/[\w.]", word)
        if is_path and not WRITTEN_BY_COMMANDS.search(word) and "*" not in word and "<" not in word:
            missing += [] if (ROOT / word.rstrip(".")).exists() else [word]
    assert not missing


def fences(text, language=""):
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_pages_named_in_the_source_exist():
    folders = ("engine", "grpo_training", "prompts", "bench", "examples", "tests")
    suffixes = {".py", ".yaml", ".j2", ".md", ".toml"}
    files = [
        path
        for name in folders
        for path in (ROOT / name).rglob("*")
        if path.suffix in suffixes and "node_modules" not in path.parts
    ]
    named = {
        (str(path.relative_to(ROOT)), page)
        for path in [*files, ROOT / "mkdocs.yml", ROOT / "Makefile", ROOT / "pyproject.toml"]
        for page in re.findall(r"docs/[\w./-]*\w", re.sub(r"https://\S+", "", path.read_text(encoding="utf-8")))
    }
    assert len(named) > 5
    assert {(path, page) for path, page in named if not (ROOT / page).exists()} == set()


def texts_of_the_source():
    """The plain texts of the source without docstrings, and patterns of its f-strings, whose values match any text."""
    plain, patterns = [], set()
    for path in (path for package in ("engine", "grpo_training") for path in (ROOT / package).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                plain.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                fixed = [piece.value if isinstance(piece, ast.Constant) else "" for piece in node.values]
                if " " in "".join(fixed) and len(re.findall("[A-Za-z]", "".join(fixed))) >= 7:
                    patterns.add("".join(re.escape(text) or ".+" for text in fixed))
    return plain, [re.compile(pattern) for pattern in patterns]


def test_every_message_of_troubleshooting_is_in_the_source():
    text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^### (.+)$", text, re.MULTILINE)
    plain, patterns = texts_of_the_source()
    assert len(messages) > 30
    assert [
        message
        for message in messages
        if not any(message in text for text in plain) and not any(pattern.fullmatch(message) for pattern in patterns)
    ] == []


def outline(page):
    """What a translation keeps: the code (the comments of README.zh-CN.md are translated), and the form of the text."""
    text = page.read_text(encoding="utf-8")
    blocks = [re.sub(r"[ \t]*#.*", "", block) if page.parent == ROOT else block for block in fences(text)]
    prose = prose_of(text)
    rows = [lines.count("\n") for lines in re.findall(r"(?:^\|.*\n)+", prose, re.MULTILINE)]
    return {"blocks": blocks, "headings": re.findall(r"^#+ ", prose, re.MULTILINE), "rows of tables": rows}


def prose_of(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def named(page):
    """The inline code and the figures of the prose. Chinese counts large numbers in units of 10,000."""
    prose = prose_of(page.read_text(encoding="utf-8"))
    code = {" ".join(words.split()) for words in re.findall(r"`([^`]+)`", prose)}
    return code | set(re.findall(r"\d(?:[\d.,]*\d)?", re.sub(r"`[^`]+`|[\d.]+ [mb]illion", "", prose)))


@table("page", [page for page in PAGES if page.name.endswith(".zh-CN.md")])
def test_a_translation_says_what_its_original_says(page):
    original = page.with_name(page.name.replace(".zh-CN", ""))
    assert page.read_text(encoding="utf-8").splitlines()[2].startswith(f"[English]({original.name})")
    assert original.read_text(encoding="utf-8").splitlines()[2].startswith(f"[中文]({page.name})")
    assert outline(page) == outline(original)
    assert named(original) - named(page) == set()


def test_every_command_is_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in commands() if f"`{name}`" not in readme] == []


def test_the_snippets_of_the_python_api_run(tmp_path, monkeypatch):
    pytest.importorskip("peft")
    steps = {"effect": "v", "cause": ["s", "t"], "rule": "v = s / t"}
    scaffold = {"target_variable": "v", "knowns": {"s": 24, "t": 0.3}, "causal_graph": [steps], "final_answer": "80"}
    app = chat_app(lambda body, index: json.dumps(scaffold | {"final_answer": str(index)}))
    (tmp_path / "data/api_keys").mkdir(parents=True)
    (tmp_path / "data/models").mkdir()
    (tmp_path / "data/models/pocket").symlink_to(ROOT / "data/models/pocket")
    monkeypatch.chdir(tmp_path)
    names = {}
    with serve_in_thread(app) as url:
        endpoint = {"api_key": "EMPTY", "base_url": url, "model": "m"}
        Path("data/api_keys/api_config.json").write_text(json.dumps({"generator_1": endpoint}))
        for snippet in fences(ROOT.joinpath("docs/reference/python-api.md").read_text(encoding="utf-8"), "python"):
            exec(snippet, names)
    assert len(names["scored"]) == len(names["stats"].advantages) == 4
    assert names["exit_code"] == 0
    assert Path("outputs/short/merged/model.safetensors").is_file()


def test_every_exported_name_can_be_imported():
    missing = []
    for package in (engine, grpo_training, grpo_training.agents):
        missing += [name for name in package.__all__ if getattr(package, name, None) is None]
    assert not missing


def test_contributing_gives_a_reason_for_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = [text for name, texts in project["optional-dependencies"].items() if name != "dev" for text in texts]
    names = {Requirement(text).name for text in [*project["dependencies"], *optional]}
    table = ROOT.joinpath("CONTRIBUTING.md").read_text(encoding="utf-8").split("## Dependencies")[1]
    assert {name for name in names if not re.search(rf"`{name}(\[\w+\])?`", table)} == set()


def test_the_page_about_tasks_shows_the_example():
    page = ROOT.joinpath("docs/how-to/add-a-task.md").read_text(encoding="utf-8")
    assert (ROOT / "examples/sort_words.py").read_text(encoding="utf-8").strip() == fences(page, "python")[0].strip()
