"""What a run of a game showed, seen from outside its code."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from engine.records import Record


class Shape(Record):
    """A shape (``Rectangle``, ``Arc``, ``Star`` ...) in the last frame.

    Args:
        color: of its filling, or of its outline if it is not filled, as ``0xRRGGBB``; -1: none.
        width, height: on the screen, in pixels.
    """

    color: int = -1
    width: int = 0
    height: int = 0


class SceneState(Record):
    """A scene at the end of the run. Counts of objects, bodies, timers and tweens are of the last frame.

    Args:
        key: the scene's key.
        created: how often its ``create`` stage completed.
        updates: how many frames it was updated.
        active: whether it runs at the end.
        display_list: number of game objects on its display list.
        objects: class name -> number on the display list, e.g. ``{"Sprite": 3}``.
        inside: ``Container`` or ``Layer`` -> number of objects in those of the scene.
        texts: the first 200 characters of each text object, at most 300 objects.
        shapes: at most 300.
        bodies: dynamic physics bodies; ``static_bodies`` the static ones.
        timers: pending time events.
        tweens: tweens that exist.
    """

    key: str
    created: int = 0
    updates: int = 0
    active: bool = False
    display_list: int = 0
    objects: dict[str, int] = Field(default_factory=dict)
    inside: dict[str, int] = Field(default_factory=dict)
    texts: tuple[str, ...] = ()
    shapes: tuple[Shape, ...] = ()
    bodies: int = 0
    static_bodies: int = 0
    timers: int = 0
    tweens: int = 0


class Observed(Record):
    """What the run did, as observed from outside the program's code.

    Args:
        frames: frames that ran after the first scene was created.
        renderer: what the game was run with: ``canvas``, or ``webgl`` in Chromium.
        width, height: size of the game in pixels.
        scenes: the scenes of the game.
        constructed: class name -> number of instances that the program caused over the whole run, e.g. ``{"Sprite": 4,
            "Tween": 2, "TimerEvent": 1, "ParticleEmitter": 1}``.
        textures: keys of textures that the program made.
        animations: keys of animations.
        timers_fired: callbacks of time events that ran.
        objects_seen: whether a game object was visible in the picture in any frame.
        tween_updates: whether a tween changed a value.
        collisions: callbacks of colliders and overlaps that ran.
        moved: objects whose position differs between the first and the last frame.
        changed_texts: text objects whose text differs between them.
        input_events: names of the input and keyboard events for which the program listens.
        other_events: names of other events for which it listens.
        keys: names of keys it reads.
        reacted_to_keys, reacted_to_pointer: whether the state after the simulated input differs from that of a run
            without it; None if there was no such input or ``check_reaction`` is off.
        calls: ``Owner#method`` of a scene's plugins, factories and cameras that the program's own code called.
        external_assets: addresses that the program tried to load. There is no network.
        signals: the JSON value of ``window.__signals__`` at the end; None if there is none or it is no JSON value.
        signals_at_start: the same after the first frame.
        console: the first lines printed with ``console``.
        digest: a hash of all that a player could see at the end.
    """

    frames: int = 0
    renderer: str = "canvas"
    width: int = 0
    height: int = 0
    scenes: tuple[SceneState, ...] = ()
    constructed: dict[str, int] = Field(default_factory=dict)
    textures: tuple[str, ...] = ()
    animations: tuple[str, ...] = ()
    timers_fired: int = 0
    objects_seen: bool = True
    tween_updates: bool = False
    collisions: int = 0
    moved: int = 0
    changed_texts: int = 0
    input_events: tuple[str, ...] = ()
    other_events: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    reacted_to_keys: bool | None = None
    reacted_to_pointer: bool | None = None
    calls: tuple[str, ...] = ()
    external_assets: tuple[str, ...] = ()
    signals: Any = None
    signals_at_start: Any = None
    console: tuple[str, ...] = ()
    digest: int = 0

    @property
    def display_list(self) -> int:
        """Game objects on the display lists of all scenes."""
        return sum(scene.display_list for scene in self.scenes)
