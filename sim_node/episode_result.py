"""How an episode ended, as an object and as a `~/episode` message. No ROS, no simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

NO_COMMAND = 'no_command'     # the outcome of an episode that nobody drove
HARDWARE = 'simulation'       # what a diagnostic status of ours is about
OK, WARN = 0, 1               # levels of diagnostic_msgs/DiagnosticStatus


@dataclass(frozen=True)
class EpisodeResult:
    """How an episode ended."""

    scenario: str
    row: str
    seed: int
    outcome: str       # success, collision, timeout or no_command
    steps: int         # of 0.1 s
    episode_return: float
    hit: str           # the name of the vehicle that was hit, or ''
    start: int         # ns
    end: int           # ns

    def texts(self) -> dict[str, str]:
        """As a message tells it; floats to the last bit."""
        return {_key(name): value if isinstance(value, str) else repr(value) for name, value in asdict(self).items()}

    def message(self) -> bytes:
        """The whole message (diagnostic_msgs/DiagnosticArray), in CDR."""
        from sim_node import cdr  # which needs NumPy; the pytest plugin only counts results and is loaded everywhere

        level = OK if self.outcome == 'success' else WARN
        return cdr.status(self.end, 'sim: episode', HARDWARE, level, self.outcome, self.texts())

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> EpisodeResult:
        """What a message told."""
        kinds = {'str': str, 'int': int, 'float': float}
        return cls(**{field.name: kinds[str(field.type)](texts[_key(field.name)]) for field in fields(cls)})


def _key(name: str) -> str:
    """A field's name in messages: there `return` is no keyword."""
    return name.removeprefix('episode_')
