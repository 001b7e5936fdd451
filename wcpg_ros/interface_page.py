"""Writes docs/interface.md from the nodes themselves: `python -m wcpg_ros.interface_page MODEL > docs/interface.md`.

Topics, types, qualities of service, services and parameters are asked of two live nodes; only what each topic means is
written here, and a topic that nobody describes is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from sim_node.node import Simulator
from sim_node.node_settings import PARAMETERS as SIM_PARAMETERS
from sim_node.parameters import Row
from wcpg_ros.conversions import RISK_FIELDS
from wcpg_ros.policy_node import PARAMETERS as WCPG_PARAMETERS
from wcpg_ros.policy_node import PolicyNode

COMMON_TOPICS = ('/rosout', '/parameter_events')     # every node has them
COMMON_SERVICES = ('rcl_interfaces', 'type_description_interfaces')
CONTENT = {
    '/clock': 'simulated time; never goes back, not even at a reset',
    '/tf': '`map` → `base_link`, where `tf2_msgs` is installed',
    '/ego/odometry': 'ego: pose in `map`, twist in `base_link` (`linear.x` is the speed)',
    '/vehicles': 'all others at one stamp: `joint_names` are ids, `transforms` in `map`, `twist` in the vehicle\'s own '
                 'frame. Empty means "none in sight"',
    '/vehicles/markers': 'boxes by the same ids, the road, ego\'s route; only while somebody listens',
    '/sim/episode': 'each ended episode: `scenario`, `row`, `seed`, `outcome` (success, collision, timeout, '
                    'no_command), `steps` of 0.1 s, `return`, `hit`, `start` and `end` (ns)',
    '/diagnostics': 'health in words, counters of refused messages by kind; every second',
    '/ego/acceleration_command': '`accel.linear.x`, m/s², in `base_link`; its stamp is that of the state it answers',
    '/wcpg/risk': f'the critic at each decision: {", ".join(RISK_FIELDS)} (see `layout.dim[0].label`); only while '
                  'somebody listens',
}
SERVICES = {
    '/sim/reset': 'begin the next episode; its seed is parameter `seed` if newly set, else the next one; the answer '
                  'names it',
    '/sim/step': 'one step of 0.1 s while paused; in lock-step only once the state has been answered',
    '/sim/run': 'true: run; false: pause, repeating the state at 10 Hz',
}
HEAD = '''# Interface

Written by `python -m wcpg_ros.interface_page` from the nodes themselves, and checked by the tests.
Names are as a default launch resolves them; all but `/clock`, `/tf` and `/diagnostics` are relative or private, so a
namespace or a remapping moves them. All messages are standard ones.
'''
RULES = '''## Rules

- **A state is two messages of one stamp**, `/ego/odometry` and `/vehicles`. Answer when both are there, with a command
  that carries the same stamp. Commands ahead of the newest state are refused.
- **Lock-step** (`lockstep`, or `speed_factor` 0): the state at t is followed by the next one only when the command
  stamped t is there; until then it is repeated every 0.1 s. The same seed then gives the same episode, bit for bit.
- **Episodes show in the stamps**: each begins at the next multiple of 10 s that is at least 5 s ahead; a jump of 5 s or
  more starts an episode; decisions fall at multiples of 0.4 s since its start, and each is held in between.
- **Refused and counted**: NaN and infinities, wrong frames, quaternions that are no rotations, unequal array lengths,
  duplicate ids, stamps that go backwards or do not fit, bytes that are no message. After a silence longer than the
  timeout the next valid message may carry any stamp: its source may have been started anew.
- **Timeouts** run on the steady clock. Launch files derive them from the pace: 0.5 s at real time, 10 s in lock-step.
- **By UDP, not through shared memory**: with Fast DDS a process that is killed may own a lock there, for which others
  wait up to 3 s, unable to brake. `FASTDDS_BUILTIN_TRANSPORTS`, if set, decides instead.
  `ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST` brings shared memory back; a profile such as
  `standalone/ros2_standalone/quick_discovery.xml`, given to all processes, keeps messages out of it.
'''


def page(model: Path) -> str:
    """The whole page. The nodes speak to nobody: their context ends before they are spun."""
    context = rclpy.Context()
    rclpy.init(args=['--ros-args', '-p', f'model:={model}'], context=context)
    try:
        nodes = [Simulator(context=context), PolicyNode(context=context)]
        parts = [HEAD, '## Topics\n', _topics(nodes), '## Services\n', _services(nodes), RULES]
        for node, table in zip(nodes, (SIM_PARAMETERS, WCPG_PARAMETERS), strict=True):
            parts += [f'## Parameters of `/{node.get_name()}`\n', _parameters(table)]
        for node in nodes:
            node.destroy_node()
    finally:
        rclpy.shutdown(context=context)
    return '\n'.join(parts)


def _topics(nodes: Sequence[Node]) -> str:
    rows: dict[str, dict[str, Any]] = {}
    for node in nodes:
        for role, endpoints in (('from', node.publishers), ('to', node.subscriptions)):
            for endpoint in endpoints:
                if endpoint.topic_name not in COMMON_TOPICS:
                    row = rows.setdefault(endpoint.topic_name, {'from': [], 'to': [], 'qos': {}})
                    row['type'] = _type(endpoint.msg_type)
                    row[role].append(node.get_name())
                    row['qos'][role] = _quality(endpoint.qos_profile)
    lines = ['| topic | type | from → to | quality of service | content |', '|---|---|---|---|---|']
    for name, row in sorted(rows.items()):
        way = f'{", ".join(row["from"])} → {", ".join(row["to"]) or "all"}'
        quality = row['qos']['from'] + (f'; read: {row["qos"]["to"]}' if row['to'] else '')
        lines.append(f'| `{name}` | {row["type"]} | {way} | {quality} | {CONTENT[name]} |')
    return '\n'.join([*lines, ''])


def _services(nodes: Sequence[Node]) -> str:
    lines = ['Beside the parameter services that every node has.', '', '| service | type | effect |', '|---|---|---|']
    for node in nodes:
        for service in sorted(node.services, key=lambda service: service.service_name):
            if not service.srv_type.__module__.startswith(COMMON_SERVICES):
                name = service.service_name
                lines.append(f'| `{name}` | {_type(service.srv_type)} | {SERVICES[name]} |')
    return '\n'.join([*lines, ''])


def _parameters(table: Sequence[Row]) -> str:
    lines = ['| name | type | default | range | unit | description |', '|---|---|---|---|---|---|']
    for row in table:
        kind = 'float[]' if isinstance(row.default, tuple) else type(row.default).__name__
        default = list(row.default) if isinstance(row.default, tuple) else row.default
        allowed = ', '.join(row.choices) if row.choices else '' if row.low is None else f'{row.low:g} … {row.high:g}'
        words = row.description + (' (only at the start)' if row.read_only else '')
        shown = f'`{default}`' if default != '' else ''
        lines.append(f'| `{row.name}` | {kind} | {shown} | {allowed} | {row.unit} | {words} |')
    return '\n'.join([*lines, ''])


def _type(kind: Any) -> str:
    package, *_ = kind.__module__.split('.')
    return f'{package}/{kind.__name__}'


def _quality(profile: QoSProfile) -> str:
    durability = 'transient local' if profile.durability == DurabilityPolicy.TRANSIENT_LOCAL else 'volatile'
    return f'{profile.reliability.name.lower().replace("_", " ")}, {durability}, depth {profile.depth}'


def main() -> int:
    """The command line."""
    if len(sys.argv) != 2:
        print('interface_page: give the path of any model file (.safetensors)', file=sys.stderr)
        return 2
    print(page(Path(sys.argv[1])), end='')
    return 0


if __name__ == '__main__':
    sys.exit(main())
