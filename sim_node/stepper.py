"""The batched stepper's kernels: many independent scenes, one after the other, nothing shared, nothing allocated."""

from __future__ import annotations

import math

from sim_node.births import bear, begin_episode
from sim_node.compiled import compiled, kernel
from sim_node.geometry import LANE_END
from sim_node.observation_batch import observe
from sim_node.rewards import episode_reward
from sim_node.roads import bend_speed_square, direction, project, wrap
from sim_node.scenario import STEP_SECONDS
from sim_node.state import COLLISION, DRIVING, GONE, RUNNING, SUCCESS, TIMEOUT
from sim_node.traffic import bicycle, decide, move, stanley, who_drives
from sim_node.vehicles import overlap

direction, wrap, project, bend_speed_square = compiled(direction, wrap, project, bend_speed_square)
overlap, episode_reward = compiled(overlap, episode_reward)


def move_ego(p, segments, scene, acceleration):
    """Steer ego along its route and move it on by one step under the accelerator's command.

    The car itself slows for bends: the command is lowered where the speed would be too high for the next one.
    """
    limit = p.vehicle_acceleration_limit
    before = scene.speed
    heading_cos, heading_sin = direction(segments, scene.row, scene.heading)
    ahead_x = scene.x + p.vehicle_front_axle * heading_cos
    ahead_y = scene.y + p.vehicle_front_axle * heading_sin
    scene.row, scene.s, scene.lateral, tangent = project(
        segments, int(p.ego_first), int(p.ego_last), scene.row, ahead_x, ahead_y)
    bend = math.sqrt(bend_speed_square(segments, scene.row, int(p.ego_last), scene.s, p.ego_cornering,
                                       p.ego_bend_braking))
    applied = min(max(min(acceleration, (bend - before) / STEP_SECONDS), -limit), limit)
    steering = stanley(scene.lateral, wrap(scene.heading - tangent), scene.speed, p.vehicle_stanley_gain,
                       p.vehicle_stanley_softening, p.vehicle_steering_limit)
    scene.x, scene.y, scene.heading, scene.speed = bicycle(
        scene.x, scene.y, scene.heading, heading_cos, heading_sin, scene.speed, applied, steering,
        p.vehicle_front_axle, p.vehicle_rear_axle, p.ego_speed_min, p.ego_speed_max, STEP_SECONDS)
    scene.s += before * STEP_SECONDS
    scene.acceleration = (scene.speed - before) / STEP_SECONDS


def step_scene(p, segments, lanes, scene, cars, drivers, acceleration):
    """One step of 0.1 s: the drivers decide, everybody moves, the newborn enter, the referee looks."""
    under_way = drivers[:who_drives(cars, drivers)]
    decide(p, segments, lanes, scene, cars, under_way)
    for k in under_way:
        car = cars[k]
        move(p, segments, lanes, car)
        if car.s > lanes[car.lane, LANE_END]:
            car.status = GONE
    move_ego(p, segments, scene, acceleration)
    scene.step += 1
    bear(p, segments, lanes, scene, cars)
    length, width = p.vehicle_length, p.vehicle_width
    cos_ego, sin_ego = math.cos(scene.heading), math.sin(scene.heading)
    for k in range(cars.shape[0]):
        car = cars[k]
        dx, dy = car.x - scene.x, car.y - scene.y
        if (dx * dx + dy * dy < length * length + width * width and car.status == DRIVING
                and overlap(dx, dy, cos_ego, sin_ego, length, width,
                            math.cos(car.heading), math.sin(car.heading), length, width)):
            scene.outcome, scene.hit = COLLISION, k
            return
    if scene.s - p.vehicle_front_axle >= p.ego_goal:
        scene.outcome = SUCCESS
    elif scene.step >= p.max_steps:
        scene.outcome = TIMEOUT


def gather(cars, others):
    """Copy the states of those who drive into plain rows; gives their number."""
    count = 0
    for k in range(cars.shape[0]):
        car = cars[k]
        others[count, 0], others[count, 1] = car.x, car.y
        others[count, 2], others[count, 3] = car.heading, car.speed
        count += car.status == DRIVING    # the next one overwrites the row of one who does not
    return count


def look(p, segments, lanes, view, scene, cars, ego, others, way, out):
    """The observation of a scene, through the same plain states that leave the simulator; gives the others' number."""
    ego[0], ego[1], ego[2], ego[3] = scene.x, scene.y, scene.heading, scene.speed
    count = gather(cars, others)
    observe(segments, lanes, view, ego, others, count, scene.step * STEP_SECONDS, p.with_time != 0.0, way, out)
    return count


move_ego, step_scene, gather, look = compiled(move_ego, step_scene, gather, look)


@kernel
def reset_batch(params, segments, lanes, view, scenes, cars, ego, others, counts, way, chosen, observations):
    """Begin an episode of its seed in every chosen scene."""
    p = params[0]
    for i in range(scenes.shape[0]):
        if chosen[i]:
            begin_episode(p, segments, lanes, scenes[i], cars[i])
            counts[i] = look(p, segments, lanes, view, scenes[i], cars[i], ego[i], others[i], way, observations[i])


@kernel
def step_batch(params, segments, lanes, view, scenes, cars, ego, others, counts, way, drivers, accelerations, repeat,
               auto_reset, observations, finals, results):
    """Hold each acceleration for `repeat` steps or until the episode ends; begin the next one where it has.

    Where the episode had ended before, nothing moves and nothing is paid again. Gives the number of a scene whose
    acceleration is not finite, before anything has moved, or -1.
    """
    for i in range(scenes.shape[0]):
        if not math.isfinite(accelerations[i]):
            return i
    p = params[0]
    for i in range(scenes.shape[0]):
        scene, result = scenes[i], results[i]
        if scene.outcome != RUNNING:
            result.reward = 0.0
            continue
        for _ in range(repeat):
            if scene.outcome != RUNNING:
                break
            step_scene(p, segments, lanes, scene, cars[i], drivers, accelerations[i])
        done = scene.outcome != RUNNING
        result.reward = episode_reward(scene.outcome, scene.step, p.reward_success, p.reward_bonus, p.reward_decay,
                                       p.reward_collision, p.reward_timeout) if done else 0.0
        result.done, result.outcome, result.steps = done, scene.outcome, scene.step
        result.hit, result.seed = scene.hit, scene.seed
        counts[i] = look(p, segments, lanes, view, scene, cars[i], ego[i], others[i], way, finals[i])
        if done and auto_reset:
            scene.seed += scene.stride
            begin_episode(p, segments, lanes, scene, cars[i])
            counts[i] = look(p, segments, lanes, view, scene, cars[i], ego[i], others[i], way, observations[i])
        else:
            for k in range(finals.shape[1]):
                observations[i, k] = finals[i, k]
    return -1
