"""Simple physics: units first, and squares where the law has them."""

from fractions import Fraction

from examples.pocket_model.quickstart.families import ProblemFamily, Way

FAMILIES = (
    ProblemFamily(
        name="metres_in_seconds",
        category="units of speed",
        wording=(
            "[A car|A train|A tram|A metro|{who}'s motorbike] [drives|moves|goes] at {speed} km/h."
            " [How many metres does it cover in {seconds} seconds?|How many metres is that in {seconds} seconds?"
            "|What way, in metres, does it make in {seconds} seconds?|How far, in metres, does it come in {seconds}"
            " seconds?]"
        ),
        numbers={"speed": range(18, 217, 9), "seconds": range(2, 41)},
        fits=lambda speed, seconds: speed * seconds * 10 % 36 == 0,
        answer=lambda speed, seconds: Fraction(speed * seconds * 1000, 3600),
        right=Way("metres per second first", "rate = speed * 1000 / 3600; way = rate * seconds"),
        mistaken=Way("speed times time", "way = speed * seconds"),
        lesson=(
            "[When kilometres an hour meet a short time|If the speed has another unit than asked"
            "|For units of speed that do not match], [convert to metres per second first|work out metres per second"
            " first|go to metres per second first][.|, then multiply.]"
        ),
        habit=0.55,
    ),
    ProblemFamily(
        name="braking",
        category="energy and speed",
        wording=(
            "[A car|A lorry|A bus|{who}'s van] [needs {distance} m to brake|has a braking distance of {distance} m"
            "|brakes within {distance} m]. [What is the braking distance|How many metres does braking take"
            "|How many metres does it need] [at {factor} times the speed?|when it goes {factor} times as fast?"
            "|if the speed is {factor} times as high?]"
        ),
        numbers={"distance": range(3, 61), "factor": range(2, 8)},
        fits=lambda distance, factor: distance != factor,
        answer=lambda distance, factor: distance * factor**2,
        right=Way("energy grows with the square", "stop = distance * factor^2"),
        mistaken=Way("in proportion to speed", "stop = distance * factor"),
        lesson=(
            "[When a vehicle has to stop from higher velocity|For stopping from a faster ride|If velocity is"
            " multiplied], [remember that energy grows with the square|use that energy grows with the square"
            "|energy grows with the square][.|, so the way does too.]"
        ),
        habit=0.4,
    ),
    ProblemFamily(
        name="parallel_resistors",
        category="circuits",
        wording=(
            "[Two resistors|Two lamps|Two heaters|On a board two resistors|In {who}'s circuit two resistors] of {first}"
            " ohms and {second} ohms are [in parallel|connected in parallel|wired side by side, in parallel]."
            " [What is the total resistance in ohms?|How many ohms do they have together?|What is their joint"
            " resistance in ohms?|Find the resistance of both, in ohms.]"
        ),
        numbers={"first": range(2, 91), "second": range(2, 91)},
        fits=lambda first, second: first != second and first * second % (first + second) == 0,
        answer=lambda first, second: Fraction(first * second, first + second),
        right=Way("add the reciprocals", "inverse = 1 / first + 1 / second; total = 1 / inverse"),
        mistaken=Way("add the resistances", "total = first + second"),
        lesson=(
            "[When current can take two branches|For parts of a circuit that lie side by side|If a circuit splits]"
            ", [add the reciprocals and invert|add the reciprocals of the branches|conductances count: add the"
            " reciprocals][.|; the whole is below each.]"
        ),
        habit=0.6,
    ),
    ProblemFamily(
        name="grams_and_joules",
        category="units of mass",
        wording=(
            "[A ball|A stone|An arrow|A toy car|A bird] of {grams} grams [flies|moves|travels] at {speed} m/s."
            " [What is its kinetic energy in joules?|How many joules of kinetic energy has it?|Find its kinetic energy"
            " in joules.|Give the energy of its motion in joules.]"
        ),
        numbers={"grams": range(50, 1001, 50), "speed": range(2, 31, 2)},
        fits=lambda grams, speed: grams * speed**2 % 2000 == 0,
        answer=lambda grams, speed: Fraction(grams * speed**2, 2000),
        right=Way("kilograms first", "mass = grams / 1000; energy = mass * speed^2 / 2"),
        mistaken=Way("grams as they are", "energy = grams * speed^2 / 2"),
        lesson=(
            "[When a mass stands in small units|For energy from mass and velocity|If a formula wants basic units],"
            " [go to kilograms first|write the mass in kilograms first|convert to kilograms first][.|, then use it.]"
        ),
        habit=0.45,
    ),
)
