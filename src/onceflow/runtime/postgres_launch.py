"""A script, not a module: becomes `postgres` or `initdb` under an identity PostgreSQL accepts.

    python -I -S postgres_launch.py IDENTITY OWNER SIGNAL PROGRAM [ARGUMENT ...]

PostgreSQL refuses to run as root. IDENTITY says how to avoid that without an account and without touching
anybody's files: `plain` stays as it is; `userns` enters a user namespace in which our own uid has the number of some
ordinary account, while for everybody outside the files stay ours; `setuid:UID:GID` becomes that user and, if we have
it, keeps the one capability that lets it pass folders such as a 0700 home.

SIGNAL, if not 0, is what the kernel sends to PROGRAM when the thread that spawned it (in process OWNER) ends, in
whatever way. It is set last, because a change of identity clears it. Only Linux has such a signal.

This runs between fork and exec as a process of its own because code in a forked child of a program with threads is
unsafe. It may use the standard library only, and of that as little as possible: it is on the path of every start.
"""

import ctypes
import os
import pwd
import sys

USERNS_REFUSED = 71  # exit status: the kernel or the container forbids user namespaces
CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 8, 47, 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522


def main(identity: str, owner: int, signal: int, command: list[str]) -> None:
    """Take the identity, tie our life to the owner's, become the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    if identity == "userns":
        try:
            enter_user_namespace(libc)
        except OSError as error:
            print(f"user namespace refused: {error}", file=sys.stderr)
            sys.exit(USERNS_REFUSED)
    elif identity.startswith("setuid:"):
        uid, gid = identity.removeprefix("setuid:").split(":")
        become(libc, int(uid), int(gid))
    os.umask(0o077)
    if signal and sys.platform == "linux":
        libc.prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0)
        if os.getppid() != owner:  # it ended before we asked to be told
            sys.exit(1)
    os.execv(command[0], command)


def enter_user_namespace(libc: ctypes.CDLL) -> None:
    """Be an ordinary user in a namespace of our own; raises OSError where that is forbidden."""
    uid, gid = os.geteuid(), os.getegid()
    account = ordinary_account()
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{account.pw_uid} {uid} 1"),
        ("gid_map", f"{account.pw_gid or 1} {gid} 1"),
    ):
        file = os.open(f"/proc/self/{name}", os.O_WRONLY)  # pathlib would double this script's time to start
        os.write(file, line.encode())
        os.close(file)


def ordinary_account() -> pwd.struct_passwd:
    """Some account that is not root: initdb looks up the name of the uid it runs as."""
    accounts = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    return min(accounts, key=lambda entry: entry.pw_uid)


def become(libc: ctypes.CDLL, uid: int, gid: int) -> None:
    """Become another user, on Linux keeping CAP_DAC_OVERRIDE over the exec where we have it."""
    linux = sys.platform == "linux"
    if linux:
        libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if not linux:
        return
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    kept = 1 << CAP_DAC_OVERRIDE
    sets = (ctypes.c_uint32 * 6)(
        kept, kept, kept, 0, 0, 0
    )  # effective, permitted, inheritable, then their upper halves
    if libc.capset(header, sets) == 0:
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
