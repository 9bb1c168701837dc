"""Optics: formulas against traced rays and summed wavelets."""

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq

from tests.engine.tasks.physics.known_results.registry import Q, closed, numeric


@closed("physics_025", f="18.0 cm", gap="40.0 cm", R="32.0 cm", u="30.0 cm")
def lens_and_mirror(k):
    def image(focal, distance):
        return 1 / (1 / focal - 1 / distance)

    at_mirror = image(k.R / 2, k.gap - image(k.f, k.u))
    return image(k.f, k.gap - at_mirror)


@numeric("physics_025")
def lens_and_mirror_by_matrices(k):
    def free(length):
        return np.array([[1, length], [0, 1]])

    def power(focal):
        return np.array([[1, 0], [-1 / focal, 1]])

    system = power(k.f) @ free(k.gap) @ power(k.R / 2) @ free(k.gap) @ power(k.f) @ free(k.u)
    # an image: the height behind the system does not depend on the ray's angle
    return -system[0, 1] / system[1, 1]


@closed("physics_026", apex="60.0 degrees", A="1.590", B="0.0105 um^2", blue="486 nm", red="656 nm")
def prism(k):
    n_red, n_blue = (k.A + k.B / wave**2 for wave in (k.red, k.blue))
    incidence = np.arcsin(n_red * np.sin(k.apex / 2))
    inner = k.apex - np.arcsin(np.sin(incidence) / n_blue)
    return np.arcsin(n_blue * np.sin(inner)) - incidence


@numeric("physics_026")
def prism_by_vectors(k):
    def refract(ray, normal, ratio):
        cosine = -normal @ ray
        return ratio * ray + (ratio * cosine - np.sqrt(1 - ratio**2 * (1 - cosine**2))) * normal

    def unit(angle):
        return np.array([np.cos(angle), np.sin(angle)])

    first = np.array([-np.cos(k.apex / 2), np.sin(k.apex / 2)])  # outward normal of the entry face
    second = np.array([-np.cos(k.apex / 2), -np.sin(k.apex / 2)])  # inward normal of the exit face

    def leaves(direction, wave):
        n = k.A + k.B / wave**2
        return refract(refract(unit(direction), first, 1 / n), second, n)

    def deviation(direction, wave):
        out = leaves(direction, wave)
        return direction - np.arctan2(out[1], out[0])

    grid = np.linspace(0.2, 1.2, 20_001)
    with np.errstate(invalid="ignore"):
        turned = np.array([deviation(angle, k.red) for angle in grid])
    least = grid[np.nanargmin(turned)]
    return deviation(least, k.blue) - deviation(least, k.red)


@closed("physics_027", n="1.620", wave="589 nm", order="12", air="9.40 mm", wet="8.10 mm")
def newtons_rings(k):
    R = (k.air / 2) ** 2 / (k.order * k.wave)
    liquid = (k.air / k.wet) ** 2
    return R / (k.n / liquid - 1)


@numeric("physics_027")
def newtons_rings_by_tracing(k):
    def gap(R, radius):
        return radius**2 / (R + np.sqrt(R**2 - radius**2))

    R = brentq(lambda x: 2 * gap(x, k.air / 2) - k.order * k.wave, 0.1, 100)
    liquid = brentq(lambda n: 2 * n * gap(R, k.wet / 2) - k.order * k.wave, 1, 2)
    height = R * 1e-4  # a ray parallel to the axis leaves through the curved face
    inside = np.arcsin(height / R)
    outside = np.arcsin(k.n / liquid * np.sin(inside))
    return height / np.tan(outside - inside)


@closed("physics_028", a="0.0450 mm", d="0.160 mm", wave="633 nm", L="2.40 m", centre="6.10 mW/m^2", y="21.0 mm")
def double_slit(k):
    sine = k.y / (k.y**2 + k.L**2) ** 0.5
    slit, pair = np.pi * k.a * sine / k.wave, np.pi * k.d * sine / k.wave
    return k.centre * (np.sin(slit) / slit) ** 2 * np.cos(pair) ** 2


@numeric("physics_028")
def double_slit_by_wavelets(k):
    def amplitude(sine):
        def sum_over(centre, function):
            low, high = centre - k.a / 2, centre + k.a / 2
            return quad(lambda x: function(2 * np.pi * x * sine / k.wave), low, high, epsabs=0, epsrel=1e-10)[0]

        return sum(sum_over(side * k.d / 2, np.cos) + 1j * sum_over(side * k.d / 2, np.sin) for side in (-1, 1))

    sine = np.sin(np.arctan(k.y / k.L))
    return k.centre * abs(amplitude(sine)) ** 2 / abs(amplitude(1e-12)) ** 2


@closed("physics_029", n="1.540", alpha="0.220 mm^-1", angle="18.0 degrees")
def graded_rod(k):
    sine = np.sin(k.angle) / k.n
    return 2 * np.pi * (1 - sine**2) ** 0.5 / k.alpha


@numeric("physics_029")
def graded_rod_by_ray(k):
    start = np.arcsin(np.sin(k.angle) / k.n)

    def index(y):
        return k.n * np.sqrt(1 - (k.alpha * y) ** 2)

    def path(_, s):  # d/ds (n dr/ds) = grad n; state: x, y, n dx/ds, n dy/ds, in rod lengths 1/alpha
        n = index(s[1])
        return [s[2] / n, s[3] / n, 0, -(k.n**2) * k.alpha**2 * s[1] / n]

    def axis(_, s):
        return s[1]

    length = 7.5 / k.alpha
    first = [0, 0, k.n * np.cos(start), k.n * np.sin(start)]
    ray = solve_ivp(path, [0, length], first, events=axis, rtol=1e-10, atol=1e-14, max_step=length / 500)
    crossings = [state[0] for state in ray.y_events[0] if state[0] > 0.1 / k.alpha]
    return crossings[1]


@closed("physics_030", lines="600", near="589.0 nm", far="589.6 nm", i="15.0 degrees", f="0.750 m")
def grating(k):
    d = Q("1 mm") / k.lines
    first, second = (np.arcsin(2 * wave / d - np.sin(k.i)) for wave in (k.near, k.far))
    return k.f * np.tan(second - first)


@numeric("physics_030")
def grating_by_path_difference(k):
    d = 1e-3 / k.lines

    def direction(wave):
        return brentq(lambda x: d * (np.sin(k.i) + np.sin(x)) / wave - 2, 0, 1.5, xtol=1e-14)

    return k.f * np.tan(direction(k.far) - direction(k.near))
