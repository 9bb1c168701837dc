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


class Drawn(Record):
    """A game object that could be seen in most pictures since its first one, as it was drawn.

    Args:
        type: class name.
        inside: class name of the container or layer that draws it; empty for none.
        colors: that most of it had, in the order of the pictures, as ``0xRRGGBB``.
        width, height: without rotation and zoom of the camera, in pixels; ``first_width`` in its first frame.
        angle: degrees, clockwise.
        dx, dy: pixels between its first and its last place in the world.
        speed_x, speed_y: pixels per second, the median of the frames in which it moved.
        fall: pixels per second squared, the median change of its speed down the screen.
        since: milliseconds from the start of the first scene to its first frame.
        reach_x, reach_y: pixels between its outermost places.
        zoom: of its camera, in percent.
        text: what is written on it.
    """

    type: str
    inside: str = ""
    colors: tuple[int, ...] = ()
    width: float = 0
    height: float = 0
    first_width: float = 0
    angle: float = 0
    dx: float = 0
    dy: float = 0
    speed_x: float = 0
    speed_y: float = 0
    fall: float = 0
    since: float = 0
    reach_x: float = 0
    reach_y: float = 0
    zoom: float = 100
    text: str = ""


class SceneState(Record):
    """A scene at the end of the run. Counts of objects, bodies, timers and tweens are of the last frame.

    Args:
        key: the scene's key.
        created: how often its ``create`` stage completed.
        updates: how many frames it was updated.
        active: whether it runs at the end.
        display_list: number of game objects on its display list.
        objects: class name -> number on the display list that can be seen, e.g. ``{"Sprite": 3}``.
        inside: ``Container`` or ``Layer`` -> number of objects in those of the scene that can be seen.
        texts: the first 200 characters of each text object that can be seen, at most 300 objects.
        shapes: at most 300 that can be seen.
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
        renderer: what the game was run with: ``canvas``, or ``webgl`` if it asks for that and runs in Chromium. The
            drawing of WebGL is not followed; objects then count by what they say of themselves, and ``drawn`` is empty.
        width, height: size of the game in pixels.
        scenes: the scenes of the game.
        constructed: class name -> number of instances that the program caused over the whole run, e.g. ``{"Sprite": 4,
            "Tween": 2, "TimerEvent": 1, "ParticleEmitter": 1}``.
        textures: keys of textures that the program made.
        animations: keys of animations.
        timers_fired: callbacks of time events that ran.
        objects_seen: whether a game object could be seen in any picture.
        ground: the colour of most of the last picture that no object painted; -1: unknown.
        drawn: the objects that could be seen in most pictures since their first one and still exist, at most 300.
        tween_updates: whether a tween changed a value.
        collisions: callbacks of colliders and overlaps that ran.
        moved: objects in ``drawn`` whose place differs between their first and their last frame.
        changed_texts: text objects in ``drawn`` whose text differs between them.
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
    drawn: tuple[Drawn, ...] = ()
    ground: int = -1
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
