"""What the settings of the steps of ``python -m grpo_training.selector`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from grpo_training.cli.settings import WORKING_DIR
from grpo_training.cli.steps import StepSettings

OUTPUTS = WORKING_DIR / "outputs/selector"
ModelVersion = Annotated[Literal["v2", "v3"], BeforeValidator(lambda value: str(value).lower())]
"""v2: after SFT; v3: after the post-training."""
NormalizeMethod = Literal["z_score", "z_score_clamp", "rank_normalize", "none"]
RewardMode = Literal[
    "hard_plus_soft",
    "hard_plus_soft_v2",
    "separated",
    "hard_only",
    "soft_only",
    "hard01_plus_gtprob",
    "hard01_plus_gtprob_separated",
    "hard_plus_gtprob_plus_rel",
    "legacy",
]


class EmbeddingSettings(StepSettings):
    """Which embeddings a step reads."""

    embeddings: Path | None = Field(None, description="embeddings of queries and shots: a .npy or .pt file, row = id")
    img_emb: Path | None = Field(None, description="image embeddings; with --text-emb, the normalised mean is used")
    text_emb: Path | None = Field(None, description="text embeddings, for --img-emb")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.img_emb is None) != (self.text_emb is None):
            raise ValueError("--img-emb and --text-emb belong together")
        if self.embeddings is not None and self.img_emb is not None:
            raise ValueError("--embeddings and --img-emb exclude each other")
        return self
