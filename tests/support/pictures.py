"""Questions about drawn pictures, a server that decodes the pictures to answer them, and an encoder of both.

A picture has 16 cells on coloured paper; a cell is empty, or has a circle or a square in one of three colours. The
server counts what it sees. It answers rightly for as large a share of the queries as its shots allow: a shot on the
same paper helps, which only pixels show, and so does a shot whose question is about the same shape.
"""

import base64
import functools
import hashlib
import io
import json
import math
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
from aiohttp import web
from PIL import Image, ImageDraw

PAPERS = ((255, 255, 255), (200, 200, 200), (255, 240, 170), (180, 220, 255))
COLOURS = {"red": (220, 30, 30), "green": (30, 160, 60), "blue": (40, 60, 220)}
SHAPES = ("circle", "square")
CELL, SIDE, HALF = 16, 4, 5
"""Pixels of a cell, cells of a side, half the width of a shape in pixels."""
BASE, SAME_PAPER, SAME_SHAPE = 0.1, 0.45, 0.3
"""The share of queries that are answered rightly without help, and what each help adds."""


def draw(seed: int, folder: Path) -> dict:
    """Draw a picture; its row, with a question and the answers of ten people, two of whom miscount."""
    rng = random.Random(seed)
    paper = rng.choice(PAPERS)
    image = Image.new("RGB", (CELL * SIDE, CELL * SIDE), paper)
    pen, counts = ImageDraw.Draw(image), Counter()
    for cell in rng.sample(range(SIDE * SIDE), rng.randint(5, 12)):
        colour, shape = rng.choice(list(COLOURS)), rng.choice(SHAPES)
        x, y = CELL * (cell % SIDE) + CELL // 2, CELL * (cell // SIDE) + CELL // 2
        box = (x - HALF, y - HALF, x + HALF, y + HALF)
        (pen.ellipse if shape == "circle" else pen.rectangle)(box, fill=COLOURS[colour])
        counts[colour, shape] += 1
    image.save(folder / f"{seed}.png")
    colour, shape = rng.choice(list(COLOURS)), rng.choice(SHAPES)
    count = counts[colour, shape]
    people = [str(count)] * 8 + [str(count + 1)] * 2
    return {"question_id": seed, "question": f"how many {colour} {shape}s?", "answers": people, "image": f"{seed}.png"}


def write_dataset(path: Path, seeds: range) -> None:
    """A JSONL file of questions, with their pictures beside it."""
    path.write_text("".join(json.dumps(draw(seed, path.parent)) + "\n" for seed in seeds))


@functools.lru_cache(maxsize=100_000)
def see(png: bytes) -> tuple[int, tuple[int, ...]]:
    """The number of the paper, and how many shapes there are of each colour and shape, all read from the pixels."""
    with Image.open(io.BytesIO(png)) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    paper = PAPERS.index(tuple(pixels[0, 0].tolist()))
    counts = Counter()
    for row in range(SIDE):
        for column in range(SIDE):
            y, x = CELL * row + CELL // 2, CELL * column + CELL // 2
            middle = tuple(pixels[y, x].tolist())
            colour = next((name for name, value in COLOURS.items() if value == middle), None)
            if colour is not None:
                corner = tuple(pixels[y - HALF, x - HALF].tolist())
                counts[colour, "square" if corner == middle else "circle"] += 1
    return paper, tuple(counts[colour, shape] for colour in COLOURS for shape in SHAPES)


class ShapeEncoder:
    """Embeds pictures by what is on them, and questions by their words, in one space of 16 dimensions."""

    name = "shapes:1"

    def embed(self, texts):
        """Colours and shapes that a text names."""
        words = [*COLOURS, *(f"{shape}s" for shape in SHAPES)]
        rows = [[0.0] * 10 + [float(word in text) for word in words] + [0.0] for text in texts]
        return _unit(np.array(rows))

    def embed_images(self, paths):
        """The paper, faintly, and the number of each kind of shape."""
        rows = []
        for path in paths:
            paper, counts = see(Path(path).read_bytes())
            rows.append([1.0 * (number == paper) for number in range(4)] + list(counts) + [0.0] * 6)
        return _unit(np.array(rows, dtype=float))


def _unit(rows):
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms > 0, norms, 1)).astype(np.float32)


def chance_of_right(content: list) -> tuple[float, int, float]:
    """The chance of a right answer to the last question, the right count, and a number in [0, 1) of the query.

    Args:
        content: the parts of the user's message: a picture and a question with its answer for each shot, then those of
            the query.
    """
    pictures = [base64.b64decode(p["image_url"]["url"].partition(",")[2]) for p in content if p["type"] == "image_url"]
    asked = re.findall(r"how many (\w+) (\w+)s\?", " ".join(p["text"] for p in content if p["type"] == "text"))
    assert len(pictures) == len(asked)
    (*papers, paper), counts = [see(picture)[0] for picture in pictures], see(pictures[-1])[1]
    (*others, (colour, shape)) = asked
    right = dict(zip([(c, s) for c in COLOURS for s in SHAPES], counts, strict=True))[colour, shape]
    chance = BASE + SAME_PAPER * (paper in papers) + SAME_SHAPE * any(other_shape == shape for _, other_shape in others)
    draw = int.from_bytes(hashlib.sha256(pictures[-1] + f"{colour}{shape}".encode()).digest()[:8]) / 2**64
    return chance, right, draw


def seeing_app(log: list | None = None) -> web.Application:
    """A chat API that answers from the pixels, and gives log-probs of a given answer."""

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        if log is not None:
            log.append(body)
        user, *answers = body["messages"]
        chance, right, draw = chance_of_right(user["content"])
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "usage": usage}
        count = str(right) if draw < chance else str(right + 2)
        message = {"role": "assistant", "content": f"{count} Question: next"}
        reply["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        if answers:
            answer = answers[0]["content"]
            value = math.log(0.98 * chance + 0.01 if answer == str(right) else 0.01)
            tokens = [("<|image|>", -20.0), (":", -1.0), (answer, value)]
            reply["prompt_logprobs"] = [
                None,
                *({str(n): {"logprob": v, "rank": 1, "decoded_token": t}} for n, (t, v) in enumerate(tokens)),
            ]
        return web.json_response(reply)

    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", chat)
    return app
