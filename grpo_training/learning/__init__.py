"""Generator and critic runs: groups are made, scored, stored and learned from.

``loop.py`` is what is done for each problem, in order. ``generator.py`` and ``critic.py`` are how a group is made,
``scoring.py`` how its candidates are scored, ``analysis.py`` how the analyst is asked and the library changed.
``run.py`` opens everything and prints the final table. ``stored_groups.py`` is the command ``experience_extractor``:
the same loop over groups that are stored.
"""
