"""What drives SUMO.

``sumo`` is SUMO in one process, ``runs`` what such a process does, and ``server`` forks such processes. The other
modules run in the process of the command: ``process`` starts and stops a simulation, ``generation`` makes datasets,
``closed_loop`` measures policies, ``live`` simulates single branches. Only ``sumo``, ``runs`` and ``server`` import
libsumo.
"""
