"""The other drivers' decisions in a scene: whom to follow, when to change lanes, how to meet ego."""

from __future__ import annotations

import math

from sim_node.compiled import compiled
from sim_node.drivers import ACCELERATE, YIELD, cruise, follow, lane_change_offset, safe_speed
from sim_node.geometry import LANE_LEFT, LANE_RIGHT
from sim_node.observation import (
    LANE_CONFLICT,
    LANE_ENTERS,
    LANE_FIRST,
    LANE_JOINED,
    LANE_LAST,
    LANE_LEAVES,
    LANE_OFFSET,
)
from sim_node.roads import direction, project, wrap
from sim_node.scenario import STEP_SECONDS
from sim_node.state import DRIVING
from sim_node.vehicles import bicycle, stanley

safe_speed, cruise, follow, lane_change_offset = compiled(safe_speed, cruise, follow, lane_change_offset)
direction, wrap, project = compiled(direction, wrap, project)
bicycle, stanley = compiled(bicycle, stanley)

_NOBODY = 1e9


def in_lane(car, lane):
    """Whether a vehicle drives in a lane or is on its way into it."""
    return car.lane == lane or car.target == lane


def committed(p, scene):
    """Whether ego can no longer stop before the conflict zone, and has not left it."""
    stopping = scene.speed * scene.speed / (2.0 * p.vehicle_acceleration_limit)
    return scene.s - p.vehicle_front_axle + stopping > p.conflict_enter and scene.s < p.conflict_leave


def lane_is_free(p, lanes, scene, cars, k, target, ego_road_s, ego_near):
    """The gap check of a lane change: able to stop behind whoever is in front, and whoever is behind behind us."""
    car = cars[k]
    braking = p.vehicle_acceleration_limit
    for j in range(-1, cars.shape[0]):
        if j == k:
            continue
        if j < 0:
            if not ego_near:
                continue
            s, speed = ego_road_s, scene.speed
        else:
            other = cars[j]
            if other.status != DRIVING or not in_lane(other, target):
                continue
            s, speed = other.s, other.speed
        gap = abs(s - car.s) - p.vehicle_length - p.driver_standstill_gap
        rear, front = (car.speed, speed) if s >= car.s else (speed, car.speed)
        if gap < p.driver_lane_change_gap or rear > safe_speed(gap, front, braking, p.driver_reaction):
            return False
    return True


def consider_lane_change(p, lanes, scene, cars, k, gap, leader_speed, ego_road_s, ego_lane):
    """Begin to pass a slower leader where the lane beside is free and quicker."""
    car = cars[k]
    if (car.target != car.lane or car.rest > 0.0 or leader_speed > car.desired - p.driver_lane_change_advantage
            or gap > p.driver_lane_change_headway * car.speed or car.speed < p.driver_lane_change_speed):
        return
    for side in (LANE_LEFT, LANE_RIGHT):
        target = int(lanes[car.lane, side])
        length = car.speed * p.driver_lane_change_time
        # Nobody moves into a lane in or right before the stretch where ego may cross or join it.
        if target < 0 or (lanes[target, LANE_CONFLICT] != 0.0 and car.s < lanes[target, LANE_LEAVES]
                          and car.s + length > lanes[target, LANE_ENTERS]):
            continue
        ahead, ahead_speed = _NOBODY, _NOBODY
        for j in range(cars.shape[0]):
            other = cars[j]
            if j != k and other.status == DRIVING and in_lane(other, target) and car.s <= other.s < car.s + ahead:
                ahead, ahead_speed = other.s - car.s, other.speed
        if ahead_speed <= leader_speed:
            continue
        if lane_is_free(p, lanes, scene, cars, k, target, ego_road_s, ego_lane == target):
            car.target, car.change, car.change_length = target, 0.0, length
            return


def who_drives(cars, drivers):
    """Fill `drivers` with the numbers of those who drive, in order; gives how many they are."""
    count = 0
    for k in range(cars.shape[0]):
        drivers[count] = k    # stays only if k drives: a branch here would be guessed wrongly too often
        count += cars[k].status == DRIVING
    return count


def stops_at(gap, speed, braking):
    """How far ahead a vehicle would stand that brakes now."""
    return gap + speed * speed / (2.0 * braking)


