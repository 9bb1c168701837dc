"""Generator and critic runs: groups are made, scored, stored and learned from.

``generator.py`` and ``critic.py`` are the two kinds of learner, ``learner.py`` is a run of either. ``loop.py`` keeps
the problems in order; ``extractor.py`` turns a scored group into experiences; ``groups/`` makes the groups, here or
on a cluster, through a session (``session.py``: client, analyst, judge, evaluator). ``extraction.py`` is the command
``experience_extractor``, which runs the same loop over stored groups.
"""
