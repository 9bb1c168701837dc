"""A page of curves for a training: one HTML file that loads nothing and runs no script.

Values appear where the pointer is, by CSS alone. All text in it (names, prompts, completions) is escaped, and the
page's own policy forbids it to load or run anything.
"""

from __future__ import annotations

import json
from html import escape
from statistics import fmean
from typing import TYPE_CHECKING

from engine.errors import InputError, MissingInputError
from engine.storage.append_log import replace_file
from grpo_training.viewer.charts import (
    COLORS,
    Chart,
    chart_svg,
    matching,
    number,
    short,
    shown,
    stages,
    thinned,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grpo_training.viewer.charts import Row

METRICS, CONFIG, SAMPLES, PAGE = "metrics.jsonl", "config.yaml", "samples.jsonl", "report.html"
_SHOWN_SAMPLE = 4000  # characters


CHARTS = (
    Chart("Reward", ("reward", "validation/reward"), band=("reward", "reward_std"), note="mean, and ± the spread"),
    Chart("Pass rate", ("pass_rate",), note="share of right completions"),
    Chart("Reward components", ("rewards/*/mean",)),
    Chart("KL and beta", ("kl", "validation/kl"), ("beta",), note="nats a token; beta on the right"),
    Chart("Loss", ("loss", "loss/*"), note="parts before their weights"),
    Chart("Weights of the loss parts", ("weight/*",)),
    Chart("Clipped", ("clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "cispo_clip_ratio")),
    Chart("Groups without spread", ("frac_reward_zero_std",), note="they teach nothing; near 1 the run stands still"),
    Chart(
        "Completion length",
        ("completions/mean_length",),
        ("completions/clipped_ratio",),
        note="tokens; share cut off on the right",
    ),
    Chart("Entropy", ("entropy",), note="nats a token; near 0 nothing new is tried"),
    Chart("Faults", ("faults/*", "old_logps_missing")),
    Chart("Speed", ("tokens_per_s",), note="tokens a second"),
    Chart("Learning rate and gradient", ("learning_rate",), ("grad_norm",), note="norm before clipping on the right"),
)


def write_page(run_dir: Path) -> Path:
    """Write ``report.html`` of a run from its ``metrics.jsonl``, and ``config.yaml`` and ``samples.jsonl`` if there.

    Returns:
        the page.

    Raises:
        MissingInputError: the folder holds no metrics.
        InputError: the file holds no line of metrics.
    """
    path = run_dir / METRICS
    if not path.exists():
        raise MissingInputError(f"No metrics in {run_dir}", fix="Name the folder that a training wrote to.")
    rows = [row for row in _json_lines(path) if isinstance(row.get("step"), int)]
    if not rows:
        raise InputError(f"{path} holds no line of metrics", why="The training stopped before its first step.")
    rows.sort(key=lambda row: row["step"])
    page = run_dir / PAGE
    config = run_dir / CONFIG
    settings = config.read_text(encoding="utf-8", errors="replace") if config.exists() else ""
    samples = _json_lines(run_dir / SAMPLES) if (run_dir / SAMPLES).exists() else []
    replace_file(page, _page(run_dir.name, rows, settings, samples).encode())
    return page


def _json_lines(path: Path) -> list[Row]:
    """The objects of a file; a line that was cut off by a crash is passed over."""
    found = []
    for line in path.read_bytes().splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


# ------------------------------------------------------------------ the page


def _page(name: str, rows: Sequence[Row], settings: str, samples: Sequence[Row]) -> str:
    points = thinned(rows)
    figures = []
    for chart in CHARTS:
        svg = chart_svg(chart, points)
        if svg:
            legend = "".join(
                f'<span><i class="s{place % COLORS}"></i>{escape(short(metric))}</span>'
                for place, metric in enumerate(matching(chart.left, points) + matching(chart.right, points))
            )
            note = f"<small>{escape(chart.note)}</small>" if chart.note else ""
            figures.append(
                f"<figure><h2>{escape(chart.title)}</h2>{note}{svg}<figcaption>{legend}</figcaption></figure>"
            )
    title = escape(name)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title} · training</title><style>{_STYLE}</style></head><body>"
        f"<h1>{title}</h1>{_summary(rows)}<main>{''.join(figures)}</main>{_sample_part(samples)}{_settings_part(settings)}"
        "</body></html>\n"
    )


def _summary(rows: Sequence[Row]) -> str:
    """First and last tenth of the run, side by side."""
    lines = []
    for name in ("reward", "pass_rate", "validation/reward", "kl", "completions/mean_length", "tokens_per_s"):
        values = [value for row in rows if (value := number(row, name)) is not None]
        if values:
            share = max(1, len(values) // 10)
            first, last = fmean(values[:share]), fmean(values[-share:])
            lines.append(
                f"<tr><th>{escape(name)}</th><td>{shown(first)}</td><td>{shown(last)}</td>"
                f"<td>{shown(last - first) if last < first else '+' + shown(last - first)}</td></tr>"
            )
    found = " → ".join(escape(name or "training") for _, _, name in stages(rows))
    head = "<tr><th></th><td>first tenth</td><td>last tenth</td><td>change</td></tr>"
    return f"<p>{rows[-1]['step']} steps: {found}</p><table>{head}{''.join(lines)}</table>"


def _sample_part(samples: Sequence[Row]) -> str:
    """Completions of the first and of the last step that samples were kept of."""
    steps = sorted({row["step"] for row in samples if isinstance(row.get("step"), int)})
    if not steps:
        return ""
    columns = []
    for step in dict.fromkeys((steps[0], steps[-1])):
        cards = "".join(_card(row) for row in samples if row.get("step") == step)
        columns.append(f"<section><h2>Completions of step {step}</h2>{cards}</section>")
    return f'<div class="samples">{"".join(columns)}</div>'


def _card(row: Row) -> str:
    verdict = {True: "right", False: "wrong"}.get(row.get("is_correct"), "not checked")  # type: ignore[arg-type]
    reward = number(row, "reward")
    earned = "no reward" if reward is None else f"reward {shown(reward)}"
    problem, completion = str(row.get("problem", "")), str(row.get("completion", ""))
    return (
        f"<article><p>{escape(problem[:_SHOWN_SAMPLE])}</p><pre>{escape(completion[:_SHOWN_SAMPLE])}</pre>"
        f"<small>{verdict}, {earned}</small></article>"
    )


def _settings_part(settings: str) -> str:
    return f"<details><summary>Settings</summary><pre>{escape(settings)}</pre></details>" if settings else ""


_STYLE = """
:root{color-scheme:light dark;--ink:#1c2024;--soft:#6a7178;--paper:#fff;--card:#f6f7f8;--line:#dfe3e6;
--s0:#0b62c4;--s1:#c2410c;--s2:#15803d;--s3:#7c3aed;--s4:#a16207;--s5:#0e7490}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#98a1a9;--paper:#14171a;--card:#1c2126;--line:#333a41;
--s0:#6cb0ff;--s1:#ff9a62;--s2:#5fd38a;--s3:#bd9bff;--s4:#e5c04b;--s5:#5ccfe6}}
body{margin:2rem auto;max-width:1180px;padding:0 1rem;background:var(--paper);color:var(--ink);
font:15px/1.45 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0}h2{font-size:1rem;margin:0}small,figcaption,p{color:var(--soft)}
table{border-collapse:collapse;margin:0 0 1.5rem}th,td{padding:.15rem 1.2rem .15rem 0;text-align:right;
font-variant-numeric:tabular-nums}th{text-align:left;font-weight:500}
main,.samples{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:1rem}
figure,article{margin:0;padding:.8rem 1rem;background:var(--card);border-radius:8px}article{margin:.8rem 0}
svg{width:100%;height:auto;display:block}figcaption{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.85rem}
figcaption i{display:inline-block;width:.9em;height:.25em;margin-right:.4em;vertical-align:middle}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font:12.5px/1.4 ui-monospace,monospace}
.grid{stroke:var(--line);fill:none}.tick,text.stage{fill:var(--soft);font-size:10.5px}
path.stage{stroke:var(--soft);stroke-dasharray:3 3}.line{fill:none;stroke-width:1.7;stroke-linejoin:round}
.band{fill:var(--s0);opacity:.15}.hit rect{fill:transparent}.hit path{stroke:var(--soft)}
.hit path,.hit circle,.hit text{opacity:0;pointer-events:none}.hit text{fill:var(--ink);font-size:11px}
.hit:hover path,.hit:hover circle,.hit:hover text{opacity:1}
""" + "".join(
    f".line.s{n}{{stroke:var(--s{n})}}circle.s{n}{{fill:var(--s{n})}}i.s{n}{{background:var(--s{n})}}"
    for n in range(COLORS)
)
