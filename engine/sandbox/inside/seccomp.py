"""A filter of the system calls of a program: a classic BPF program that ``prctl`` installs.

The filter is a list of refused calls; all others are allowed. On the levels with namespaces it adds to
the other restrictions. On the level ``rlimits`` it is the only protection against starting processes, sending signals
to them, slowing them down, and changing files. On every level it refuses the calls by which a program could kill itself
with SIGKILL, so that such an end always comes from outside, and those in which it could wait for as long as it likes
without being interruptible (state D), which looks like a machine that is short of memory.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_FILTER_MODE = 2
_CLONE_THREAD, _CLONE_VFORK = 0x00010000, 0x00004000
_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22  # the strict mode ends a process with SIGKILL
_SIGABRT = 6
_OWNER_COMMANDS = (8, 10, 15, 1024, 1026)  # fcntl: F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY
_LOCK_COMMANDS = (6, 7, 37, 38)  # fcntl: F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
_SET_FLAGS, _ASYNCHRONOUS = 4, 0x2000  # fcntl: F_SETFL, O_ASYNC
_OWNER_REQUESTS = (0x8901, 0x8902, 0x5452)  # ioctl: FIOSETOWN, SIOCSPGRP, FIOASYNC
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_FIRST_UNKNOWN = 463
"""The number of the first call that is newer than this list. It and all others from there, which on x86_64 include the
calls of x32, seem not to exist: a newer kernel offers no way around the list."""

_Calls = dict[str, tuple[int | None, int | None]]
"""Name -> numbers on x86_64 and aarch64; None if the architecture does not have the call."""

_RESTRICTED: _Calls = {
    "clone": (56, 220), "clone3": (435, 435), "prctl": (157, 167), "prlimit64": (302, 261), "setrlimit": (160, 164),
    "tgkill": (234, 131), "openat": (257, 56), "open": (2, None), "fcntl": (72, 25), "ioctl": (16, 29),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "flock": (73, 32),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}  # fmt: skip

_REFUSED: _Calls = {
    # processes and signals
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "timer_create": (222, 107), "seccomp": (317, 277),
    # memory of other processes, and debugging
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "kcmp": (312, 272), "perf_event_open": (298, 241), "bpf": (321, 280),
    "userfaultfd": (323, 282),
    # the network
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "accept4": (288, 242),
    # namespaces, mounts and root directories
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsmount": (432, 432), "mount_setattr": (442, 442), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # objects that outlive the process or that no resource limit covers
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191),
    "semop": (65, 193), "semtimedop": (220, 192), "msgget": (68, 186), "msgctl": (71, 187), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "mq_open": (240, 180), "mq_unlink": (241, 181), "io_setup": (206, 0),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "mlock": (149, 228), "mlock2": (325, 284), "mlockall": (151, 230),
    # uninterruptible waits
    "membarrier": (324, 283), "sync": (162, 81), "syncfs": (306, 267),
    # configuration of the machine
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "syslog": (103, 116), "acct": (163, 89),
    "quotactl": (179, 60), "personality": (135, 92), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
}  # fmt: skip

_CHANGES_FILES: _Calls = {
    "creat": (85, None), "openat2": (437, 437), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47),
    "unlink": (87, None), "unlinkat": (263, 35), "rmdir": (84, None), "mkdir": (83, None), "mkdirat": (258, 34),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "link": (86, None), "linkat": (265, 37),
    "symlink": (88, None), "symlinkat": (266, 36), "mknod": (133, None), "mknodat": (259, 33), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None), "lchown": (94, None),
    "fchown": (93, 55), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None), "utimensat": (280, 88),
    "futimesat": (261, None), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def supported() -> bool:
    """Whether the system-call numbers of this architecture are known."""
    return os.uname().machine in _MACHINES


def require() -> None:
    """Raise ``OSError`` if filters are not supported, for the level that depends on them."""
    if not supported():
        raise OSError(errno.ENOSYS, f"no system-call filter for {os.uname().machine}")


def install(*, read_only: bool, executes: bool) -> None:
    """Install the filter for this thread and the threads it starts. It cannot be removed.

    Args:
        read_only: also refuse to create, change or remove files.
        executes: allow ``execve``. Starting processes stays refused, so the process can only become another one.

    Raises:
        OSError: the kernel does not support filters.
    """
    program = _program(os.uname().machine, read_only, executes)
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    if libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.c_char_p(header), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no system-call filter")


def _program(machine: str, read_only: bool, executes: bool) -> bytes:
    column, arch = _MACHINES[machine]
    calls = _RESTRICTED | _REFUSED | _CHANGES_FILES

    def when(name: str, *then: bytes) -> list[bytes]:
        """Instructions that run for a call. They must return: they may overwrite the accumulator."""
        number = calls[name][column]
        return [] if number is None else [_do(_EQUAL, number, 0, len(then)), *then]

    lines = [_do(_LOAD, _ARCH), _do(_EQUAL, arch, 1, 0), _do(_RETURN, _KILL), _do(_LOAD, _NUMBER)]
    lines += [_do(_AT_LEAST, _FIRST_UNKNOWN, 0, 1), _NOT_THERE]
    # Without clone3, glibc uses clone, whose flags a filter can read.
    lines += when("clone3", _NOT_THERE)
    # CLONE_VFORK makes the caller wait, in state D, for the end of the new thread.
    lines += when("clone", *_thread_only())
    lines += when("tgkill", *_unless_equal(2, _SIGABRT))
    lines += when("prctl", *_if_any(0, (_PR_SET_PDEATHSIG, _PR_SET_SECCOMP)))
    # A descriptor's signals go to any process of this user, and can be any signal.
    lines += when("fcntl", *_fcntl(_OWNER_COMMANDS + (_LOCK_COMMANDS if read_only else ())))
    lines += when("ioctl", *_if_any(1, _OWNER_REQUESTS))
    # Priorities, schedulers and cores can be changed for this process only, which is number 0.
    lines += when("setpriority", *_go_on_if(0, 0), *_unless_equal(1, 0))
    lines += when("ioprio_set", *_go_on_if(0, 1), *_unless_equal(1, 0))
    for name in ("sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"):
        lines += when(name, *_unless_equal(0, 0))
    # Changing a limit has no effect but reports success, so that programs that set their own limits still run.
    lines += when("setrlimit", _WITHOUT_EFFECT)
    lines += when("prlimit64", *_unless_null(2))
    for name in (*_REFUSED, *(_CHANGES_FILES if read_only else ())):
        if not (executes and name == "execve"):
            lines += when(name, _REFUSE)
    if read_only:  # a lock on a file that other processes use would make them wait
        lines += when("flock", _REFUSE)
        lines += when("openat", *_if_bit(2, _WRITING))
        lines += when("open", *_if_bit(1, _WRITING))
    lines.append(_PERMIT)
    return b"".join(lines)


def _do(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One BPF instruction; the last two arguments are relative jump targets."""
    return struct.pack("<HBBI", code, if_true, if_false, value)


