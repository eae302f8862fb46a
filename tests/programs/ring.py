"""A ring with mpi4py: pickled objects, buffers and a reduction; every rank checks what it got."""
from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
after, before = (rank + 1) % size, (rank - 1) % size

seen = world.sendrecv({"from": rank, "list": list(range(rank))}, dest=after, source=before)
assert seen == {"from": before, "list": list(range(before))}, seen

out, into = array("d", [rank] * 50_000), array("d", [0] * 50_000)
request = world.Irecv(into, source=before, tag=3)
world.Send(out, dest=after, tag=3)
status = MPI.Status()
request.Wait(status)
assert status.Get_source() == before and status.Get_count(MPI.DOUBLE) == 50_000
assert into == array("d", [before] * 50_000)

assert world.allreduce(rank + 1) == size * (size + 1) // 2
assert world.allgather(rank) == list(range(size))
world.Barrier()
if rank == 0:
    print(f"mpi4py ring of {size} on {MPI.Get_library_version().split(chr(10))[0][:40]}")
