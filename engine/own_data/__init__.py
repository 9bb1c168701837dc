"""Datasets in the forms in which people store them: which columns are what, and how answers are compared.

:func:`engine.own_data.description.describe` finds one description from all rows of a file. It turns each row
into a plain one, with the fields ``problem`` and ``answer``, which tasks read.
"""
