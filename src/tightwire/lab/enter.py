"""Enter a namespace, then become the command: what stands between `Lab.start` and the process it starts.

Run as a script, by path, in a bare interpreter (15 ms)::

    python -I -S enter.py NAMESPACE PARENT_PID COMMAND…

1. Ask the kernel to kill this process when the lab's process dies, however it dies; 2. look whether it is already dead;
3. enter the namespace; 4. become the command, so that its pid is the one the lab knows. A function between fork and
exec would do the same, but Python code there can deadlock in a process that has threads, and torch has many.
"""

import ctypes
import os
import signal
import sys

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_CANNOT_START = 127  # a shell's status for a command that is not there


def enter(path: str) -> None:
    """Move the calling thread, and what it starts from now on, into the namespace at ``path``."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        check(libc().setns(handle, _CLONE_NEWNET), path)
    finally:
        os.close(handle)


def leave_network() -> None:
    """Move the calling thread into a new, empty network namespace without a name."""
    check(libc().unshare(_CLONE_NEWNET), "a new network namespace")


def libc() -> ctypes.CDLL:
    """The C library, with errno kept."""
    return ctypes.CDLL(None, use_errno=True)


def check(status: int, about: str) -> None:
    """Raise what errno says."""
    if status != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), about)


def _main(namespace: str, parent: str, *command: str) -> None:
    check(libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
    if os.getppid() != int(parent):
        return
    try:
        enter(namespace)
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(_say(command[0], error))


def _say(command: str, error: OSError) -> int:
    print(f"tightwire lab: cannot start {command}: {error.strerror}: {error.filename}", file=sys.stderr)
    return _CANNOT_START


if __name__ == "__main__":
    _main(*sys.argv[1:])
