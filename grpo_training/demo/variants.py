"""The variants of the ablation, what was measured of each, and the table that compares them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.statistics.paired import clustered_share, paired_difference
from grpo_training.evaluate.tables import points, points_interval

PLAIN = "GRPO alone"
TRACES_FILE = "teacher_traces.jsonl"
SHARED = {
    "export": "last",
    "beta": 0.0,
    "self-sft-weight": 0.0,
    "zero-variance": "drop",
    "rce-epochs": 0,
    "validation-share": 0.1,
}

PARTS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "ratio 1, so no clipping": {"missing-logprobs": "ratio_1"},
    "first epoch RCE": {"rce-epochs": 1, "num-train-epochs": 2},
    "teacher-SFT 0.3": {"teacher-sft-weight": 0.3, "teacher-traces": TRACES_FILE},
    "KL, beta 0.1": {"beta": 0.1},
    "KL, adaptive from 0.1": {"beta": 0.1, "adaptive-kl": True},
}
"""Differences from GRPO alone, which has 3 epochs, clipping, no KL, no SFT, and drops groups of equal rewards."""

_FAR = {"missing-logprobs": "ratio_1", "learning-rate": 2e-3}
FAR: dict[str, dict[str, Any]] = {
    "no KL": _FAR,
    "KL, beta 0.1": {**_FAR, "beta": 0.1},
    "KL, adaptive from 0.1": {**_FAR, "beta": 0.1, "adaptive-kl": True},
}
"""Ten times the learning rate and no clipping: only the KL term limits the policy."""

VARIANTS = {"parts": PARTS, "far": FAR}


@dataclass
class VariantResult:
    """Measurements of a variant.

    Args:
        verdicts: problem id -> 1.0 for right and 0.0 for wrong, one sample per seed.
        kl: for each seed, the final KL divergence from the initial model.
        seconds: for each seed, the duration of the training.
    """

    verdicts: dict[str, list[float]] = field(default_factory=dict)
    kl: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def table(results: dict[str, VariantResult], base: str = PLAIN) -> str:
    """The measurements as a Markdown table; each variant is compared with ``base`` on the same problems and seeds."""
    lines = [
        f"| variant | right (95 % interval) | points over {base} | KL to the start | seconds |",
        "|---|---|---|---|---|",
    ]
    for name, result in results.items():
        right = clustered_share(result.verdicts)
        difference = "-" if name == base else _difference(result, results[base])
        kl = "-" if not result.kl else f"{min(result.kl):.3f} to {max(result.kl):.3f}"
        seconds = "-" if not result.seconds else f"{sum(result.seconds) / len(result.seconds):.0f}"
        lines.append(
            f"| {name} | {right.value:.1%} ({right.low:.1%} to {right.high:.1%}) | {difference} | {kl} | {seconds} |"
        )
    return "\n".join(lines) + "\n"


def _difference(result: VariantResult, base: VariantResult) -> str:
    difference = paired_difference(result.verdicts, base.verdicts)
    text = f"{points(difference)} ({points_interval(difference)})"
    return text if difference.excludes_zero else f"{text}, may be chance"
