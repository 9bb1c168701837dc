"""Areas: two dimensions change at once."""

from examples.pocket_model.quickstart.families import ProblemFamily, Way

FAMILIES = (
    ProblemFamily(
        name="area_scaling",
        category="scaling of areas",
        wording=(
            "[A poster|A photo|A garden on a plan|A square flag] has an area of {area} [cm²|square centimetres]."
            " [All its sides are made {factor} times as long|Its sides grow to {factor} times their length"
            "|It is copied with all sides {factor} times as long|{who} draws it with sides {factor} times as long]."
            " [What is the new area|How large is the area then|What area does it have then], in the same unit?"
        ),
        numbers={"area": range(5, 81), "factor": range(2, 10)},
        fits=lambda area, factor: area != factor,
        answer=lambda area, factor: area * factor * factor,
        right=Way("square the factor", "result = area * factor^2"),
        mistaken=Way("times the factor", "result = area * factor"),
        lesson=(
            "[When a figure is enlarged|If lengths of a figure are stretched|For areas under enlargement]"
            ", [square the factor|square the factor for its surface|square the factor before you multiply]"
            "[.|; width and height both change.]"
        ),
        habit=0.45,
    ),
    ProblemFamily(
        name="square_units",
        category="unit conversion",
        wording=(
            "[A room|A roof|A carpet|A wall|A stage] [measures|has|covers] {area} [m²|square metres]."
            " [How many square decimetres is that?|Give that in square decimetres.|What is it in square decimetres?"
            "|Write the area in square decimetres.] [A metre has ten decimetres.|One metre is ten decimetres.]"
        ),
        numbers={"area": range(3, 150)},
        fits=lambda area: True,
        answer=lambda area: area * 100,
        right=Way("convert both directions", "result = area * 10^2"),
        mistaken=Way("convert once", "result = area * 10"),
        lesson=(
            "[When units of surface are changed|For squared units|If a surface needs a smaller unit],"
            " [convert both directions|convert both directions, so use the factor twice|always convert both directions]"
            "[.|, along and across.]"
        ),
        habit=0.6,
    ),
    ProblemFamily(
        name="border_path",
        category="borders",
        wording=(
            "[A garden|A pool|A lawn|A field|A terrace] is {length} m long and {width} m wide. [A path {border} m wide"
            " goes all around it|All around it runs a path of {border} m|{who} lays a path of {border} m all around it"
            "|It has a path of {border} m on every side]. [What is the area of the path in m²?|How many m² has the"
            " path?|Find the path's area in m².|How large is the path in m²?]"
        ),
        numbers={"length": range(6, 31), "width": range(4, 21), "border": range(1, 6)},
        fits=lambda length, width, border: length > width > 2 * border,
        answer=lambda length, width, border: 2 * border * (length + width + 2 * border),
        right=Way(
            "widen on two sides",
            "outer = (length + 2 * border) * (width + 2 * border); path = outer - length * width",
        ),
        mistaken=Way(
            "widen on one side", "outer = (length + border) * (width + border); path = outer - length * width"
        ),
        lesson=(
            "[When a strip surrounds a rectangle|For a frame around something|If an edge encloses a shape],"
            " [widen on two sides, each dimension|widen on two sides before multiplying|both dimensions widen on two"
            " sides][.|, left and right.]"
        ),
        habit=0.5,
    ),
)
