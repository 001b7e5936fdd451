"""What the paper claims, and whether it came out here, first on the page: each claim is a measurement with a threshold.

The claims about alpha are held against the shipped models and against those of the paper's own values.
"""

from __future__ import annotations

from collections.abc import Iterator

from wcpg_ros.results import claims_of_alpha, claims_of_parts
from wcpg_ros.results.claim import Claim
from wcpg_ros.results.context import Context

LATER = '†'
UNTESTED = ('Claims that we did not test: the transfer to CARLA, and that numbers and sizes of layers hardly matter '
            '(ours differ from the paper\'s).')


def lines(context: Context) -> list[str]:
    """What did not come out first, then what did in part, then the rest; one item for a sentence."""
    groups: dict[str, list[Claim]] = {}
    for claim in all_claims(context):
        groups.setdefault(claim.claim, []).append(claim)
    parts: dict[str, list[list[Claim]]] = {'What did not reproduce': [], 'What did in part': [], 'What did': []}
    for claims in groups.values():
        held = sum(claim.holds for claim in claims)
        parts['What did' if held == len(claims) else 'What did in part' if held else 'What did not reproduce'
              ].append(sorted(claims, key=lambda claim: claim.holds))
    return [*(line for title, items in parts.items()
              for line in (f'## {title}', '', *((line for claims in items for line in _item(claims))
                                                if items else ['Nothing that we checked.']), '')), UNTESTED, '']


def _item(claims: list[Claim]) -> list[str]:
    """What the paper says, what was found where, and why it did not come out."""
    whys = list(dict.fromkeys(claim.why for claim in claims if not claim.holds and claim.why))
    mark = f' {LATER}' if any(claim.later for claim in claims) else ''
    return [f'- **{claims[0].claim}**{mark}', *(f'  - {"yes" if claim.holds else "no"}: {claim.where}: {claim.found}'
                                                for claim in claims), *(f'  - Why: {why}' for why in whys)]


def all_claims(context: Context) -> Iterator[Claim]:
    """Scenario by scenario."""
    for scenario in context.manifest.scenarios:
        yield from claims_of_alpha.about(context, scenario)
        yield from claims_of_parts.about(context, scenario)
    yield from claims_of_parts.about_lanes()
