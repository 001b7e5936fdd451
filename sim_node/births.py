"""Who drives in an episode: everything random about it, drawn from its seed when it begins.

The draws never depend on what ego does: the same seed means the same attempts, speeds and tempers for every
controller. A vehicle whose place is taken when it should be born is dropped, its draws consumed all the same.
"""

from __future__ import annotations

import math

from sim_node.compiled import compiled
from sim_node.drivers import ACCELERATE, IGNORE, YIELD, safe_speed
from sim_node.geometry import LANE_APPROACH
from sim_node.observation import LANE_FIRST, LANE_LAST, LANE_OFFSET
from sim_node.random_streams import BIRTHS, EGO_START, TEMPERS, stream, uniform
from sim_node.roads import locate
from sim_node.scenario import STEP_SECONDS
from sim_node.state import DRIVING, DROPPED, RUNNING, WAITING

locate, safe_speed = compiled(locate, safe_speed)


def begin_episode(p, segments, lanes, scene, cars):
    """Draw ego's start and the whole traffic of the scene's seed, then put those already under way on the road."""
    scene.step, scene.outcome, scene.hit = 0, RUNNING, -1
    start = stream(scene.seed, EGO_START)
    scene.speed = p.ego_start_speed_0 + uniform(start, 0) * (p.ego_start_speed_1 - p.ego_start_speed_0)
    margin = p.ego_start_margin_0 + uniform(start, 1) * (p.ego_start_margin_1 - p.ego_start_margin_0)
    scene.s = p.stop_line - scene.speed * scene.speed / (2.0 * p.ego_start_braking) - margin
    scene.row, scene.lateral, scene.acceleration = int(p.ego_first), 0.0, 0.0
    scene.x, scene.y, scene.heading = locate(segments, int(p.ego_first), int(p.ego_last), scene.s, 0.0)

    births, tempers = stream(scene.seed, BIRTHS), stream(scene.seed, TEMPERS)
    lane_count = lanes.shape[0]
    platoon, u_first_speed = int(p.traffic_platoon), uniform(births, 3)
    arrival = p.traffic_first_arrival_0 + uniform(births, 0) * (p.traffic_first_arrival_1 - p.traffic_first_arrival_0)
    # Several lanes with one chance each per step: the time to the next attempt in any of them is geometric.
    missed = (1.0 - p.traffic_spawn_rate) ** lane_count
    attempt, last_attempt = 0, int(p.traffic_last_birth / STEP_SECONDS)
    for k in range(cars.shape[0]):
        car = cars[k]
        u_time, u_lane, u_speed = uniform(births, 3 * k + 1), uniform(births, 3 * k + 2), uniform(births, 3 * k + 3)
        if k < platoon:
            u_speed += (1.0 - p.traffic_platoon_spread) * (u_first_speed - u_speed)
        car.desired = p.traffic_speed_0 + u_speed * (p.traffic_speed_1 - p.traffic_speed_0)
        if k < platoon:
            lane = 0
            while lane < lane_count - 1 and u_lane >= p.platoon_share[lane]:
                lane += 1
            # Born so as to arrive in time; one who should have been born earlier is under way already.
            birth = arrival - lanes[lane, LANE_APPROACH] / car.desired
            car.birth, car.start = max(math.ceil(birth / STEP_SECONDS), 0), max(-birth, 0.0) * car.desired
            car.status = WAITING
            share = u_time ** p.traffic_gap_power
            arrival += p.traffic_arrival_gap_0 + share * (p.traffic_arrival_gap_1 - p.traffic_arrival_gap_0)
        else:
            lane = min(int(u_lane * lane_count), lane_count - 1)
            attempt += math.ceil(math.log(1.0 - u_time) / math.log(missed)) if missed < 1.0 else last_attempt + 1
            car.birth, car.start = attempt, 0.0
            car.status = WAITING if attempt <= last_attempt else DROPPED
        car.lane, car.target, car.change, car.rest = lane, lane, 0.0, 0.0
        u_temper = uniform(tempers, 2 * k)
        if u_temper < p.temper_mix_0:
            car.temper = YIELD
        elif u_temper < p.temper_mix_0 + p.temper_mix_1:
            car.temper = IGNORE
        else:
            car.temper = ACCELERATE
        car.boost = p.temper_boost_0 + uniform(tempers, 2 * k + 1) * (p.temper_boost_1 - p.temper_boost_0)
    bear(p, segments, lanes, scene, cars)


def bear(p, segments, lanes, scene, cars):
    """Bring those whose time has come onto the road, unless their place is taken."""
    for k in range(cars.shape[0]):
        car = cars[k]
        if car.status != WAITING or car.birth > scene.step:
            continue
        free = True
        for j in range(cars.shape[0]):
            other = cars[j]
            if other.status != DRIVING or (other.lane != car.lane and other.target != car.lane):
                continue
            gap = abs(other.s - car.start) - p.vehicle_length - p.driver_standstill_gap
            if other.s >= car.start:
                rear, front = car.desired, other.speed
            else:
                rear, front = other.speed, car.desired
            if gap <= 0.0 or rear > safe_speed(gap, front, p.vehicle_acceleration_limit, p.driver_reaction):
                free = False
        if not free:
            car.status = DROPPED
            continue
        car.status = DRIVING
        car.row, car.s, car.speed, car.acceleration = int(lanes[car.lane, LANE_FIRST]), car.start, car.desired, 0.0
        car.lateral = lanes[car.lane, LANE_OFFSET]
        car.x, car.y, car.heading = locate(segments, car.row, int(lanes[car.lane, LANE_LAST]), car.s, car.lateral)


bear, begin_episode = compiled(bear, begin_episode)
