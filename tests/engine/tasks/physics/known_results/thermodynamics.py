"""Thermodynamics: formulas against integrals over the process."""

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq

from tests.engine.tasks.physics.known_results.registry import closed, numeric


@closed(
    "physics_013", A="25.0 cm^2", n="0.0400 mol", T1="295 K", p="101.3 kPa", spring="1.80 kN/m", T2="520 K",
    R="8.314 J/(mol*K)",
)  # fmt: skip
def piston_and_spring(k):
    # (p + spring x / A)(V + A x) = n R T2, a quadratic in x
    V = k.n * k.R * k.T1 / k.p
    b = k.p * k.A + k.spring * V / k.A
    c = k.n * k.R * (k.T1 - k.T2)
    x = (-b + (b**2 - 4 * k.spring * c) ** 0.5) / (2 * k.spring)
    return 1.5 * k.n * k.R * (k.T2 - k.T1) + k.p * k.A * x + k.spring * x**2 / 2


@numeric("physics_013")
def piston_by_integral(k):
    start = k.n * k.R * k.T1 / k.p

    def pressure(V):
        return k.p + k.spring * (V - start) / k.A**2

    end = brentq(lambda V: pressure(V) * V - k.n * k.R * k.T2, start, 10 * start)
    # dQ = n Cv dT + p dV with T = p V / (n R)
    heat = quad(lambda V: 2.5 * pressure(V) + 1.5 * V * k.spring / k.A**2, start, end)
    return heat[0]


@closed(
    "physics_014", n="0.150 mol", gamma="1.40", T="300 K", ratio="4.20", rate="20.0 Hz", R="8.314 J/(mol*K)"
)  # fmt: skip
def three_stroke_engine(k):
    cv = k.R / (k.gamma - 1)
    hot, warm = k.T * k.ratio, k.T * k.ratio ** (1 / k.gamma)
    return k.rate * k.n * cv * ((hot - k.T) - k.gamma * (warm - k.T))


@numeric("physics_014")
def three_stroke_by_area(k):
    p, V = 1e5, k.n * k.R * k.T / 1e5
    end = brentq(lambda x: k.ratio * p * (V / x) ** k.gamma - p, V, 20 * V)
    return k.rate * quad(lambda x: k.ratio * p * (V / x) ** k.gamma - p, V, end)[0]


@closed(
    "physics_015", m1="3.00 kg", c1="0.450 kJ/(kg*K)", T1="640 K", m2="5.00 kg", c2="2.10 kJ/(kg*K)", T2="290 K"
)  # fmt: skip
def engine_between_two_bodies(k):
    C1, C2 = k.m1 * k.c1, k.m2 * k.c2
    share = (C1 / (C1 + C2)).to("")
    end = k.T1**share * k.T2 ** (1 - share)
    return C1 * (k.T1 - end) - C2 * (end - k.T2)


@numeric("physics_015")
def engine_in_small_steps(k):
    C1, C2 = k.m1 * k.c1, k.m2 * k.c2

    def equal(_, s):
        return s[0] - s[1]

    equal.terminal = True

    def step(_, s):  # per joule of heat from the hot body: hot, cold, work
        return [-1 / C1, s[1] / s[0] / C2, 1 - s[1] / s[0]]

    return solve_ivp(step, [0, 1e7], [k.T1, k.T2, 0], events=equal, rtol=1e-10, atol=1e-8).y[2, -1]


@closed(
    "physics_016", gamma="1.40", T="290 K", p="101.3 kPa", M="0.0290 kg/mol", V="850 m^3", m="815 kg",
    R="8.314 J/(mol*K)", g="9.81 m/s^2",
)  # fmt: skip
def balloon(k):
    ground = k.p * k.M / (k.R * k.T)
    colder = (k.m / k.V / ground).to("") ** (k.gamma - 1)
    lapse = (k.gamma - 1) / k.gamma * k.M * k.g / k.R
    return k.T * (1 - colder) / lapse


@numeric("physics_016")
def balloon_by_pressure(k):
    ground = k.p * k.M / (k.R * k.T)

    def density(p):
        return ground * (p / k.p) ** (1 / k.gamma)

    def floats(_, s):
        return density(s[0]) - k.m / k.V

    floats.terminal = True
    return solve_ivp(lambda _, s: [-density(s[0]) * k.g], [0, 2e4], [k.p], events=floats, rtol=1e-10).t[-1]


@closed(
    "physics_017", x1="4.00 cm", x2="10.0 cm", dT="15.0 K", k="2.20 W/(m*K)", rho="917 kg/m^3", L="334 kJ/kg",
    h="18.0 W/(m^2*K)",
)  # fmt: skip
def ice(k):
    return k.rho * k.L / k.dT * ((k.x2**2 - k.x1**2) / (2 * k.k) + (k.x2 - k.x1) / k.h)


@numeric("physics_017")
def ice_growing(k):
    def thick(_, s):
        return s[0] - k.x2

    thick.terminal = True

    def growth(_, s):
        surface = brentq(lambda T: k.k * T / s[0] - k.h * (k.dT - T), 0, k.dT)  # kelvins below freezing
        return [k.h * (k.dT - surface) / (k.rho * k.L)]

    return solve_ivp(growth, [0, 1e7], [k.x1], events=thick, rtol=1e-9, atol=1e-12).t[-1]


@closed(
    "physics_018", V="2.50 L", T="300 K", he="60.0 Pa", ar="12.0 Pa", hole="0.0200 mm^2",
    M_he="4.00 g/mol", M_ar="39.9 g/mol", R="8.314 J/(mol*K)",
)  # fmt: skip
def effusion(k):
    fast, slow = ((8 * k.R * k.T / (np.pi * M)) ** 0.5 for M in (k.M_he, k.M_ar))
    return np.log(k.he / k.ar) * 4 * k.V / (k.hole * (fast - slow))


@numeric("physics_018")
def effusion_from_the_velocity_distribution(k):
    def rate(M):
        spread = np.sqrt(k.R * k.T / M)  # of one velocity component
        flux = quad(lambda v: v * np.exp(-((v / spread) ** 2) / 2), 0, 12 * spread, epsabs=0)[0]
        return k.hole / k.V * flux / (spread * np.sqrt(2 * np.pi))

    fast, slow = rate(k.M_he), rate(k.M_ar)

    def equal(_, s):
        return s[0] - s[1]

    equal.terminal = True
    leak = solve_ivp(
        lambda _, s: [-fast * s[0], -slow * s[1]], [0, 1e5], [k.he, k.ar], events=equal, rtol=1e-10, atol=1e-10
    )
    return leak.t[-1]