_REFUSE, _PERMIT = _do(_RETURN, _ERRNO | errno.EPERM), _do(_RETURN, _ALLOW)
_NOT_THERE = _do(_RETURN, _ERRNO | errno.ENOSYS)
_WITHOUT_EFFECT = _do(_RETURN, _ERRNO)
"""Success is reported, and the call is not made."""


def _low(argument: int) -> bytes:
    return _do(_LOAD, _ARGUMENT + 8 * argument)


def _thread_only() -> list[bytes]:
    """Allow ``clone`` for a thread for which the caller does not wait."""
    refuse_vfork = [_do(_ANY_BIT, _CLONE_VFORK, 0, 1), _REFUSE]
    return [_low(0), *refuse_vfork, _do(_ANY_BIT, _CLONE_THREAD, 1, 0), _REFUSE, _PERMIT]


def _if_bit(argument: int, bit: int) -> list[bytes]:
    return [_low(argument), _do(_ANY_BIT, bit, 0, 1), _REFUSE, _PERMIT]


def _unless_equal(argument: int, value: int) -> list[bytes]:
    return [_low(argument), _do(_EQUAL, value, 1, 0), _REFUSE, _PERMIT]


def _refuse_any(values: Sequence[int]) -> list[bytes]:
    """Refuse the call if the loaded argument has one of these values; else go on."""
    return [line for value in values for line in (_do(_EQUAL, value, 0, 1), _REFUSE)]


def _if_any(argument: int, values: Sequence[int]) -> list[bytes]:
    return [_low(argument), *_refuse_any(values), _PERMIT]


def _go_on_if(argument: int, value: int) -> list[bytes]:
    """Refuse the call unless the argument has this value."""
    return [_low(argument), _do(_EQUAL, value, 1, 0), _REFUSE]


def _fcntl(commands: Sequence[int]) -> list[bytes]:
    flags = [_low(2), _do(_ANY_BIT, _ASYNCHRONOUS, 0, 1), _REFUSE, _PERMIT]
    return [_low(1), *_refuse_any(commands), _do(_EQUAL, _SET_FLAGS, 1, 0), _PERMIT, *flags]


def _unless_null(argument: int) -> list[bytes]:
    """Allow the call if the argument is a null pointer; else report success without making it."""
    return [
        _low(argument), _do(_EQUAL, 0, 0, 2), _do(_LOAD, _ARGUMENT + 8 * argument + 4), _do(_EQUAL, 0, 1, 0),
        _WITHOUT_EFFECT, _PERMIT,
    ]  # fmt: skip
