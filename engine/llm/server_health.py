"""What is known about one server: its load, its failures, and the time that it needs for a reply."""

from dataclasses import dataclass, field

_FIRST_OUT_S = 5.0
_LONGEST_OUT_S = 300.0
_MANY_BLANKS, _BLANK_SHARE = 5, 0.1
"""A server is said to send blank replies after this many, if they are this share of all."""
_PACE_WEIGHT = 0.2
"""Weight of the newest reply in the mean time per reply."""


@dataclass
class ServerHealth:
    """What is known about one server. Times are in seconds of a monotonic clock.

    Args:
        load: samples that are assigned to it.
        failures: failures since its last reply.
        cooldowns: how often it was taken out since its last reply.
        refused: whether it refused a request for a reason that concerns every request, such as a wrong key.
        out_until: it gets no requests before this time.
        choices: samples that it sent.
        blank: those of them that have no text for no known reason.
    """

    load: int = 0
    failures: int = 0
    cooldowns: int = 0
    refused: bool = False
    out_until: float = 0.0
    choices: int = 0
    blank: int = 0
    _blank_told: int = 0
    _pace_s: float | None = None
    _sent_at: dict[int, float] = field(default_factory=dict)

    def sent(self, call: int, now: float) -> None:
        """Record that a request was sent."""
        self._sent_at[call] = now

    def ended(self, call: int) -> None:
        """Record that a request has ended in any way."""
        self._sent_at.pop(call, None)

    def answered(self, seconds: float) -> None:
        """Record a reply that took ``seconds``."""
        self.failures, self.cooldowns, self.refused, self.out_until = 0, 0, False, 0.0
        before = seconds if self._pace_s is None else self._pace_s
        self._pace_s = (1 - _PACE_WEIGHT) * before + _PACE_WEIGHT * seconds

    def sends_blanks(self, choices: int, blank: int) -> bool:
        """Record a reply with ``blank`` samples without text; whether to say that there are many (and again at twice
        as many)."""
        self.choices += choices
        self.blank += blank
        if not blank or self.blank < max(_MANY_BLANKS, 2 * self._blank_told):
            return False
        if self.blank < _BLANK_SHARE * self.choices:
            return False
        self._blank_told = self.blank
        return True

    def pace_s(self, now: float) -> float | None:
        """Seconds per reply: the mean, or the age of the oldest request in flight if that is larger."""
        oldest = next(iter(self._sent_at.values()), now)
        waited = max(0.0, now - oldest)
        return waited or None if self._pace_s is None else max(self._pace_s, waited)

    def take_out(self, now: float) -> float:
        """Give it no requests for a while, twice as long each time; the number of seconds."""
        seconds = min(_LONGEST_OUT_S, _FIRST_OUT_S * 2.0 ** min(self.cooldowns, 10))
        self.cooldowns += 1
        self.out_until = max(self.out_until, now + seconds)
        return seconds
