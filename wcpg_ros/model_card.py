"""What a model file says of itself, for people: in the terminal, and as the card beside each shipped model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wcpg_ros.model_file import ModelFile, ModelInfo, write_atomically


def describe(model: ModelFile) -> str:
    """The metadata and the networks, one line each, the recipe last."""
    rows = [*_facts(model.info), *_networks(model)]
    return '\n'.join([*(f'{name:18} {value}' for name, value in rows), 'recipe', _recipe(model.info, indent='  ')])


def model_card(path: str | Path, results: Sequence[Mapping[str, Any]] = (), about: str = '') -> str:
    """A short card in Markdown for the model at `path`; `results` are the rows of its evaluation, if there is one,
    and `about` says how they came about."""
    path = Path(path)
    model = ModelFile.load(path)
    info = model.info
    parts = [
        f'# {path.stem}',
        f'Drives the accelerator in the scene `{info.scenario}`, with the risk level alpha set at run time between '
        f'{info.alpha_min:g} (careful) and {info.alpha_max:g} (quick). It was trained and tested in simulation only: '
        'it is no safety function, and knows only traffic like that of its scene.',
        _table(('', 'value'), _facts(info)),
        '## Networks',
        _table(('network', 'layers, outputs×inputs'), _networks(model)),
    ]
    if results:
        columns = tuple(results[0])
        parts += ['## Evaluation', *filter(None, [about]),
                  _table(columns, [tuple(row[column] for column in columns) for row in results])]
    parts += ['## Recipe', f'```json\n{_recipe(info)}\n```']
    return '\n\n'.join(parts) + '\n'


def write_model_card(path: str | Path, results: Sequence[Mapping[str, Any]] = (), about: str = '') -> Path:
    """Write the card beside the model, as `.md`, and return its path."""
    card = Path(path).with_suffix('.md')
    write_atomically(card, model_card(path, results, about).encode())
    return card


def _facts(info: ModelInfo) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in asdict(info).items() if name != 'recipe']


def _networks(model: ModelFile) -> list[tuple[str, Any]]:
    return [(network, ', '.join(f'{layer} {"×".join(map(str, model.layer(network, layer)[0].shape))}'
                                for layer in layers))
            for network, layers in model.networks.items()]


def _recipe(info: ModelInfo, indent: str = '') -> str:
    text = json.dumps(info.recipe, indent=2, sort_keys=True, ensure_ascii=False)
    return '\n'.join(indent + line for line in text.splitlines())


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [header, ['---'] * len(header), *rows]
    return '\n'.join('| ' + ' | '.join(str(cell) for cell in line) + ' |' for line in lines)
