"""What drives SUMO.

``sumo`` is SUMO in one process, ``jobs`` what such a process does (run by ``worker``), ``forks`` how a branch is
simulated. The other modules run in the process of the command: ``process`` starts and stops a worker, ``generation``
makes datasets, ``missing_outcomes`` completes rows that have a state only, ``closed_loop`` measures policies,
``live`` simulates single branches. Only ``sumo`` and ``jobs`` import libsumo.
"""
