"""Waves: formulas against integrals, eigenvalues and simulated signals."""

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.linalg import eigh
from scipy.optimize import brentq

from tests.engine.tasks.physics.known_results.registry import closed, numeric


@closed(
    "physics_007", L="1.60 m", thin="2.00 g/m", thick="5.60 g/m", m="1.30 kg",
    iron="7870 kg/m^3", water="998 kg/m^3", g="9.81 m/s^2",
)  # fmt: skip
def pulse_on_a_tapered_wire(k):
    tension = k.m * k.g * (1 - k.water / k.iron)
    return 2 * k.L * (k.thick**1.5 - k.thin**1.5) / (3 * (k.thick - k.thin) * tension**0.5)


@numeric("physics_007")
def pulse_by_integral(k):
    volume = k.m / k.iron
    tension = (k.m - k.water * volume) * k.g
    return quad(lambda x: np.sqrt((k.thin + (k.thick - k.thin) * x / k.L) / tension), 0, k.L)[0]


@closed("physics_008", f="540 Hz", top="610 Hz", r="1.50 m", d="4.00 m", c="343 m/s")
def whistle_on_a_circle(k):
    # the extremes are sent where the line of sight is a tangent; both are equally far from the ear
    omega = k.c * (1 - k.f / k.top) / k.r
    return 2 * np.arccos(k.r / k.d) / omega


@numeric("physics_008")
def whistle_by_arrival_times(k):
    angle = np.linspace(0, 2 * np.pi, 200_001)
    distance = np.hypot(k.d - k.r * np.cos(angle), k.r * np.sin(angle))

    def heard(omega):
        arrival = angle / omega + distance / k.c
        return (arrival[1:] + arrival[:-1]) / 2, k.f * np.diff(angle) / omega / np.diff(arrival)

    omega = brentq(lambda x: heard(x)[1].max() - k.top, 1, 0.9 * k.c / k.r)
    time, frequency = heard(omega)
    period = 2 * np.pi / omega
    return (time[frequency.argmin()] - time[frequency.argmax()]) % period


@closed(
    "physics_009", L="0.850 m", cold="285 K", hot="304 K", tighter="2.50 percent",
    gamma="1.40", M="0.0290 kg/mol", R="8.314 J/(mol*K)",
)  # fmt: skip
def pipe_and_string(k):
    f = 5 * (k.gamma * k.R * k.cold / k.M) ** 0.5 / (4 * k.L)
    return f * ((k.hot / k.cold) ** 0.5 - (1 + k.tighter) ** 0.5)


@numeric("physics_009")
def pipe_by_boundary_condition(k):
    def third_resonance(temperature):
        c = np.sqrt(k.gamma * k.R * temperature / k.M)
        return brentq(lambda f: np.cos(2 * np.pi * f * k.L / c), 4 * c / (4 * k.L), 6 * c / (4 * k.L))

    string = third_resonance(k.cold) * np.sqrt(1 + k.tighter)
    return abs(third_resonance(k.hot) - string)


@closed("physics_010", m="0.250 kg", joint="2.50 N/m", outer="18.0 N/m")
def energy_exchange(k):
    slow, fast = (k.outer / k.m) ** 0.5, ((k.outer + 2 * k.joint) / k.m) ** 0.5
    return np.pi / (fast - slow)


@numeric("physics_010")
def energy_exchange_by_modes(k):
    stiffness = [[k.outer + k.joint, -k.joint], [-k.joint, k.outer + k.joint]]
    squares, shapes = eigh(stiffness, k.m * np.eye(2))
    omega = np.sqrt(squares)
    parts = shapes[0] * np.linalg.solve(shapes, [1, 0])  # what each mode adds to the first glider's motion

    def envelope(t):
        return abs((parts * np.exp(1j * omega * t)).sum())

    times = np.linspace(0, 5, 50_001)
    values = np.array([envelope(t) for t in times])
    first = np.flatnonzero((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:]))[0] + 1
    assert values[first] < 1e-3
    return times[first]


@closed("physics_011", U="0.320 m/s", sigma="0.0728 N/m", rho="998 kg/m^3", g="9.81 m/s^2")
def waves_at_a_fishing_line(k):
    s = k.sigma / k.rho
    number = (k.U**2 + (k.U**4 - 4 * k.g * s) ** 0.5) / (2 * s)
    return (k.g + 3 * s * number**2) / (2 * number * k.U) - k.U


@numeric("physics_011")
def waves_by_slope_of_the_dispersion(k):
    def omega(number):
        return np.sqrt(k.g * number + k.sigma * number**3 / k.rho)

    slowest = np.sqrt(k.g * k.rho / k.sigma)
    number = brentq(lambda q: omega(q) / q - k.U, slowest, 100 * slowest)
    step = number * 1e-5
    return (omega(number + step) - omega(number - step)) / (2 * step) - omega(number) / number


@closed(
    "physics_012", sag="6.20 cm", left="0.250", cycles="2.00", wave="5.40 m", Y="3.00 cm", v="9.00 m/s",
    g="9.81 m/s^2",
)  # fmt: skip
def trailer(k):
    decrement = -np.log(k.left) / k.cycles
    zeta = decrement / (4 * np.pi**2 + decrement**2) ** 0.5
    r = 2 * np.pi * k.v / k.wave / (k.g / k.sag) ** 0.5
    return k.Y * ((1 + (2 * zeta * r) ** 2) / ((1 - r**2) ** 2 + (2 * zeta * r) ** 2)) ** 0.5


@numeric("physics_012")
def trailer_on_the_road(k):
    natural, drive = np.sqrt(k.g / k.sag), 2 * np.pi * k.v / k.wave
    zeta = brentq(lambda z: np.exp(-z * k.cycles * 2 * np.pi / np.sqrt(1 - z * z)) - k.left, 0.01, 0.9)

    def motion(t, s):
        road, slope = k.Y * np.sin(drive * t), k.Y * drive * np.cos(drive * t)
        return [s[1], -(natural**2) * (s[0] - road) - 2 * zeta * natural * (s[1] - slope)]

    late = np.linspace(18, 20, 4001)
    ride = solve_ivp(motion, [0, 20], [0, 0], t_eval=late, rtol=1e-9, atol=1e-11)
    return (ride.y[0].max() - ride.y[0].min()) / 2
