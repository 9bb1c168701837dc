"""What a person could see of a run of a game."""

from __future__ import annotations

from pydantic import Field

from engine.records import Record


class SceneState(Record):
    """A scene at the end of the run.

    Args:
        key: the scene's key.
        created: how often its ``create`` stage completed.
        updates: how many frames it was updated.
        active: whether it runs at the end.
        objects: number of game objects on its display list.
    """

    key: str = ""
    created: int = Field(default=0, ge=0)
    updates: int = Field(default=0, ge=0)
    active: bool = False
    objects: int = Field(default=0, ge=0)


class Observed(Record):
    """A run, as Chromium shows it. The pictures are of the largest canvas in the window.

    Args:
        frames: frames that ran after the first scene was created.
        renderer: ``canvas``, or ``webgl`` if the program asks for effects or shaders.
        shows: whether a picture has more than one colour.
        moves: whether the pictures of a run without input differ.
        reacts: whether keys and clicks change a picture; None if the program listens for none.
        colors: the commonest colours of the last picture, as ``#rrggbb``.
        scenes: the scenes of the game.
        console: what the program printed.
        requests: addresses that the program tried to load.
    """

    frames: int = Field(default=0, ge=0)
    renderer: str = "canvas"
    shows: bool = False
    moves: bool = False
    reacts: bool | None = None
    colors: tuple[str, ...] = ()
    scenes: tuple[SceneState, ...] = ()
    console: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
