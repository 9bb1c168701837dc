"""Isolation of a zygote and its children by direct system calls: namespaces, mounts, resource limits and rights."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
from collections.abc import Sequence

from . import landlock, seccomp
from .landlock import check, libc

BOX = "/box"
"""The only writable directory on the levels with namespaces: a small file system in memory."""

_BOX_OPTIONS = b"size=16m,nr_inodes=256,mode=0777"
_MOUNT_POINTS = ("/mnt", "/srv", "/tmp")  # noqa: S108 - candidates for the new root, in this process's mount namespace
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_FILE_BYTES = 8 << 20
_STACK_BYTES = 64 << 20
_THREAD_STACK_BYTES = 8 << 20  # of each thread; it counts as private memory
_CPU_S = 24 * 3600
"""Ends what no process watches any more. The watcher has lower limits and counts the time that a program ran.
The kernel counts whole ticks: a program could reach a low limit by design, and die as if the machine had killed it."""
_OPEN_FILES = 64
_THREADS = 64

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USERS, _NEW_PROCESSES, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH = 2
_SIGCHLD, _SIGKILL = 17, 9
_CLONE_NUMBER = {"x86_64": 56, "aarch64": 220}
_PIVOT_NUMBER = {"x86_64": 155, "aarch64": 41}
_CAPSET_NUMBER = {"x86_64": 126, "aarch64": 91}
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 1, 38, 36

_machine = os.uname().machine
_this_thread = ctypes.PyDLL(None, use_errno=True)  # PyDLL keeps the GIL during the call; the child of clone needs it


def enter_namespaces(paths: Sequence[str], links: Sequence[tuple[str, str]]) -> None:
    """Enter new mount, network, UTS and IPC namespaces, in which only ``paths`` are visible, read-only.

    Args:
        paths: absolute paths of files and directories.
        links: symbolic links to create, as (target, path).

    Raises:
        OSError: the kernel does not permit it.
    """
    uid, gid = os.getuid(), os.getgid()
    flags = _NEW_MOUNTS | _NEW_UTS | _NEW_IPC | _NEW_NETWORK | (_NEW_USERS if uid else 0)
    check(libc.unshare(flags), "unshare")
    if uid:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    root = next(folder for folder in _MOUNT_POINTS if not any(path.startswith(folder + "/") for path in paths))
    _mount("tmpfs", root, "tmpfs", _NO_SETUID | _NO_DEVICES, b"size=1m,mode=0755")
    for path in (*paths, *_DEVICES):
        _bind(path, root + path)
    for target, path in links:
        os.symlink(target, root + path)
    os.mkdir(root + BOX)
    os.chdir(root)
    check(libc.syscall(_PIVOT_NUMBER[_machine], b".", b"."), "pivot_root")
    check(libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")
    _mount(None, "/", None, _REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | _NO_DEVICES)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w"):
            pass
    _mount(source, target, None, _BIND | _RECURSIVE)
    _make_read_only(target)


def fix_devices() -> None:
    """Mount the devices read-only: programs can still write to them, but not change their times and modes."""
    for device in _DEVICES:
        _make_read_only(device)


def _make_read_only(path: str) -> None:
    kept = os.statvfs(path).f_flag & 0x40E  # a user namespace cannot clear these flags
    _mount(None, path, None, _REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | kept)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: bytes | None = None) -> None:
    def raw(text: str | None) -> bytes | None:
        return None if text is None else os.fsencode(text)

    action = f"mount {source or ''} on {target}"
    check(libc.mount(raw(source), raw(target), raw(kind), ctypes.c_ulong(flags), options), action)


def fresh_box(*, first: bool = False) -> None:
    """Mount an empty file system at ``BOX``, in place of the one that the last program used."""
    if not first:
        check(libc.umount2(os.fsencode(BOX), _DETACH), "umount the box")
    _mount("tmpfs", BOX, "tmpfs", _NO_SETUID | _NO_DEVICES, _BOX_OPTIONS)


def adopt_orphans() -> None:
    """Make this process the parent of all descendants whose own parent has exited."""
    check(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def fork(*, own_processes: bool) -> int:
    """Fork, like ``os.fork``.

    Args:
        own_processes: make the child the first process of a new PID namespace. When it exits, the kernel kills all
            other processes of the namespace.
    """
    if not own_processes:
        return os.fork()
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = int(_this_thread.syscall(_CLONE_NUMBER[_machine], _NEW_PROCESSES | _SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def confine(*, uid: int | None, memory_bytes: int, executes: bool, readable: Sequence[str] | None) -> None:
    """Apply the limits of a program and drop all other rights. Called by the child before it reads the program.

    Args:
        uid: user id to change to, if this process is root; None keeps the current one.
        memory_bytes: limit of address space; of private writable memory if the process becomes another executable,
            because runtimes such as Node.js reserve far more addresses than they use.
        executes: the process may become another executable. It cannot start processes then either.
        readable: None on the levels with namespaces. Without them changes to files are refused, and where the kernel
            has Landlock, these are the only files and folders that it may read.
    """
    own_processes = readable is None
    read_only = not own_processes
    for kind, limit in (
        (resource.RLIMIT_CPU, _CPU_S),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0 if read_only else _FILE_BYTES),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_STACK, _THREAD_STACK_BYTES if executes else _STACK_BYTES),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_DATA if executes else resource.RLIMIT_AS, memory_bytes),
    ):
        _limit(kind, limit)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if uid is not None or own_processes:  # otherwise the limit would count all processes of this user
        _limit(resource.RLIMIT_NPROC, _THREADS)
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    check(libc.syscall(_CAPSET_NUMBER[_machine], header, none), "capset")
    check(libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")
    check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    if readable is not None and landlock.supported():
        landlock.restrict(readable, _DEVICES)
    if seccomp.supported():
        seccomp.install(read_only=read_only, executes=executes)


def _limit(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(kind, (limit, limit))


def kill_descendants() -> None:
    """Kill and reap all descendants of this process. Needs :func:`adopt_orphans` and ``/proc``."""
    while children := _children(os.getpid()):
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, _SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _children(parent: int) -> list[int]:
    try:
        with open(f"/proc/self/task/{parent}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel built without this file
        return []
