"""Where work runs: in this process and its child processes, or on the nodes of a Ray cluster.

``work.py`` has the interface: a picklable :class:`~engine.executor.work.WorkerDescription` opens a worker where the
work runs, and a :class:`~engine.executor.work.ItemPool` gives items to its workers. ``local.py`` is the one
implementation, ``ray_cluster.py`` with ``ray_pool.py`` the other; :func:`~engine.executor.choice.open_executor` chooses
by the value of ``--executor``. ``accounts.py`` holds what all workers of a run share: journal, rate limits and budget.
``remote_accounts.py`` is what stands for them in a worker.
"""
