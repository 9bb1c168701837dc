"""Embeddings: tables, hashing, sentence-transformers and CLIP with real loading code, computing once."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from engine.errors import ConfigurationError, InputError, MissingInputError  # noqa: E402
from grpo_training.selector.__main__ import main  # noqa: E402
from grpo_training.selector.data.embedders import ClipEmbedder, HashingEmbedder, open_embedder  # noqa: E402
from grpo_training.selector.data.embeddings import EmbeddingTable, load_table, mean_of_normalised  # noqa: E402


def test_tables_are_memory_mapped_and_checked(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "a.npy", rows)
    torch.save(torch.tensor(rows), tmp_path / "a.pt")
    for name in ("a.npy", "a.pt"):
        assert load_table(tmp_path / name).rows([3, 0]).tolist() == [[9, 10, 11], [0, 1, 2]]
    assert isinstance(load_table(tmp_path / "a.npy")._matrix, np.memmap)
    with pytest.raises(InputError, match="no row for the item 4"):
        load_table(tmp_path / "a.npy").rows([4])
    with pytest.raises(InputError, match="no row for the item -1"):
        load_table(tmp_path / "a.npy").rows([-1])
    np.save(tmp_path / "flat.npy", np.zeros(3))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "bad.pt").write_bytes(b"no")
    for name, message in (("flat.npy", "expected a matrix"), ("objects.npy", "Cannot read"), ("bad.pt", "Cannot read")):
        with pytest.raises(InputError, match=message):
            load_table(tmp_path / name)
    with pytest.raises(MissingInputError, match="Embeddings not found"):
        load_table(tmp_path / "none.npy")
    with pytest.raises(InputError, match="not finite"):
        EmbeddingTable(np.array([[np.nan, 1.0]])).rows([0])


def test_image_and_text_are_combined_as_the_normalised_mean():
    images, texts = EmbeddingTable(np.array([[3.0, 0.0]])), EmbeddingTable(np.array([[0.0, 0.1]]))
    half = 2**-0.5
    assert mean_of_normalised(images, texts).rows([0])[0].tolist() == pytest.approx([half, half])
    with pytest.raises(InputError, match="differ in shape"):
        mean_of_normalised(images, EmbeddingTable(np.zeros((2, 2))))


def test_hashing_puts_texts_with_the_same_words_together():
    rows = HashingEmbedder().embed(["Two trains meet.", "trains MEET: two", "a coat at a discount", ""])
    assert np.linalg.norm(rows, axis=1).tolist() == pytest.approx([1, 1, 1, 0])
    assert rows[0] @ rows[1] > 0.5 > abs(rows[0] @ rows[2]) + 0.3
    assert np.array_equal(
        rows, open_embedder("hashing").embed(["Two trains meet.", "trains MEET: two", "a coat at a discount", ""])
    )
    with pytest.raises(ConfigurationError, match="Unknown embedding model"):
        open_embedder("hashing:512")


def test_models_that_cannot_be_loaded_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="Cannot load the CLIP model"):
        open_embedder(f"clip:{tmp_path / 'empty'}")
    with pytest.raises(ConfigurationError, match="Unknown embedding model 'all-MiniLM-L6-v2'"):
        open_embedder("all-MiniLM-L6-v2")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="Not installed: transformers, PIL"):
        open_embedder("clip:openai/clip-vit-base-patch32")


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A tiny CLIP with random weights, saved as a real one is."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("PIL")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("clip")
    words = ["<s>", "</s>", "<unk>", "red", "blue", "square"]
    vocabulary = tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    tokenizer = tokenizers.Tokenizer(vocabulary)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="</s>",
        bos_token="<s>",
        unk_token="<unk>",
        pad_token="</s>",
        model_max_length=16,
    )
    text = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 6,
    }
    text |= {"max_position_embeddings": 16, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": 16, "patch_size": 8}
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
    transformers.CLIPModel(config).save_pretrained(folder)
    images = transformers.CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    transformers.CLIPProcessor(images, fast).save_pretrained(folder)
    return folder


def test_clip_embeds_images_and_texts_in_one_space(clip, tmp_path):
    from PIL import Image
    from transformers import CLIPModel

    for name, colour in (("red.png", (255, 0, 0)), ("blue.png", (0, 0, 255))):
        Image.new("RGB", (20, 30), colour).save(tmp_path / name)
    embedder = ClipEmbedder(str(clip))
    images = embedder.embed_images([str(tmp_path / "red.png"), str(tmp_path / "blue.png")])
    texts = embedder.embed(["red square", "blue"])
    assert images.shape == texts.shape == (2, 8)
    assert np.linalg.norm(images, axis=1).tolist() == pytest.approx([1, 1])
    assert not np.allclose(images[0], images[1])
    # the cosines are those that the model itself gives
    inputs = embedder._processor(
        text=["red square", "blue"],
        images=[Image.open(tmp_path / n) for n in ("red.png", "blue.png")],
        return_tensors="pt",
        padding=True,
    )
    with torch.no_grad():
        model = CLIPModel.from_pretrained(clip)
        logits = model(**inputs).logits_per_image / model.logit_scale.exp()
    assert np.allclose(images @ texts.T, logits.numpy(), atol=1e-5)


def test_the_embed_step_writes_texts_and_images(clip, tmp_path, capsys):
    from PIL import Image

    Image.new("RGB", (20, 30), (9, 9, 9)).save(tmp_path / "a.png")
    rows = [{"id": "1", "problem": "what is red?", "answer": "1", "image": "a.png"}]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["embed", "--dataset", str(tmp_path / "data.jsonl"), "--output-dir", str(tmp_path / "out")]
    assert main(words) == 0
    images = [*words, "--images", "image", "--images-dir", str(tmp_path)]
    assert main([*images, "--embedding-model", f"clip:{clip}"]) == 0
    tables = [load_table(Path(line.split(": ")[1])) for line in capsys.readouterr().out.splitlines() if ".npy" in line]
    assert [(len(table), table.dimensions) for table in tables] == [(1, 256), (1, 8)]
    with pytest.raises(InputError, match="hashing embeds no images"):
        main(images)
    (tmp_path / "a.png").write_bytes(b"no image")
    (tmp_path / "out2").mkdir()
    with pytest.raises(InputError, match="Cannot read the image"):
        main([*images, "--embedding-model", f"clip:{clip}", "--output-dir", str(tmp_path / "out2")])


def test_what_is_no_number_is_named(tmp_path):
    np.save(tmp_path / "texts.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "complex.npy", np.ones((2, 2), dtype=complex))
    for name in ("texts", "complex"):
        with pytest.raises(InputError, match=f"{name}.npy: expected numbers"):
            load_table(tmp_path / f"{name}.npy")
    with pytest.raises(InputError, match="the embedding of the item 5 is not finite"):
        EmbeddingTable(np.where(np.arange(8)[:, None] == 5, np.nan, np.ones((8, 2)))).rows([1, 5, 6])


def test_an_own_encoder_gives_a_finite_row_for_each_item(tmp_path):
    (tmp_path / "own.py").write_text(
        "import numpy as np\n"
        "class Few:\n    def embed(self, texts): return np.ones((1, 2))\n"
        "class Nan:\n    def embed(self, texts): return np.full((len(texts), 2), np.nan)\n"
        "NUMBER = 5\n"
    )
    rows = [{"problem": text, "answer": "1"} for text in ("one", "two")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["embed", "--dataset", str(tmp_path / "rows.jsonl"), "--output-dir", str(tmp_path / "out")]
    for name, message in (("Few", "made 1 rows of 2 items"), ("Nan", "not finite"), ("NUMBER", "is no encoder")):
        with pytest.raises(InputError, match=message):
            main([*words, "--embedding-model", f"{tmp_path / 'own.py'}:{name}"])
    assert not list(tmp_path.glob("out/*.npy"))
