"""What the copies of `preloaded` have loaded before they begin."""

import importlib

from sim_node.episode import Episode
from sim_node.scenario import load_scenario
from wcpg_ros.domain import STANDALONE

for module in ('demo_node', 'sim_node.node', 'wcpg_ros.policy_node'):
    importlib.import_module(module)
if STANDALONE is not None:
    for command in ('bag', 'node', 'param', 'pkg', 'run', 'service', 'topic'):
        importlib.import_module(f'ros2_standalone.{command}')
Episode(load_scenario('left_turn')).warm_up()
