"""Mechanics: formulas against equations of motion."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, fsolve

from tests.engine.tasks.physics.known_results.registry import closed, numeric

TIGHT = {"rtol": 1e-10, "atol": 1e-12}


@closed("physics_001", m="0.400 kg", big="0.600 kg", R="1.80 m", mu="0.250", floor="0.150", g="9.81 m/s^2")
def quarter_circle(k):
    # d(v^2)/dtheta = 2 g R cos(theta) - 2 mu (v^2 + g R sin(theta)), linear in v^2
    sine = (2 - 4 * k.mu**2) / (1 + 4 * k.mu**2)
    cosine = 6 * k.mu / (1 + 4 * k.mu**2)
    v_squared = k.g * k.R * (sine - cosine * np.exp(-np.pi * k.mu))
    shared_squared = v_squared * (k.m / (k.m + k.big)) ** 2
    return shared_squared / (2 * k.floor * k.g)


@numeric("physics_001")
def quarter_circle_in_time(k):
    def motion(_, state):
        angle, rate = state
        normal = k.R * rate**2 + k.g * np.sin(angle)
        return [rate, (k.g * np.cos(angle) - k.mu * normal) / k.R]

    def bottom(_, state):
        return state[0] - np.pi / 2

    bottom.terminal = True
    speed = solve_ivp(motion, [0, 10], [0, 0], events=bottom, **TIGHT).y[1, -1] * k.R
    shared = speed * k.m / (k.m + k.big)
    stop = shared / (k.floor * k.g)
    return shared * stop - k.floor * k.g * stop**2 / 2


@closed("physics_002", rod="2.40 kg", L="1.20 m", ball="0.500 kg")
def rod_and_loop(k):
    # omega^2 = 3 g / L and v^2 = 5 g r: g cancels
    inertia = k.rod * k.L**2 / 3
    per_g = (2 * inertia * k.L / (inertia + k.ball * k.L**2)) ** 2 * 3 / k.L
    return per_g / 5


@numeric("physics_002")
def rod_and_loop_step_by_step(k):
    g, inertia = 9.81, k.rod * k.L**2 / 3

    def hanging(_, state):
        return state[0] - np.pi / 2

    hanging.terminal = True
    fall = solve_ivp(
        lambda _, s: [s[1], k.rod * g * k.L / 2 * np.cos(s[0]) / inertia], [0, 10], [0, 0], events=hanging, **TIGHT
    )
    omega = fall.y[1, -1]

    def conserved(after):
        rate, speed = after
        return [
            inertia * (omega - rate) - k.ball * k.L * speed,
            inertia * (omega**2 - rate**2) - k.ball * speed**2,
        ]

    _, speed = fsolve(conserved, [0, 2 * omega * k.L], xtol=1e-13)
    return brentq(lambda r: (speed**2 - 4 * g * r) / r - g, 0.01, 10)


@closed("physics_003", m0="12.0 kg", fuel="7.50 kg", u="1450 m/s", rate="0.500 kg/s", g="9.81 m/s^2")
def rocket(k):
    m1, t = k.m0 - k.fuel, k.fuel / k.rate
    log = np.log(k.m0 / m1)
    v = k.u * log - k.g * t
    h = k.u * (t - m1 / k.rate * log) - k.g * t**2 / 2
    return h + v**2 / (2 * k.g)


@numeric("physics_003")
def rocket_flight(k):
    burn = k.fuel / k.rate
    thrust = solve_ivp(lambda t, s: [s[1], k.rate * k.u / (k.m0 - k.rate * t) - k.g], [0, burn], [0, 0], **TIGHT)

    def top(_, state):
        return state[1]

    top.terminal = True
    return solve_ivp(lambda _, s: [s[1], -k.g], [0, 1e4], thrust.y[:, -1], events=top, **TIGHT).y[0, -1]


@closed("physics_004", m="1.50 kg", M="4.00 kg", angle="32.0 degrees", s="0.900 m", g="9.81 m/s^2")
def cylinder_on_wedge(k):
    a = k.g * np.sin(k.angle) / (1.5 - k.m * np.cos(k.angle) ** 2 / (k.M + k.m))
    return (2 * k.s / a) ** 0.5


@numeric("physics_004")
def cylinder_on_wedge_by_forces(k):
    sin, cos = np.sin(k.angle), np.cos(k.angle)
    # unknowns: a along the slope seen from the wedge, A of the wedge (backwards), normal force, friction
    equations = np.array(
        [
            [k.m * cos, -k.m, -sin, cos],  # horizontal motion of the cylinder
            [k.m * sin, 0, cos, sin],  # vertical motion of the cylinder, down positive: m g = ...
            [0, k.M, -sin, cos],  # the wedge
            [k.m / 2, 0, 0, -1],  # rotation: friction = m a / 2
        ]
    )
    a = np.linalg.solve(equations, [0, k.m * k.g, 0, 0])[0]
    return np.sqrt(2 * k.s / a)


@closed("physics_005", R="3200 km", h="850 km", g="3.90 m/s^2")
def grazing_orbit(k):
    axis = (2 * k.R + k.h) / 2
    return np.pi * (axis**3 / (k.g * k.R**2)) ** 0.5


@numeric("physics_005")
def grazing_orbit_by_force(k):
    pull, start = k.g * k.R**2, k.R + k.h

    def flight(speed):
        def nearest(_, s):
            return s[0] * s[2] + s[1] * s[3] if s[0] < start * 0.999 else -1.0

        nearest.terminal, nearest.direction = True, 1

        def motion(_, s):
            cube = np.hypot(s[0], s[1]) ** 3
            return [s[2], s[3], -pull * s[0] / cube, -pull * s[1] / cube]

        return solve_ivp(motion, [0, 1e5], [start, 0, 0, speed], events=nearest, rtol=1e-10, atol=1e-6)

    def excess(speed):
        return np.hypot(*flight(speed).y[:2, -1]) - k.R

    circular = np.sqrt(pull / start)
    return flight(brentq(excess, 0.8 * circular, 0.99 * circular, xtol=1e-6)).t[-1]


@closed("physics_006", R="0.400 m", w="7.00 rad/s", g="9.81 m/s^2")
def bead_on_hoop(k):
    cosine = k.g / (k.w**2 * k.R)
    return 2 * np.pi / (k.w * (1 - cosine**2) ** 0.5)


@numeric("physics_006")
def bead_on_hoop_swinging(k):
    equilibrium = brentq(lambda x: k.w**2 * np.cos(x) - k.g / k.R, 0.1, 1.5)

    def through(_, s):
        return s[0] - equilibrium

    through.direction = 1
    swing = solve_ivp(
        lambda _, s: [s[1], np.sin(s[0]) * (k.w**2 * np.cos(s[0]) - k.g / k.R)],
        [0, 12],
        [equilibrium - 1e-3, 0],
        events=through,
        **TIGHT,
    )
    return np.diff(swing.t_events[0]).mean()
