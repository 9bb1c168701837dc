"""Percentages and fractions: of what?"""

from fractions import Fraction

from examples.pocket_model.quickstart.families import ProblemFamily, Way

FAMILIES = (
    ProblemFamily(
        name="rise_and_fall",
        category="percentages in succession",
        wording=(
            "[A {thing} costs {price} euros|The price of a {thing} is {price} euros|{who} sells a {thing} for {price}"
            " euros|For a {thing} one pays {price} euros]. [It rises by {up}% and then falls by {down}%"
            "|First it goes up {up}%, later down {down}%|The price grows {up}%, after that it drops {down}%"
            "|In spring it gains {up}%, in autumn it loses {down}%]. [What does it cost now?|What is the price in the"
            " end?|How many euros is it afterwards?|Find the last price.]"
        ),
        numbers={"price": range(40, 801, 20), "up": range(10, 51, 5), "down": range(10, 51, 5)},
        fits=lambda price, up, down: price * (100 + up) * (100 - down) % 10000 == 0,
        answer=lambda price, up, down: Fraction(price * (100 + up) * (100 - down), 10000),
        right=Way("multiply the factors", "high = price * (1 + up / 100); end = high * (1 - down / 100)"),
        mistaken=Way("add the percentages", "end = price * (1 + (up - down) / 100)"),
        lesson=(
            "[When percentages follow one another|For a change in percent after another|If a value changes in percent"
            " twice], [multiply the factors one by one|multiply the factors, as the base has changed"
            "|multiply the factors of all changes][.|; they share no base.]"
        ),
        habit=0.5,
    ),
    ProblemFamily(
        name="reverse_percent",
        category="reverse percentages",
        wording=(
            "[{who} buys a {thing} that is reduced by {off}%|A {thing} is on sale with {off}% off"
            "|In a sale a {thing} is {off}% cheaper|With a discount of {off}% {who} takes a {thing}]"
            " [and pays {paid} euros|and the bill is {paid} euros|for {paid} euros]. [What was the price before?"
            "|What did it cost at first?|How many euros was the old price?|Find the full price in euros.]"
        ),
        numbers={"off": range(5, 61, 5), "paid": range(12, 601, 4)},
        fits=lambda off, paid: paid * 100 % (100 - off) == 0,
        answer=lambda off, paid: Fraction(100 * paid, 100 - off),
        right=Way("divide by the share paid", "share = 1 - off / 100; full = paid / share"),
        mistaken=Way("add the percentage back", "full = paid * (1 + off / 100)"),
        lesson=(
            "[When a value after a discount is known|To go back from a reduced amount|If the original before a cut is"
            " wanted], [divide by the share paid|divide by the share paid, that is one minus the cut"
            "|do not add it again but divide by the share paid][.|; the cut was of the original.]"
        ),
        habit=0.4,
    ),
    ProblemFamily(
        name="rest_of_rest",
        category="fraction of a remainder",
        wording=(
            "[{who} has {total} euros|{who} gets {total} euros|There are {total} euros in {who}'s purse]."
            " [{who} spends 1/{first} of it on books|1/{first} of it goes for rent|A bag takes 1/{first} of it]"
            "[ and food takes 1/{second} of the rest|, and 1/{second} of what remains goes for food"
            "|, then food takes 1/{second} of the rest]. [How many euros are left?|What is left?|How much money"
            " remains?]"
        ),
        numbers={"total": range(24, 601, 12), "first": range(2, 7), "second": range(2, 7)},
        fits=lambda total, first, second: total % (first * second) == 0 and first + second < first * second,
        answer=lambda total, first, second: Fraction(total * (first - 1) * (second - 1), first * second),
        right=Way("fraction of the remainder", "rest = total * (1 - 1 / first); left = rest * (1 - 1 / second)"),
        mistaken=Way("both fractions of the whole", "left = total * (1 - 1 / first - 1 / second)"),
        lesson=(
            "[When a second part is taken from what is left|If a later share is of the rest|For shares taken one after"
            " another], [compute the remainder first, then the fraction of the remainder|take the fraction of the"
            " remainder|use the fraction of the remainder, not of the start][.|, step by step.]"
        ),
        habit=0.65,
    ),
    ProblemFamily(
        name="percent_change",
        category="percent change",
        wording=(
            "[A club grows from {old} to {new} members|The rent goes up from {old} to {new} euros"
            "|A tree grows from {old} to {new} centimetres|Sales of a {thing} rise from {old} to {new}"
            "|A town's buses go from {old} to {new}] [in a year|within a year|over one year]. [By how many percent is"
            " that?|What is the growth in percent?|How many percent more is that?|Give the increase in percent.]"
        ),
        numbers={"old": range(20, 401, 10), "new": range(25, 601, 5)},
        fits=lambda old, new: old < new <= 2 * old and 100 * (new - old) % old == 0,
        answer=lambda old, new: Fraction(100 * (new - old), old),
        right=Way("divide by the old value", "change = new - old; percent = 100 * change / old"),
        mistaken=Way("divide by the new value", "change = new - old; percent = 100 * change / new"),
        lesson=(
            "[When growth is asked in percent|For a relative increase|If something has grown by some percentage],"
            " [divide by the old value|divide the difference by the old value|take the difference and divide by the old"
            " value][.|: the start is the base.]"
        ),
        habit=0.7,
    ),
    ProblemFamily(
        name="mixture",
        category="mixtures",
        wording=(
            "[{who} mixes|In a bucket {who} mixes|In a lab one mixes|{who} pours together] {first} litres of"
            " {weak}% [brine|acid|syrup|juice] [with|and] {second} litres of {strong}%. [What percentage does the"
            " mixture have?|How strong is the mixture, in percent?|Give the strength of the blend in percent.]"
        ),
        numbers={"first": range(2, 21), "weak": range(5, 41, 5), "second": range(2, 21), "strong": range(10, 81, 5)},
        fits=lambda first, weak, second, strong: (
            first != second and weak < strong and (first * weak + second * strong) % (first + second) == 0
        ),
        answer=lambda first, weak, second, strong: Fraction(first * weak + second * strong, first + second),
        right=Way(
            "weigh by the amounts",
            "content = first * weak + second * strong; percent = content / (first + second)",
        ),
        mistaken=Way("mean of both percentages", "percent = (weak + strong) / 2"),
        lesson=(
            "[When liquids of different strength are blended|For a mixture of unequal volumes|If solutions are put"
            " together], [weigh by the amounts|weigh by the amounts before you divide|weigh by the amounts: add what is"
            " dissolved][.|; the larger part counts more.]"
        ),
        habit=0.35,
    ),
)
