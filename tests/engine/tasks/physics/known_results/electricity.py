"""Electricity and magnetism: formulas against circuits and motions in time, and fields from charges."""

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq

from tests.engine.tasks.physics.known_results.registry import Q, closed, numeric

TIGHT = {"rtol": 1e-10, "atol": 1e-12}
Q_METRE = Q("1 m")


@closed(
    "physics_019", E="24.0 V", R1="6.00 ohm", R2="18.0 ohm", L="0.400 H", r="3.00 ohm", t="52.0 ms"
)  # fmt: skip
def coil_switched_off(k):
    source, inner = k.E * k.R2 / (k.R1 + k.R2), k.R1 * k.R2 / (k.R1 + k.R2)
    total = inner + k.r
    current = source / total * (1 - np.exp(-total * k.t / k.L))
    return k.L * current**2 / 2 * k.R2 / (k.R2 + k.r)


@numeric("physics_019")
def coil_in_time(k):
    def on(_, s):
        node = (k.E / k.R1 - s[0]) / (1 / k.R1 + 1 / k.R2)  # Kirchhoff at the upper node
        return [(node - k.r * s[0]) / k.L]

    current = solve_ivp(on, [0, k.t], [0], **TIGHT).y[0, -1]

    def off(_, s):
        return [-(k.R2 + k.r) * s[0] / k.L, k.R2 * s[0] ** 2]

    return solve_ivp(off, [0, 40 * k.L / (k.R2 + k.r)], [current, 0], **TIGHT).y[1, -1]


@closed(
    "physics_020", R="5.00 cm", rho="60.0 uC/m^3", m="2.00 mg", q="3.00 nC", d="12.0 cm", eps="8.854e-12 F/m"
)  # fmt: skip
def particle_through_a_charged_ball(k):
    centre = k.rho * k.R**2 / (6 * k.eps)
    start = k.rho * k.R**3 / (12 * k.eps * k.d)
    return (2 * k.q * (centre - start) / k.m) ** 0.5


@numeric("physics_020")
def particle_by_gauss(k):
    def field(r):
        inside = quad(lambda x: 4 * np.pi * x**2 * k.rho * (1 - x / k.R), 0, min(r, k.R))[0]
        return inside / (4 * np.pi * k.eps * r**2)

    work = k.q * (quad(field, 1e-9, k.R)[0] + quad(field, k.R, k.d)[0])
    return np.sqrt(2 * work / k.m)


@closed("physics_021", m="0.150 kg", L="0.800 m", R="0.600 ohm", B="0.900 T", part="90.0 percent", g="9.81 m/s^2")
def falling_rod(k):
    share = k.part.to("").magnitude
    tau = k.m * k.R / (k.B * k.L) ** 2
    terminal = k.g * tau
    fall = terminal * tau * (-np.log(1 - share) - share)
    return k.m * k.g * fall - k.m * (share * terminal) ** 2 / 2


@numeric("physics_021")
def falling_rod_in_time(k):
    terminal = brentq(lambda v: k.m * k.g - (k.B * k.L) ** 2 * v / k.R, 0, 100)

    def fast(_, s):
        return s[0] - k.part * terminal

    fast.terminal = True

    def motion(_, s):
        current = k.B * k.L * s[0] / k.R
        return [k.g - k.B * k.L * current / k.m, k.R * current**2]

    return solve_ivp(motion, [0, 100], [0, 0], events=fast, **TIGHT).y[1, -1]


@closed(
    "physics_022", V="1.20 kV", n="1500", current="22.0 A", angle="25.0 degrees", m="1.673e-27 kg",
    e="1.602e-19 C", mu="1.257e-6 N/A^2",
)  # fmt: skip
def helix(k):
    B = k.mu * k.n / Q_METRE * k.current
    speed = (2 * k.e * k.V / k.m) ** 0.5
    return 2 * np.pi * k.m * speed * np.cos(k.angle) / (k.e * B)


@numeric("physics_022")
def helix_in_time(k):
    B = k.mu * k.n * k.current
    speed = np.sqrt(2 * k.e * k.V / k.m)
    turn = k.e * B / k.m  # time is counted in units of 1/turn, length in units of speed/turn

    def motion(_, s):
        return [s[3], s[4], s[5], s[4], -s[3], 0]

    def back(_, s):  # the distance from the axis is smallest
        return s[0] * s[3] + s[1] * s[4]

    back.direction = 1
    start = [0, 0, 0, np.sin(k.angle), 0, np.cos(k.angle)]
    path = solve_ivp(motion, [0, 8], start, events=back, max_step=0.05, **TIGHT)
    here = next(state for time, state in zip(path.t_events[0], path.y_events[0], strict=True) if time > 1)
    assert np.hypot(here[0], here[1]) < 1e-6
    return here[2] * speed / turn


@closed(
    "physics_023", N="640", a="3.00 cm", b="5.00 cm", h="1.60 cm", I="36.0 A", f="2.50 kHz", R="4.00 ohm",
    mu="1.257e-6 N/A^2",
)  # fmt: skip
def toroid(k):
    mutual = k.mu * k.N * k.h * np.log(k.b / k.a) / (2 * np.pi)
    omega = 2 * np.pi * k.f
    inductance = k.N * mutual
    return omega * mutual * k.I / 2**0.5 / (k.R**2 + (omega * inductance) ** 2) ** 0.5


@numeric("physics_023")
def toroid_by_flux(k):
    per_ampere = quad(lambda r: k.mu / (2 * np.pi * r) * k.h, k.a, k.b)[0]  # flux through one turn
    omega = 2 * np.pi * k.f
    # R i + N d(flux)/dt = 0 with flux = per_ampere (I cos wt + N i), one complex equation
    current = -1j * omega * k.N * per_ampere * k.I / (k.R + 1j * omega * k.N**2 * per_ampere)
    return abs(current) / np.sqrt(2)


@closed("physics_024", R="9.50 ohm", L="42.0 mH", V="230 V", f="50.0 Hz", factor="0.950")
def power_factor(k):
    omega = 2 * np.pi * k.f
    X = omega * k.L
    square = k.R**2 + X**2
    active, reactive = k.V**2 * k.R / square, k.V**2 * X / square
    return (reactive - active * np.tan(np.arccos(k.factor))) / (omega * k.V**2)


@numeric("physics_024")
def power_factor_by_admittance(k):
    omega = 2 * np.pi * k.f

    def lag(C):
        return -np.angle(1 / (k.R + 1j * omega * k.L) + 1j * omega * C)

    return brentq(lambda C: lag(C) - np.arccos(k.factor), 0, 2e-4)
