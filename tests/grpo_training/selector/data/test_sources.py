"""Which model and which modality made embeddings: recorded, refused where they differ, used again for queries."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

from engine.errors import InputError
from engine.records import Problem
from grpo_training.selector.__main__ import main
from grpo_training.selector.data.embedders import open_embedder
from grpo_training.selector.data.sources import embed_as, record_of
from grpo_training.selector.settings import EmbeddingSettings
from tests.conftest import ROOT
from tests.support import pictures

ENCODER = f"{ROOT / 'tests/support/pictures.py'}:ShapeEncoder"


@pytest.fixture
def drawn(tmp_path):
    """A data set of six pictures, with the embeddings of its texts and images."""
    pictures.write_dataset(tmp_path / "data.jsonl", range(6))
    words = ["--dataset", str(tmp_path / "data.jsonl"), "--embedding-model", ENCODER, "--output-dir", str(tmp_path)]
    assert main(["embed", *words]) == 0
    assert main(["embed", *words, "--images", "image", "--images-dir", str(tmp_path)]) == 0
    pairs = {str(q): {"id_list": [[1, 2, q], [2, 3, q]], "score_list": [1.0, 0.5]} for q in (0, 4, 5)}
    (tmp_path / "beams.json").write_text(json.dumps(pairs))
    return tmp_path, {"text": tmp_path / "embeddings.npy", "image": tmp_path / "image_embeddings.npy"}


def sft(folder, *more):
    words = ["--beam-data", str(folder / "beams.json"), "--epochs", "1", "--hidden-dim", "8"]
    return main(["sft", *words, "--output-dir", str(folder / "sft"), "--fresh", *more])


def test_files_record_model_and_modality_and_those_of_the_other_kind_are_refused(drawn):
    folder, paths = drawn
    records = {kind: json.loads(path.with_suffix(".json").read_text()) for kind, path in paths.items()}
    assert {kind: (record["modality"], record["model"]) for kind, record in records.items()} == {
        "text": ("text", ENCODER),
        "image": ("image", ENCODER),
    }
    assert sft(folder, "--img-emb", str(paths["image"]), "--text-emb", str(paths["text"])) == 0
    words = ["--sft-ckpt", str(folder / "sft/best_model.ckpt"), "--beam-data", str(folder / "beams.json")]
    with pytest.raises(InputError, match="was trained on other embeddings") as error:
        main(["train", *words, "--embeddings", str(paths["text"]), "--output-dir", str(folder / "post")])
    assert "It was trained on those of: image, text" in str(error.value)


def test_embeddings_of_another_program_tell_what_their_file_tells(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3), dtype=np.float32))
    settings = EmbeddingSettings(embeddings=tmp_path / "a.npy")
    (tmp_path / "a.json").write_text(json.dumps({"model": "clip:x", "items": 2}))
    assert record_of(settings)["parts"] == [{"modality": None, "model": "clip:x"}]
    for foreign in ("[]", "5", "{"):
        (tmp_path / "a.json").write_text(foreign)
        assert record_of(settings)["parts"] == [{"modality": None, "model": None}]
    with pytest.raises(InputError, match=r"a\.ckpt does not tell which model embeds texts"):
        embed_as({"parts": [{"model": "clip:x"}]}, "a.ckpt", [], [])


def test_queries_are_embedded_as_the_training_set_was(drawn):
    """The same rows give the same embeddings as in the files: text, image, and their normalised mean."""
    folder, paths = drawn
    rows = [json.loads(line) for line in (folder / "data.jsonl").read_text().splitlines()]
    problems = [Problem(id=str(n), text=row["question"], answer="1") for n, row in enumerate(rows)]
    files = [folder / row["image"] for row in rows]
    text, image = np.load(paths["text"]), np.load(paths["image"])
    mean = (text + image) / np.linalg.norm(text + image, axis=1, keepdims=True)
    for modalities, expected in ((["text"], text), (["image"], image), (["image", "text"], mean)):
        record = {"parts": [{"modality": modality, "model": ENCODER} for modality in modalities]}
        table = embed_as(record, "a.ckpt", problems, files)
        assert np.allclose(table.rows(range(6)).numpy(), expected, atol=1e-6), modalities
    with pytest.raises(InputError, match="was trained on embeddings of images"):
        embed_as({"parts": [{"modality": "image", "model": ENCODER}]}, "a.ckpt", problems, [])
    with pytest.raises(InputError, match="hashing embeds no images"):
        embed_as({"parts": [{"modality": "image", "model": "hashing"}]}, "a", problems, files)


def test_an_encoder_of_the_users_needs_a_method_for_texts(tmp_path):
    (tmp_path / "own.py").write_text("class Nothing:\n    pass\n")
    with pytest.raises(InputError, match="is no encoder"):
        open_embedder(f"{tmp_path / 'own.py'}:Nothing")
