"""The actor as an ONNX graph, normaliser included, for runtimes other than this one.

Inputs `observation` [batch, d] and `alpha` [batch, 1], as on the dial, output `acceleration` [batch, 1] in m/s²; all
float32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wcpg_ros.dial import Pairs
from wcpg_ros.model_file import ACTOR_LAYERS, ModelFile, write_atomically

# Old enough for every runtime of the last years, and nothing newer is needed.
OPSET, IR_VERSION = 13, 7


def export_onnx(model: ModelFile, path: str | Path) -> None:
    """Write the actor of `model` to `path`."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise ImportError("exporting to ONNX needs the package onnx: pip install 'wcpg_ros[train]'") from error

    info = model.info
    constants = {
        'mean': model.tensors['normaliser.mean'], 'std': model.tensors['normaliser.std'],
        'low': np.float32(-info.normaliser_clip), 'high': np.float32(info.normaliser_clip),
        'bound': np.float32(info.action_bound),
    }
    nodes = [
        helper.make_node('Sub', ['observation', 'mean'], ['centred']),
        helper.make_node('Div', ['centred', 'std'], ['scaled']),
        helper.make_node('Clip', ['scaled', 'low', 'high'], ['normalised']),
    ]
    if info.dial:
        constants |= _ramps(info.dial)
        nodes += [
            helper.make_node('Sub', ['alpha', 'dial.from'], ['dial.beyond']),
            helper.make_node('Relu', ['dial.beyond'], ['dial.ramps']),
            helper.make_node('Gemm', ['dial.ramps', 'dial.slope', 'dial.level'], ['level'], transB=1),
        ]
    names = {'observation': 'normalised', 'alpha': 'level' if info.dial else 'alpha'}
    for layer, reads in ACTOR_LAYERS.items():
        constants[f'{layer}.weight'], constants[f'{layer}.bias'] = model.layer('actor', layer)
        sources = [names.get(name, name) for name in reads]
        if len(sources) > 1:
            nodes.append(helper.make_node('Concat', sources, [f'{layer}.inputs'], axis=1))
            sources = [f'{layer}.inputs']
        nodes += [
            helper.make_node('Gemm', [*sources, f'{layer}.weight', f'{layer}.bias'], [f'{layer}.total'], transB=1),
            helper.make_node('Tanh' if layer == 'out' else 'Relu', [f'{layer}.total'], [layer]),
        ]
    nodes.append(helper.make_node('Mul', ['out', 'bound'], ['acceleration']))

    graph = helper.make_graph(
        nodes, 'actor',
        inputs=[helper.make_tensor_value_info('observation', TensorProto.FLOAT, ['batch', info.observation_size]),
                helper.make_tensor_value_info('alpha', TensorProto.FLOAT, ['batch', 1])],
        outputs=[helper.make_tensor_value_info('acceleration', TensorProto.FLOAT, ['batch', 1])],
        initializer=[numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, producer_name='wcpg_ros', producer_version=info.code_version,
                              opset_imports=[helper.make_opsetid('', OPSET)], ir_version=IR_VERSION)
    helper.set_model_props(proto, {
        'scenario': info.scenario, 'layout_version': str(info.layout_version), 'unit': 'm/s²',
        'alpha_min': str(info.alpha_min), 'alpha_max': str(info.alpha_max), 'action_bound': str(info.action_bound),
    })
    checker.check_model(proto)
    write_atomically(path, proto.SerializeToString(deterministic=True))


def _ramps(dial: Pairs) -> dict[str, NDArray]:
    """The dial as a sum of ramps: from each pair on, the line changes its slope."""
    alphas, levels = np.asarray(dial, np.float64).T
    slopes = np.diff(levels) / np.diff(alphas)
    return {'dial.from': alphas[None, :-1].astype(np.float32), 'dial.level': levels[:1].astype(np.float32),
            'dial.slope': np.diff(slopes, prepend=0.0)[None].astype(np.float32)}
