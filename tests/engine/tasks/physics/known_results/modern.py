"""Modern physics: formulas against conservation laws, wave matching and motion in proper time."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import fsolve, minimize_scalar

from tests.engine.tasks.physics.known_results.registry import closed, numeric


@closed(
    "physics_031", E="0.450 MeV", angle="70.0 degrees", rest="0.511 MeV", B="0.0250 T", e="1.602e-19 C",
    c="2.998e8 m/s",
)  # fmt: skip
def compton_electron(k):
    scattered = k.E / (1 + k.E / k.rest * (1 - np.cos(k.angle)))
    kinetic = k.E - scattered
    momentum = (kinetic**2 + 2 * kinetic * k.rest) ** 0.5 / k.c
    return momentum / (k.e * k.B)


@numeric("physics_031")
def compton_by_conservation(k):
    def conserved(after):  # in units of the photon's energy
        photon, along, across = after
        rest_energy = k.rest / k.E
        return [
            1 - photon * np.cos(k.angle) - along,
            photon * np.sin(k.angle) + across,
            1 + rest_energy - photon - np.sqrt(rest_energy**2 + along**2 + across**2),
        ]

    _, along, across = fsolve(conserved, [0.5, 0.5, -0.5], xtol=1e-13)
    return np.hypot(along, across) * k.E / k.c / (k.e * k.B)


@closed(
    "physics_032", ground="13.6 eV", work="4.30 eV", V="20.0 V", h="6.626e-34 J*s", m="9.109e-31 kg",
    e="1.602e-19 C",
)  # fmt: skip
def photoelectron(k):
    photon = 4 * k.ground * (1 / 4 - 1 / 9)
    kinetic = photon - k.work + k.e * k.V
    return k.h / (2 * k.m * kinetic) ** 0.5


@numeric("physics_032")
def photoelectron_by_bohr_orbits_and_motion(k):
    # Bohr: the energy of orbit n is the least of n^2 / (2 r^2) - Z / r in units where hydrogen has -1/2
    def level(n):
        return minimize_scalar(lambda r: n**2 / (2 * r**2) - 2 / r, bounds=(0.1, 20), method="bounded").fun

    kinetic = (level(3) - level(2)) * 2 * k.ground - k.work
    speed, field = np.sqrt(2 * kinetic / k.m), k.V / 0.01

    def arrived(_, s):
        return s[0] - 0.01

    arrived.terminal = True
    flight = solve_ivp(
        lambda _, s: [s[1], k.e * field / k.m], [0, 1e-6], [0, speed], events=arrived, rtol=1e-10, atol=1e-12
    )
    return k.h / (k.m * flight.y[1, -1])


@closed("physics_033", A0="85.0 MBq", long="8.00 h", short="2.50 h")
def daughter_activity(k):
    parent, daughter = np.log(2) / k.long, np.log(2) / k.short
    t = np.log(daughter / parent) / (daughter - parent)
    return k.A0 * np.exp(-parent * t)


@numeric("physics_033")
def daughter_in_time(k):
    parent, daughter = np.log(2) / k.long, np.log(2) / k.short
    decay = solve_ivp(
        lambda _, s: [-parent * s[0], parent * s[0] - daughter * s[1]],
        [0, 10 * k.short],
        [k.A0 / parent, 0],
        rtol=1e-11,
        atol=1.0,
        dense_output=True,
    )
    best = minimize_scalar(lambda t: -decay.sol(t)[1], bounds=(0, 10 * k.short), method="bounded")
    return -best.fun * daughter


@closed(
    "physics_034", T="220 MeV", pion="139.6 MeV", muon="105.7 MeV", life="2.197 us", c="2.998e8 m/s"
)  # fmt: skip
def muon_range(k):
    gamma = 1 + k.T / k.pion
    own_energy = (k.pion**2 + k.muon**2) / (2 * k.pion)
    own_momentum = (k.pion**2 - k.muon**2) / (2 * k.pion)
    momentum = gamma * own_momentum + (gamma**2 - 1) ** 0.5 * own_energy
    return momentum / k.muon * k.c * k.life


@numeric("physics_034")
def muon_by_conservation(k):
    energy = k.T + k.pion
    momentum = np.sqrt(energy**2 - k.pion**2)

    def conserved(after):  # in the laboratory, in units of the pion's rest energy; the neutrino flies backwards
        muon, neutrino = after * k.pion
        return [
            (momentum - muon + neutrino) / k.pion,
            (energy - np.hypot(muon, k.muon) - neutrino) / k.pion,
        ]

    muon, neutrino = fsolve(conserved, [2.0, 0.1], xtol=1e-13) * k.pion
    assert neutrino > 0
    speed = muon / np.hypot(muon, k.muon) * k.c
    return speed * k.life / np.sqrt(1 - (speed / k.c) ** 2)


@closed(
    "physics_035", E="3.20", beam="1.50 uA", V="5.10", a="0.250 nm", m="9.109e-31 kg", hbar="1.055e-34 J*s",
    eV="1.602e-19 J",
)  # fmt: skip
def tunnelling(k):
    kappa = (2 * k.m * (k.V - k.E) * k.eV) ** 0.5 / k.hbar
    inverse = 1 + k.V**2 * np.sinh(kappa * k.a) ** 2 / (4 * k.E * (k.V - k.E))
    return k.beam / inverse


@numeric("physics_035")
def tunnelling_by_the_wave_equation(k):
    outside = np.sqrt(2 * k.m * k.E * k.eV) / k.hbar * k.a
    inside = 2 * k.m * (k.V - k.E) * k.eV / k.hbar**2 * k.a**2
    # from the transmitted wave (1 at the far face) back to the near face, position in units of the width
    wave = solve_ivp(lambda _, s: [s[1], inside * s[0]], [1, 0], [1, 1j * outside], rtol=1e-10, atol=1e-12).y[:, -1]
    incoming = (wave[0] + wave[1] / (1j * outside)) / 2
    return k.beam / abs(incoming) ** 2


@closed("physics_036", a="9.81 m/s^2", years="3.00", c="2.998e8 m/s", year="365.25 days")
def message_from_a_starship(k):
    return k.c / k.a * (np.exp(k.a * k.years * k.year / k.c) - 1)


@numeric("physics_036")
def starship_in_proper_time(k):
    def motion(_, s):  # Earth's time and distance in light seconds, momentum over m c
        energy = np.sqrt(1 + s[2] ** 2)
        return [energy, s[2], k.a / k.c * energy]

    time, distance, _ = solve_ivp(motion, [0, k.years * k.year], [0, 0, 0], rtol=1e-10, atol=1e-10).y[:, -1]
    return time + distance
