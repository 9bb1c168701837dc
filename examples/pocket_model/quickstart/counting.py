"""Counting: ends, gaps, pairs, overlaps."""

from examples.pocket_model.quickstart.families import ProblemFamily, Way

FAMILIES = (
    ProblemFamily(
        name="fence_posts",
        category="gaps and ends",
        wording=(
            "[A straight fence is {length} metres long|{who} builds a straight fence of {length} metres"
            "|Along a straight road of {length} metres {who} puts up a fence]. [There is a post every {step} metres"
            "|A post stands every {step} metres|Posts are {step} metres apart], [at both ends too|also at start and end"
            "|the first at the start, the last at the end]. [How many posts are there?|How many posts does it need?"
            "|Find the number of posts.]"
        ),
        numbers={"length": range(12, 301, 2), "step": range(2, 16)},
        fits=lambda length, step: length % step == 0 and length // step >= 4,
        answer=lambda length, step: length // step + 1,
        right=Way("gaps plus one", "gaps = length / step; posts = gaps + 1"),
        mistaken=Way("as many as gaps", "posts = length / step"),
        lesson=(
            "[When things stand along an open line with both ends taken|For markers in a row that has two ends"
            "|If a row begins and stops with a post], [count gaps plus one|the number is gaps plus one"
            "|take gaps plus one][.|, not the bare quotient.]"
        ),
        habit=0.45,
    ),
    ProblemFamily(
        name="ring_of_trees",
        category="closed rings",
        wording=(
            "[Around a pond of {length} metres|On a circular path of {length} metres|All around a park with an edge of"
            " {length} metres|Along a ring road of {length} metres] [{who} plants trees|the town plants trees"
            "|trees are planted], [{step} metres apart|one every {step} metres|with {step} metres between neighbours]."
            " [How many trees are there?|How many trees does that take?|Find the number of trees.]"
        ),
        numbers={"length": range(12, 301, 2), "step": range(2, 16)},
        fits=lambda length, step: length % step == 0 and length // step >= 4,
        answer=lambda length, step: length // step,
        right=Way("one for each gap", "trees = length / step"),
        mistaken=Way("one more than gaps", "trees = length / step + 1"),
        lesson=(
            "[When the line closes to a ring|For places on a closed circle|If the last neighbour is the first again],"
            " [there is one for each gap|count one for each gap|take just one for each gap][.|, and none extra.]"
        ),
        habit=0.5,
    ),
    ProblemFamily(
        name="saw_cuts",
        category="cuts and pieces",
        wording=(
            "[{who} saws a beam|{who} cuts a pipe|A carpenter saws a log|A machine cuts a rod] into {pieces} pieces."
            " [Each cut takes {minutes} minutes|One cut lasts {minutes} minutes|A single cut needs {minutes} minutes"
            "|It is {minutes} minutes for every cut]. [How many minutes does it take?|How long does it take, in"
            " minutes?|After how many minutes is it done?|What is the time in minutes?]"
        ),
        numbers={"pieces": range(3, 31), "minutes": range(2, 16)},
        fits=lambda pieces, minutes: pieces != minutes,
        answer=lambda pieces, minutes: (pieces - 1) * minutes,
        right=Way("cuts are pieces minus one", "cuts = pieces - 1; time = cuts * minutes"),
        mistaken=Way("a cut for each piece", "time = pieces * minutes"),
        lesson=(
            "[When something long is divided by cuts|For sawing into parts|If parts are made by cutting],"
            " [the cuts are pieces minus one|note that cuts are pieces minus one|remember: cuts are pieces minus one][."
            "|, as the last falls off by itself.]"
        ),
        habit=0.35,
    ),
    ProblemFamily(
        name="handshakes",
        category="pairs",
        wording=(
            "[At a party|At a meeting|In a club|At {who}'s birthday] [{people} people shake hands"
            "|there are {people} people, and all shake hands|{people} guests greet by shaking hands], [each with each"
            "|everyone with everyone else|each one with all others]. [How many handshakes are there?"
            "|Count the handshakes.|How many handshakes is that in all?|Find the number of handshakes.]"
        ),
        numbers={"people": range(5, 100)},
        fits=lambda people: True,
        answer=lambda people: people * (people - 1) // 2,
        right=Way("each pair only once", "pairs = people * (people - 1) / 2"),
        mistaken=Way("all others for each", "pairs = people * (people - 1)"),
        lesson=(
            "[When both partners share an act|For things done in pairs|If order within two does not matter],"
            " [count each pair only once|take half of the product, each pair only once|let each pair only once count][."
            "|; one meeting serves two.]"
        ),
        habit=0.55,
    ),
    ProblemFamily(
        name="neither_group",
        category="inclusion and exclusion",
        wording=(
            "[Of {total} pupils|In a class of {total} pupils|Of {total} people at a club] {first} [play chess|sing"
            "|like tea] and {second} [play football|draw|like coffee]; {both} do both. [How many do neither?"
            "|How many do none of the two?|Find how many do neither of them.|For how many is it neither?]"
        ),
        numbers={"total": range(30, 101, 5), "first": range(8, 40, 3), "second": range(7, 40, 4), "both": range(2, 8)},
        fits=lambda total, first, second, both: first + second < total and both < min(first, second),
        answer=lambda total, first, second, both: total - (first + second - both),
        right=Way("remove the overlap", "either = first + second - both; neither = total - either"),
        mistaken=Way("subtract both groups", "neither = total - first - second"),
        lesson=(
            "[When two groups share members|For counts of overlapping sets|If some belong to two sets],"
            " [remove the overlap before you add up|remove the overlap once from the sum|remove the overlap, which is"
            " counted twice][.|, then compare with all.]"
        ),
        habit=0.6,
    ),
    ProblemFamily(
        name="pages_read",
        category="inclusive counting",
        wording=(
            "[{who} reads a book from page {first} to page {last}|{who} copies page {first} to page {last}"
            "|For school {who} learns page {first} to page {last}|Today {who} prints page {first} to page {last}],"
            " [both included|with both of these|first and last included]. [How many pages is that?"
            "|How many pages are these?|Count the pages.|Find the number of pages.]"
        ),
        numbers={"first": range(5, 90), "last": range(20, 200)},
        fits=lambda first, last: 6 <= last - first <= 80,
        answer=lambda first, last: last - first + 1,
        right=Way("difference plus one", "pages = last - first + 1"),
        mistaken=Way("just the difference", "pages = last - first"),
        lesson=(
            "[When a numbered range counts with its limits|For a run of numbers from one to another"
            "|If a range contains its two limits], [the count is the difference plus one|take the difference plus one"
            "|use the difference plus one][.|, for the start belongs to it.]"
        ),
        habit=0.5,
    ),
)
