"""The messages of conversations in rows: role, text and images, in the forms of OpenAI, ShareGPT and Gemini."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.records import IMAGE_MARK


def message_of(message: Any) -> tuple[str, str]:
    """Role and text of a message of a chat, in OpenAI's form, as ``from`` and ``value``, or with ``parts``.

    A text in parts has a mark for each image.
    """
    if not isinstance(message, Mapping):
        return "", ""
    role = message.get("role", message.get("from"))
    content = message.get("content", message.get("value", message.get("parts", message.get("ground_truth"))))
    content = content.get("value") if isinstance(content, Mapping) else content  # Open-Reasoner-Zero
    names = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}
    if isinstance(content, list):
        content = "\n".join(IMAGE_MARK if is_image else text for is_image, text in map(_read_part, content)).strip()
    return names.get(str(role), str(role or "")), content if isinstance(content, str) else ""


def images_in(message: Any) -> list[Any]:
    """The images of a message in parts, in their order; None for one that a column of the row has."""
    content = message.get("content", message.get("value")) if isinstance(message, Mapping) else None
    return [image for is_image, image in map(_read_part, content) if is_image] if isinstance(content, list) else []


def _read_part(part: Any) -> tuple[bool, Any]:
    """Whether a part of a message is an image; and the image, or the text."""
    if isinstance(part, Mapping) and part.get("type") in ("image_url", "input_image", "image"):
        return True, next((part[key] for key in ("image_url", "image", "source", "url") if part.get(key)), None)
    text = part.get("text") if isinstance(part, Mapping) else part
    return False, text.replace(IMAGE_MARK, "") if isinstance(text, str) else ""


def are_messages(value: Any) -> bool:
    """Whether a value is a list of messages with a role and a text."""
    return isinstance(value, list) and bool(value) and all(role and text for role, text in map(message_of, value))
