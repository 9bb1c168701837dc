"""Runs untrusted programs and returns their values and output. It does not judge whether these are correct.

Programs run outside this process, on the strongest of three levels of isolation that works on this machine
(:func:`engine.sandbox.zygote_process.strongest_level`):

``bubblewrap``
    Each program is the first process of its own PID namespace. Its file system holds the interpreter's library,
    read-only, and 16 MiB of writable memory. It has no network, IPC, ``/proc``, environment or inherited
    descriptors; a separate user id if this process is root; no capabilities; limits on memory, processor time,
    threads, files and output; and a filter of system calls (on x86_64 and aarch64).
    Does NOT protect from: kernel vulnerabilities, side channels (time, caches), the load of one busy core until
    the time limit.
``namespaces``
    The same isolation, set up by this package where bubblewrap is missing and the kernel permits it.
    Does NOT protect from: the above, and errors in this package's implementation.
``rlimits``
    Resource limits and the filter of system calls (the level is not available without the filter): no processes,
    sockets, changes to files or locks on them; no signals to other processes and no changes of their priority. Where
    the kernel has Landlock (Linux 5.13), programs open no files but the interpreter's library and the system's
    libraries. Rewards are refused on this level unless it is permitted, see
    :func:`engine.sandbox.zygote_process.level_for_rewards`.
    Does NOT protect from, without Landlock: reading any file that its user may read, and, if this process is not root,
    this process's memory through ``/proc``. If this process is root and other users cannot read the interpreter's
    library, programs run as root without capabilities.

Other executables, such as Node.js, run on the same levels (``command_process.py``). Their memory limit counts private
memory instead of address space. They can become another executable that is visible to them, but start no process.

``worker.py`` is separate. It runs this package's own functions in processes that can be killed, without isolation.
"""

ALLOW_WEAK = "SCAFFOLD_ALLOW_WEAK_SANDBOX"
"""Environment variable that permits the level ``rlimits`` for rewards; ``--allow-weak-sandbox`` sets it."""
