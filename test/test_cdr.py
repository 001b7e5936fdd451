"""What we pack ourselves is, byte for byte, what rclpy would serialise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs rclpy')

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import AccelStamped, Point, Transform, Twist
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import MultiDOFJointState
from std_msgs.msg import ColorRGBA, Float64MultiArray, MultiArrayDimension
from visualization_msgs.msg import Marker, MarkerArray

from sim_node import cdr, markers
from sim_node.episode_result import EpisodeResult
from sim_node.geometry import build_geometry
from sim_node.roads import locate
from sim_node.scenario import Scenario, load_scenario
from wcpg_ros.conversions import RISK_FIELDS, risk_message
from wcpg_ros.policy import Risk

STAMP = 12_345_678_901
EGO = np.array([1.5, -2.25, 0.7, 12.5])
OTHERS = np.array([[10.0, 20.0, -math.pi / 2, 7.0], [-3.0, 0.1, 3.1, 0.0]])
TIME = Time(sec=12, nanosec=345_678_901)


def assert_same(packed: bytes, message: Any) -> None:
    """The same bytes, but for those between values: rclpy leaves there whatever was in its memory, we write zeros."""
    theirs = serialize_message(message)
    assert len(packed) == len(theirs)
    assert all(ours == 0 for ours, other in zip(packed, theirs, strict=True) if ours != other)
    assert deserialize_message(packed, type(message)) == deserialize_message(theirs, type(message))


def turned(message: Any, heading: float) -> None:
    message.z, message.w = math.sin(heading / 2), math.cos(heading / 2)


def box(namespace: str, number: int, state: np.ndarray, colour: ColorRGBA, scenario: Scenario) -> Marker:
    marker = Marker(ns=namespace, id=number, type=Marker.CUBE, action=Marker.ADD, color=colour)
    marker.header.frame_id, marker.header.stamp = 'map', TIME
    marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = float(state[0]), float(state[1]), 0.75
    turned(marker.pose.orientation, state[2])
    marker.scale.x, marker.scale.y, marker.scale.z = scenario.vehicle.length, scenario.vehicle.width, 1.5
    return marker


def test_clock_and_command() -> None:
    assert_same(cdr.clock(STAMP), Clock(clock=TIME))
    command = AccelStamped()
    command.header.stamp, command.header.frame_id, command.accel.linear.x = TIME, 'base_link', -3.25
    assert_same(cdr.acceleration(STAMP, 'base_link', -3.25), command)


@pytest.mark.parametrize('frame', ['map', 'a_map', 'world_12'])
def test_odometry(frame: str) -> None:
    message = Odometry(child_frame_id='base_link')
    message.header.stamp, message.header.frame_id = TIME, frame
    message.pose.pose.position.x, message.pose.pose.position.y = EGO[:2].tolist()
    turned(message.pose.pose.orientation, EGO[2])
    message.twist.twist.linear.x = float(EGO[3])
    assert_same(cdr.odometry(STAMP, frame, 'base_link', EGO), message)


@pytest.mark.parametrize('names', [[], ['vehicle_3'], ['vehicle_3', 'vehicle_12']])
def test_vehicles(names: list[str]) -> None:
    message = MultiDOFJointState(joint_names=names)
    message.header.stamp, message.header.frame_id = TIME, 'map'
    for state in OTHERS[:len(names)]:
        transform, twist = Transform(), Twist()
        transform.translation.x, transform.translation.y = state[:2].tolist()
        turned(transform.rotation, state[2])
        twist.linear.x = float(state[3])
        message.transforms.append(transform)
        message.twist.append(twist)
    assert_same(cdr.vehicles(STAMP, 'map', names, OTHERS[:len(names)]), message)


@pytest.mark.parametrize('names', [[], ['vehicle_3'], ['vehicle_3', 'vehicle_12']])
@pytest.mark.parametrize('gone', [[], ['vehicle_7'], ['vehicle_7', 'vehicle_1']])
def test_vehicle_markers(names: list[str], gone: list[str]) -> None:
    scenario = load_scenario('left_turn')
    boxes = [box('ego', 0, EGO, ColorRGBA(r=0.0, g=0.45, b=0.70, a=1.0), scenario)]
    boxes += [box('vehicles', int(name[8:]), state, ColorRGBA(r=0.85, g=0.86, b=0.88, a=1.0), scenario)
              for name, state in zip(names, OTHERS, strict=False)]
    for name in sorted(gone):
        removal = Marker(ns='vehicles', id=int(name[8:]), action=Marker.DELETE)
        removal.header.frame_id, removal.header.stamp = 'map', TIME
        boxes.append(removal)
    packed = markers.vehicle_markers(STAMP, 'map', scenario, EGO, names, OTHERS[:len(names)], gone)
    assert_same(packed, MarkerArray(markers=boxes))


@pytest.mark.parametrize('name', ['left_turn', 'merge'])
def test_road_markers(name: str) -> None:
    scenario = load_scenario(name)
    geometry = build_geometry(scenario)
    paths = [('route', geometry.ego_first, geometry.ego_last, scenario.ego.goal, 0.0, 0.3, 0.05)]
    paths += [('road', first, last, length, offset, road.lane_width, 0.0)
              for road, (first, last, length) in zip(scenario.roads, geometry.roads, strict=True)
              for offset in road.lanes]
    lines = []
    for number, (namespace, first, last, end, offset, width, z) in enumerate(paths):
        line = Marker(ns=namespace, id=number, type=Marker.LINE_STRIP, action=Marker.ADD)
        line.color = (ColorRGBA(r=0.34, g=0.71, b=0.91, a=1.0) if namespace == 'route'
                      else ColorRGBA(r=0.43, g=0.45, b=0.49, a=1.0))
        line.header.frame_id, line.header.stamp = 'map', TIME
        line.scale.x, line.pose.orientation.w = width, 1.0
        for s in np.linspace(0.0, end, round(end)):
            x, y, _ = locate(geometry.segments, first, last, s, offset)
            line.points.append(Point(x=float(x), y=float(y), z=z))
        lines.append(line)
    assert_same(markers.road_markers(STAMP, 'map', scenario), MarkerArray(markers=lines))


@pytest.mark.parametrize('outcome', ['success', 'collision'])
def test_episode_result(outcome: str) -> None:
    result = EpisodeResult('merge', 'train', 7, outcome, 120, 13.25, '', 10_000_000_000, STAMP)
    status = DiagnosticStatus(name='sim: episode', hardware_id='simulation', message=outcome,
                              level=DiagnosticStatus.OK if outcome == 'success' else DiagnosticStatus.WARN)
    status.values = [KeyValue(key=key, value=value) for key, value in result.texts().items()]
    array = DiagnosticArray(status=[status])
    array.header.stamp = TIME
    assert_same(result.message(), array)


def test_risk() -> None:
    message = Float64MultiArray(data=[STAMP / 1e9, 0.3, 12.0, 4.5, -2.0])
    message.layout.dim = [MultiArrayDimension(label=','.join(RISK_FIELDS), size=5, stride=1)]
    assert_same(risk_message(STAMP, 0.3, Risk(12.0, 4.5, -2.0)), message)