def decide(p, segments, lanes, scene, cars, drivers):
    """Set the acceleration of all `drivers` for this step, from the states of now."""
    threatened = committed(p, scene)
    dt = STEP_SECONDS
    limit = p.vehicle_acceleration_limit
    ego_x, ego_y = scene.x, scene.y
    # The lane ego is in or on its way into, its place along that road, and whether it has fully joined.
    ego_lane, ego_road_s, ego_joined = -1, 0.0, False
    if threatened:
        for lane in range(lanes.shape[0]):
            if lanes[lane, LANE_JOINED] != 0.0:
                first, last = int(lanes[lane, LANE_FIRST]), int(lanes[lane, LANE_LAST])
                _, ego_road_s, lateral, _ = project(segments, first, last, first, ego_x, ego_y)
                ego_lane = lane
                ego_joined = abs(lateral - lanes[lane, LANE_OFFSET]) < p.temper_joined

    for k in drivers:
        car = cars[k]
        # The nearest ahead, and whoever could come to a stop nearest: beside a standing car another may be passing it.
        gap, leader_speed = _NOBODY, _NOBODY
        stop_gap, stop_speed = _NOBODY, 0.0
        for j in drivers:
            other = cars[j]
            if j == k or other.s < car.s or (other.s == car.s and j > k):
                continue
            if in_lane(other, car.lane) or in_lane(other, car.target):
                ahead = other.s - car.s - p.vehicle_length
                if ahead < gap:
                    gap, leader_speed = ahead, other.speed
                if stops_at(ahead, other.speed, limit) < stops_at(stop_gap, stop_speed, limit):
                    stop_gap, stop_speed = ahead, other.speed

        acceleration = cruise(car.speed, car.desired, p.driver_cruise_gain, p.driver_cruise_acceleration)
        headway = p.driver_headway
        if threatened and not ego_joined and reacts(p, lanes, scene, car, ego_lane, ego_road_s):
            if car.temper == ACCELERATE:
                if car.speed < car.desired + p.temper_boost_speed:
                    acceleration, headway = car.boost, p.temper_boost_headway
            elif car.temper == YIELD:
                acceleration = min(acceleration, -p.temper_yield_braking)
        if ego_joined and in_lane(car, ego_lane) and ego_road_s >= car.s:
            ego_gap = ego_road_s - car.s - p.vehicle_length
            if ego_gap < gap:
                gap, leader_speed = ego_gap, scene.speed
        if car.target != car.lane:
            # The planned trajectory is for the speed it was planned at: much faster it would be too sharp.
            planned = car.change_length / p.driver_lane_change_time
            acceleration = min(acceleration, (p.driver_lane_change_speedup * planned - car.speed) / dt)
        if gap < _NOBODY:
            acceleration = follow(acceleration, car.speed, gap, leader_speed, p.driver_standstill_gap,
                                  headway, p.driver_gap_gain, p.driver_speed_gain, limit, p.driver_reaction, dt)
            if stop_gap > gap:
                acceleration = follow(acceleration, car.speed, stop_gap, stop_speed, p.driver_standstill_gap,
                                      headway, p.driver_gap_gain, p.driver_speed_gain, limit, p.driver_reaction, dt)
            consider_lane_change(p, lanes, scene, cars, k, gap, leader_speed, ego_road_s, ego_lane)
        # Brakes hold a standing car, so its acceleration never exceeds what stops it.
        car.acceleration = min(max(acceleration, -limit, -car.speed / dt), limit)


def reacts(p, lanes, scene, car, ego_lane, ego_road_s):
    """Whether a driver's temper shows: in a lane that ego meets, still before it, and near."""
    lane = car.target
    if lanes[lane, LANE_CONFLICT] == 0.0:
        return False
    if lanes[lane, LANE_JOINED] != 0.0:
        if car.s > ego_road_s:
            return False
    elif car.s > lanes[lane, LANE_ENTERS]:
        return False
    dx, dy = car.x - scene.x, car.y - scene.y
    return dx * dx + dy * dy < p.temper_notice * p.temper_notice


def move(p, segments, lanes, car):
    """Steer along the lane, or along the planned trajectory into the next one, and move on by one step."""
    offset, bearing = lanes[car.lane, LANE_OFFSET], 0.0
    first, last = int(lanes[car.lane, LANE_FIRST]), int(lanes[car.lane, LANE_LAST])
    if car.target != car.lane:
        across = lanes[car.target, LANE_OFFSET] - offset
        # The reference is where the front axle is, a little ahead of the centre that `change` counts.
        share, steepness = lane_change_offset((car.change + p.vehicle_front_axle) / car.change_length)
        offset, bearing = offset + across * share, math.atan(across * steepness / car.change_length)
    heading_cos, heading_sin = direction(segments, car.row, car.heading)
    ahead_x = car.x + p.vehicle_front_axle * heading_cos
    ahead_y = car.y + p.vehicle_front_axle * heading_sin
    _, _, lateral, tangent = project(segments, first, last, car.row, ahead_x, ahead_y)
    steering = stanley(lateral - offset, wrap(car.heading - tangent - bearing), car.speed,
                       p.vehicle_stanley_gain, p.vehicle_stanley_softening, p.vehicle_steering_limit)
    travelled = car.speed * STEP_SECONDS
    car.x, car.y, car.heading, car.speed = bicycle(
        car.x, car.y, car.heading, heading_cos, heading_sin, car.speed, car.acceleration, steering,
        p.vehicle_front_axle, p.vehicle_rear_axle, 0.0, _NOBODY, STEP_SECONDS)
    car.row, car.s, car.lateral, _ = project(segments, first, last, car.row, car.x, car.y)
    car.rest = max(car.rest - STEP_SECONDS, 0.0)
    if car.target != car.lane:
        car.change += travelled
        if car.change >= car.change_length:
            car.lane, car.change, car.rest = car.target, 0.0, p.driver_lane_change_pause


in_lane, committed, lane_is_free, consider_lane_change, reacts, who_drives, stops_at, decide, move = \
    compiled(in_lane, committed, lane_is_free, consider_lane_change, reacts, who_drives, stops_at, decide, move)
