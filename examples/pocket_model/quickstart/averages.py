"""Means, ages and clocks: what grows along with it?"""

from fractions import Fraction

from examples.pocket_model.quickstart.families import ProblemFamily, Way

FAMILIES = (
    ProblemFamily(
        name="next_score",
        category="means",
        wording=(
            "[After {tests} tests|In {tests} tests|Over {tests} games|In {tests} rounds] {who} has [a mean of"
            "|an average of|on average] {mean} points. [{who} wants a mean of {goal} after one more"
            "|With one more the mean should be {goal}|The goal is a mean of {goal} with the next one]."
            " [How many points does the next one need?|How many points are needed in the next?|What must {who} score"
            " next?]"
        ),
        numbers={"tests": range(3, 10), "mean": range(10, 61), "goal": range(12, 66)},
        fits=lambda tests, mean, goal: 1 <= goal - mean <= 5,
        answer=lambda tests, mean, goal: goal * (tests + 1) - tests * mean,
        right=Way(
            "compare the sums of points", "old = tests * mean; needed = (tests + 1) * goal; score = needed - old"
        ),
        mistaken=Way("goal halfway between", "score = 2 * goal - mean"),
        lesson=(
            "[When a new result shall lift a mean|For a wished average with one result more|If a mean must reach a"
            " goal], [compare the sums of points before and after|turn means into totals and compare the sums of points"
            "|compare the sums of points, not the means][.|; all earlier results weigh in.]"
        ),
        habit=0.4,
    ),
    ProblemFamily(
        name="ages",
        category="ages",
        wording=(
            "[{who} is {child} years old, and the father is {parent}|A mother is {parent}, her child {who} is {child}"
            "|{who} is {child}, {who}'s aunt is {parent}|A teacher is {parent} years old, {who} is {child}]."
            " [In how many years|After how many years|How many years from now] [is the older one twice as old?"
            "|will the older be exactly twice as old?|is one twice as old as the other?|is the age of one double the"
            " other's?]"
        ),
        numbers={"child": range(4, 21), "parent": range(24, 61)},
        fits=lambda child, parent: parent > 2 * child + 1 and parent % 2 == 0,
        answer=lambda child, parent: parent - 2 * child,
        right=Way("both grow older", "years = parent - 2 * child"),
        mistaken=Way("only the younger ages", "years = parent / 2 - child"),
        lesson=(
            "[When ages are compared at a later time|For a ratio of ages in future|If an age shall be a multiple"
            " later], [let both grow older by the wait|mind that both grow older|write that both grow older][."
            "|; their difference stays.]"
        ),
        habit=0.5,
    ),
    ProblemFamily(
        name="clock_strikes",
        category="clocks",
        wording=(
            "[A clock|A tower clock|{who}'s clock|An old clock] needs {seconds} seconds [to strike {strikes} times"
            "|for {strikes} strikes], [first to last|from the first to the last]. [How many seconds does it need"
            "|How many seconds go by|How long does it take, in seconds,] [for {hour} strikes?|to strike {hour} times?"
            "|when it strikes {hour} times?]"
        ),
        numbers={"strikes": range(3, 10), "seconds": range(4, 61), "hour": range(4, 13)},
        fits=lambda strikes, seconds, hour: hour > strikes and seconds % (strikes - 1) == 0,
        answer=lambda strikes, seconds, hour: Fraction(seconds * (hour - 1), strikes - 1),
        right=Way("count the pauses", "pause = seconds / (strikes - 1); time = pause * (hour - 1)"),
        mistaken=Way("time for each strike", "pause = seconds / strikes; time = pause * hour"),
        lesson=(
            "[When signals follow at equal distance|For bells that ring repeatedly|If sounds repeat evenly],"
            " [count the pauses between them|count the pauses, not the sounds|divide and multiply after you count the"
            " pauses][.|: there is one fewer.]"
        ),
        habit=0.3,
    ),
    ProblemFamily(
        name="hours_and_minutes",
        category="units of time",
        wording=(
            "[{who} drives|A train runs|A boat sails|A lorry drives] {hours} hours [and|plus] {minutes} minutes at"
            " {speed} km/h[ without a stop||, on and on]. [How many kilometres is that?|What is the distance in"
            " kilometres?|How far does it go, in kilometres?|How long is the way in kilometres?]"
        ),
        numbers={"hours": range(1, 10), "minutes": range(6, 60, 3), "speed": range(20, 121, 10)},
        fits=lambda hours, minutes, speed: speed * minutes % 60 == 0,
        answer=lambda hours, minutes, speed: Fraction(speed * (60 * hours + minutes), 60),
        right=Way("sixty minutes an hour", "time = hours + minutes / 60; way = speed * time"),
        mistaken=Way("minutes as decimals", "time = hours + minutes / 100; way = speed * time"),
        lesson=(
            "[When a duration mixes two units|For a time with minutes in it|If minutes stand beside full hours]"
            ", [reckon with sixty minutes an hour|convert: sixty minutes an hour|mind sixty minutes an hour]"
            "[.|, not a hundred.]"
        ),
        habit=0.65,
    ),
)
