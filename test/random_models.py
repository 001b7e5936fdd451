"""Small models with random weights, for the tests of the model file and the policy."""

from dataclasses import replace

import numpy as np

from sim_node.observation import POSES
from wcpg_ros.model_file import ACTOR_LAYERS, CRITIC_LAYERS, ModelFile, ModelInfo

INFO = ModelInfo(
    scenario='left_turn', layout_version=POSES, vehicles=3, time_feature=False, observation_size=16,
    normaliser_clip=5.0, action_bound=4.0, alpha_min=0.01, alpha_max=1.0, dial=[], risk_measure='cvar',
    critic='gaussian', twin=False, return_scale=1.0, gamma=0.99, decision_interval=0.4, action_repeat=4,
    recipe={'batch_size': 512, 'learning_rate': 1e-4, 'note': 'Υ'}, seed=3, episodes=5000, code_version='0.1.0',
)
ACTOR_WIDTHS = {'h1': 32, 'h2': 16, 'h3': 32, 'out': 1}
CRITIC_WIDTHS = {'h1': 64, 'h2': 64, 'h3': 64, 'h4': 64}


def random_tensors(info, seed=0, quantiles=32, actor_widths=None, critic_widths=None, mean=False):
    rng = np.random.default_rng(seed)
    size = info.observation_size
    tensors = {'normaliser.mean': rng.normal(0.0, 10.0, size), 'normaliser.std': rng.uniform(0.5, 20.0, size)}
    outputs = 2 if info.critic == 'gaussian' else 2 * quantiles + mean
    if info.critic == 'categorical':
        tensors['atoms'] = np.linspace(-5.0, 6.0, outputs)
    critic = {**(critic_widths or CRITIC_WIDTHS), 'out': outputs}
    networks = [('actor', ACTOR_LAYERS, actor_widths or ACTOR_WIDTHS), ('critic', CRITIC_LAYERS, critic)]
    if info.twin:
        networks.append(('critic2', CRITIC_LAYERS, critic))
    for network, layers, widths in networks:
        known = {'observation': size, 'alpha': 1, 'action': 1, **widths}
        for layer, reads in layers.items():
            inputs = sum(known[name] for name in reads)
            tensors[f'{network}.{layer}.weight'] = rng.normal(0.0, 1.0 / np.sqrt(inputs), (known[layer], inputs))
            tensors[f'{network}.{layer}.bias'] = rng.normal(0.0, 0.3, known[layer])
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


def random_model(seed=0, quantiles=32, actor_widths=None, critic_widths=None, mean=False, **changes):
    info = replace(INFO, **changes)
    return ModelFile(info, random_tensors(info, seed, quantiles, actor_widths, critic_widths, mean))


def random_observations(count, size=16, seed=0):
    return np.random.default_rng(seed).normal(0.0, 20.0, (count, size)).astype(np.float32)


def plain_network(model, network, observation, alpha, action=0.0):
    """The paper's table, one row, in float64, as one would write it on paper."""
    def layer(name, *inputs):
        weight, bias = (array.astype(np.float64) for array in model.layer(network, name))
        return weight @ np.concatenate([np.atleast_1d(value) for value in inputs]) + bias

    def relu(values):
        return np.maximum(values, 0.0)

    mean, std = (model.tensors[f'normaliser.{name}'].astype(np.float64) for name in ('mean', 'std'))
    x = np.clip((observation - mean) / std, -model.info.normaliser_clip, model.info.normaliser_clip)
    h1, h2 = relu(layer('h1', x)), relu(layer('h2', alpha))
    if network == 'actor':
        return model.info.action_bound * np.tanh(layer('out', relu(layer('h3', h1, h2))))[0]
    h3 = relu(layer('h3', h1, h2, action / model.info.action_bound))
    return layer('out', relu(layer('h4', h3)))
