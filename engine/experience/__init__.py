"""Experience libraries: short texts that an agent has learned, for its later prompts.

``library.py`` is a library on disk: a log (``log.py``) of events (``events.py``), the state that they lead to
(``state.py``), and the JSON file for people and other programs (``file.py``). ``proposals.py`` decides what is added,
by the checks of ``text_checks.py``. ``choice.py`` chooses the experiences of a prompt, by the similarity of problems
(``similarity.py``). ``trial.py`` measures by lot whether an experience helps, and decides which are retired.
"""
