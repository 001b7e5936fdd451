"""The fast-slow lanes of the paper's appendix."""

from __future__ import annotations

from collections.abc import Iterable

from wcpg_ros.episode_store import Drive
from wcpg_ros.fast_slow import Settings, plot, report, solve
from wcpg_ros.results.context import Context


def drives(context: Context) -> Iterable[Drive]:
    """Nothing is driven."""
    return ()


def lines(context: Context) -> list[str]:
    """Both readings of N(2, 4)."""
    text = ['## Fast-slow lanes', '',
            'The paper\'s proof of concept, solved by its brute force, exactly, and by the learner\'s own risk '
            'functions (`python -m wcpg_ros.fast_slow`). The 4 of N(2, 4) may be a variance or a standard deviation. '
            'Solved at 32 levels of α: lines jump half-way between two of them, thin ones mark where the lanes are '
            'worth the same; brute force errs near there.', '']
    for reading in ('variance', 'std'):
        settings = Settings(reading)
        solution = solve(settings)
        name = f'fast_slow_{reading}.png'
        plot(settings, solution, context.picture(name))
        switch = report(settings, solution)['switch_alpha']
        exact, printed = (f'at α = {switch[key]:.3f}' if switch[key] is not None else 'never'
                          for key in ('cvar', 'paper'))
        text += [f'- Read as a {"variance" if reading == "variance" else "standard deviation"}: with the exact '
                 f'coefficient the slow lane gives way to the fast one {exact}, with the printed one {printed}.', '',
                 context.link(name, f'The best lane over α, {reading}'), '']
    return text
