"""Speeds, work shared by several, and workers: rates add, times and speeds do not average."""

from fractions import Fraction

from examples.pocket_model.quickstart.families import ProblemFamily, Way

_SPEEDS = (*range(4, 31), *range(35, 121, 5))

FAMILIES = (
    ProblemFamily(
        name="round_trip",
        category="average speed",
        wording=(
            "[{who} drives to {place}|{who} cycles to {place}|A bus goes to {place}|A courier rides to {place}]"
            " at {there} km/h and [comes back the same way|returns on the same road|takes the same road home]"
            " at {back} km/h. [What is the average speed of the whole trip|Find the average speed over both ways"
            "|How fast is that on average, there and back|What average speed does that make in all], in km/h?"
        ),
        numbers={"there": _SPEEDS, "back": _SPEEDS},
        fits=lambda there, back: there != back and 2 * there * back % (there + back) == 0,
        answer=lambda there, back: Fraction(2 * there * back, there + back),
        right=Way("total distance over total time", "hours = 1 / there + 1 / back; mean = 2 / hours"),
        mistaken=Way("mean of both speeds", "mean = (there + back) / 2"),
        lesson=(
            "[When a trip goes out and home at different speeds|For the average speed of a return trip"
            "|If equal ways are done at unequal speeds], [take total distance over total time|divide: total distance"
            " over total time|the average is total distance over total time][.|, since the slow part lasts longer.]"
        ),
        habit=0.4,
    ),
    ProblemFamily(
        name="pursuit",
        category="relative speed",
        wording=(
            "[{who} has a lead of {lead} km and [walks|moves on] at {slow} km/h|{who} is {lead} km ahead, going"
            " {slow} km/h|{who}, already {lead} km away, travels at {slow} km/h]. [{other} follows at {fast} km/h"
            "|{other} sets off behind at {fast} km/h|Behind comes {other} at {fast} km/h]. [After how many hours"
            " does {other} catch up?|How many hours does {other} need to draw level?|In how many hours are they"
            " together?|How long, in hours, until {other} is there too?]"
        ),
        numbers={"lead": range(2, 61), "slow": range(3, 31), "fast": range(5, 61)},
        fits=lambda lead, slow, fast: slow < fast <= 3 * slow and lead % (fast - slow) == 0 and lead > fast - slow,
        answer=lambda lead, slow, fast: Fraction(lead, fast - slow),
        right=Way("gap over difference of speeds", "closing = fast - slow; hours = lead / closing"),
        mistaken=Way("gap over the faster speed", "hours = lead / fast"),
        lesson=(
            "[When one chases another who keeps moving|In a pursuit where both move|If somebody ahead does not wait],"
            " [the time is the gap over the difference of speeds|divide the gap over the difference of speeds"
            "|compute the gap over the difference of speeds][.|, as only that closes it.]"
        ),
        habit=0.55,
    ),
    ProblemFamily(
        name="joint_work",
        category="joint work",
        wording=(
            "[{who} paints a wall|{who} clears a garden|{who} packs an order|{who} types a report] alone in {first}"
            " hours[, {other} needs {second} hours|; {other} takes {second} hours|. For {other} it is {second} hours]."
            " [How many hours do they need together?|How long, in hours, do both take side by side?"
            "|They do it together. How many hours does it take?|In how many hours are they done as a team?]"
        ),
        numbers={"first": range(2, 61), "second": range(2, 61)},
        fits=lambda first, second: first != second and first * second % (first + second) == 0,
        answer=lambda first, second: Fraction(first * second, first + second),
        right=Way("add the rates", "rate = 1 / first + 1 / second; hours = 1 / rate"),
        mistaken=Way("mean of both times", "hours = (first + second) / 2"),
        lesson=(
            "[When two people work at one job at once|For a task shared by two|If several do a job jointly]"
            ", [add the rates, the parts done each hour|add the rates of work and take the reciprocal"
            "|add the rates, never the times][.|; the result is below each single time.]"
        ),
        habit=0.45,
    ),
    ProblemFamily(
        name="crew",
        category="inverse proportion",
        wording=(
            "[{workers} workers build a wall|{workers} gardeners plant a park|{workers} painters paint a school"
            "|{workers} people harvest a field] in {days} days. [How many days do {crew} of them need"
            "|How many days would it take {crew}|With {crew}, how many days are needed|How long would {crew} take, in"
            " days], [if all are equally fast?|at the same pace?|each working as before?]"
        ),
        numbers={"workers": range(2, 25), "days": range(3, 31), "crew": range(2, 31)},
        fits=lambda workers, days, crew: crew != workers and workers * days % crew == 0 and days * crew < 400,
        answer=lambda workers, days, crew: Fraction(workers * days, crew),
        right=Way("constant total work", "work = workers * days; time = work / crew"),
        mistaken=Way("direct proportion", "time = days * crew / workers"),
        lesson=(
            "[When the number of helpers changes|If more or fewer hands do a job|For the same job with another team],"
            " [keep constant total work and divide by the new team|use constant total work: hands times duration"
            "|rely on constant total work][.|; more hands finish sooner.]"
        ),
        habit=0.6,
    ),
)
