"""Ranks that start ranks: `spawn.py C` has C children started, then C more as two commands in another folder."""
import os
import sys

from mpi4py import MPI


def check(right, what):
    if not right:
        print(f"process {os.getpid()}: wrong {what}", file=sys.stderr)
        MPI.COMM_WORLD.Abort(1)


def reduce_together(between, is_child, parents, children):
    everybody = between.Merge(high=is_child)
    check(everybody.Get_size() == parents + children, "size after merging")
    check((everybody.Get_rank() >= parents) == is_child, "order after merging")
    check(everybody.allreduce(int(is_child)) == children, "sum over parents and children")
    everybody.Free()


def child(parents, command, there, here, folder):
    check(parents.Get_remote_size() == int(there), "number of parents")
    check(MPI.COMM_WORLD.Get_size() == int(here), "number of children")
    check(MPI.COMM_WORLD.Get_attr(MPI.APPNUM) in (None, int(command)), "MPI_APPNUM")
    check(folder in ("-", os.getcwd()), "working folder")
    reduce_together(parents, True, int(there), int(here))
    parents.Disconnect()


def parent(children):
    world, script = MPI.COMM_WORLD, os.path.abspath(__file__)
    size = world.Get_size()

    def arguments(command, folder):
        return [script, "child", str(command), str(size), str(children), folder]

    between = world.Spawn(sys.executable, arguments(0, "-"), maxprocs=children)
    reduce_together(between, False, size, children)
    between.Disconnect()

    elsewhere = MPI.Info.Create()
    elsewhere.Set("wdir", "/")
    between = world.Spawn_multiple(
        [sys.executable] * 2,
        [arguments(0, "/"), arguments(1, "/")],
        [children - children // 2, children // 2],
        [elsewhere] * 2,
    )
    reduce_together(between, False, size, children)
    between.Disconnect()
    if world.Get_rank() == 0:
        print(f"{size} ranks had {children} children, twice")


above = MPI.Comm.Get_parent()
if sys.argv[1] == "child":
    check(above != MPI.COMM_NULL, "parent: there is none")
    child(above, *sys.argv[2:])
else:
    check(above == MPI.COMM_NULL, "parent: nobody spawned this one")
    parent(int(sys.argv[1]))
