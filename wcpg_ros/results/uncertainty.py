"""The critic's uncertainty along one left turn: six moments as in the paper, and the whole episode as an animation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim_node.batch import Batch
from sim_node.render import Painter, save
from sim_node.scenario import STEP_SECONDS
from sim_node.seeds import episode_seed
from sim_node.state import RUNNING, SUCCESS
from wcpg_ros.controllers import Model, prepare
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import charts
from wcpg_ros.results.context import Context, mean_of

SCENARIO, ALPHA = 'left_turn', 1.0     # who takes the largest gambles shows the largest uncertainty
WINDOW = (-24.0, -34.0, 16.0, 46.0)    # m that a frame shows
PICTURE, FILM = 'uncertainty.png', 'uncertainty.gif'
MOMENTS = 6
WIDTH = 320     # pixels of a frame


@dataclass(frozen=True)
class Episode:
    """One drive, seen from above, one frame per 0.1 s; the critic's view per decision."""

    frames: list[np.ndarray]
    stills: list[np.ndarray]     # of the decisions, without words
    seconds: list[float]         # of the decisions
    sigma: list[float]
    mean: list[float]


@dataclass(frozen=True)
class Along:
    """σ of the successes, on average, and the share in which it rises more than a tenth above both its ends."""

    successes: int
    begins: float
    peak: float
    ends: float
    rising: float


def drives(context: Context) -> Iterator[Drive]:
    """Those among which the episode is chosen, and those of the claim."""
    if SCENARIO in context.manifest.scenarios:
        yield _drive(context, context.shipped(SCENARIO))
        yield from (_drive(context, run.file) for run in context.runs('paper', SCENARIO))


def _drive(context: Context, model: str | Path) -> Drive:
    return context.drive(SCENARIO, model, ALPHA, watch=True)


def along(context: Context, scenario: str, block: str) -> Along | None:
    """How σ goes: of the shipped model, or of all training seeds by the paper's values; None in other scenes."""
    if scenario != SCENARIO:
        return None
    models = [context.shipped(SCENARIO)] if block == 'ours' else [run.file for run in context.runs(block, SCENARIO)]
    rows = np.concatenate([context.rows(_drive(context, model)) for model in models])
    won = rows[rows['outcome'] == SUCCESS]
    rises = won['sigma_peak'] > 1.1 * np.maximum(won['predicted_std'], won['sigma_last'])
    return Along(len(won), mean_of(won['predicted_std']), mean_of(won['sigma_peak']), mean_of(won['sigma_last']),
                 mean_of(rises))


def choose(rows: np.ndarray) -> int:
    """The success along which σ rises most above both its beginning and its end: the largest gamble that was won."""
    rise = rows['sigma_peak'] - np.maximum(rows['predicted_std'], rows['sigma_last'])
    return int(rows['episode'][np.argmax(np.where(rows['outcome'] == SUCCESS, rise, -np.inf))])


def drive_episode(model: str, seed: int, episode: int) -> Episode:
    """Drive it once more, with a camera."""
    scenario, controller = prepare(SCENARIO, 'train', model, ALPHA)
    assert isinstance(controller, Model)
    painter = Painter(dataclasses.replace(scenario, window=WINDOW), WIDTH)
    batch = Batch(scenario, 1, auto_reset=False)
    observation = batch.reset([episode_seed(seed, episode)])
    found = Episode([], [], [], [], [])
    note = ''
    while batch.scenes['outcome'][0] == RUNNING:
        if batch.scenes['step'][0] % scenario.action_repeat == 0:
            acceleration = controller.act(batch, observation)
            risk = controller.policy.risk(observation, acceleration, ALPHA)
            found.stills.append(painter.view(batch.scenes[0], batch.cars[0]))
            found.seconds.append(float(batch.scenes['step'][0] * STEP_SECONDS))
            found.sigma.append(float(risk.std[0]))
            found.mean.append(float(risk.mean[0]))
            note = f'return to come {found.mean[-1]:.0f} ± {found.sigma[-1]:.1f}'
        found.frames.append(painter.draw(batch.scenes[0], batch.cars[0], note=note))
        observation = batch.step(acceleration).observation
    found.frames.append(painter.draw(batch.scenes[0], batch.cars[0], note=note))
    return found


def moments(sigma: list[float]) -> list[int]:
    """Decisions to show: the first, the last, the peak of σ, and steps towards and away from it."""
    last, peak = len(sigma) - 1, int(np.argmax(sigma))
    chosen = dict.fromkeys(min(max(k, 0), last) for k in (peak, 0, last, peak - 2, peak + 1, peak - 5))
    spread = np.linspace(0, last, MOMENTS).round().astype(int).tolist()
    return sorted(list(dict.fromkeys([*chosen, *spread, *range(last + 1)]))[:MOMENTS])


def lines(context: Context) -> list[str]:
    """Six frames above the curve of σ."""
    if SCENARIO not in context.manifest.scenarios or (sigma := along(context, SCENARIO, 'ours')) is None:
        return []
    number = choose(context.rows(_drive(context, context.shipped(SCENARIO))))
    episode = drive_episode(context.shipped(SCENARIO), context.evaluation.seed, number)
    shown = moments(episode.sigma)
    made = charts.Figure(figsize=(11.0, 6.4), layout='constrained')
    grid = made.add_gridspec(2, MOMENTS, height_ratios=[2.2, 1.0])
    for place, k in enumerate(shown):
        axis = made.add_subplot(grid[0, place])
        axis.imshow(episode.stills[k])
        axis.set_axis_off()
        axis.set_title(f'({"abcdef"[place]})  t = {episode.seconds[k]:.1f} s\nσ = {episode.sigma[k]:.1f}', fontsize=10)
    curve = made.add_subplot(grid[1, :])
    end = STEP_SECONDS * (len(episode.frames) - 1)
    curve.plot([*episode.seconds, end], [*episode.sigma, episode.sigma[-1]], color=charts.BLUE, linewidth=2,
               drawstyle='steps-post')
    curve.plot([episode.seconds[k] for k in shown], [episode.sigma[k] for k in shown], 'o', color=charts.RED)
    for place, k in enumerate(shown):
        curve.annotate('abcdef'[place], (episode.seconds[k], episode.sigma[k]), xytext=(4, 5),
                       textcoords='offset points')
    curve.set(xlabel='time (s)', ylabel="the critic's σ", ylim=(0, None), xlim=(0, end))
    curve.spines[['top', 'right']].set_visible(False)
    curve.grid(color='#DDDDDD', linewidth=0.6)
    charts.save(made, context.picture(PICTURE))
    save(episode.frames, context.picture(FILM))
    return ['## Uncertainty along a left turn', '',
            f'Over the {sigma.successes:,} successes of the tables\' {context.evaluation.episodes:,} episodes, the '
            f'shipped model at α = {ALPHA:g}, σ is {sigma.begins:.1f} at the first decision, {sigma.peak:.1f} at its '
            f'largest and {sigma.ends:.1f} at the last, on average. Shown is episode {number} of seed '
            f'{context.evaluation.seed}, the success along which it rises most above its beginning and its end. Blue '
            'is ego, shaded its way through the conflict zone, white the stop line, light blue the goal; numbers are '
            'speeds in m/s.', '',
            context.link(PICTURE, 'Six moments of a left turn and the critic\'s σ'), '',
            context.link(FILM, 'The same episode, animated'), '']
