/* Everybody talks to everybody, spawns as many more, and all of them talk to all.
 *
 *   spread        the first rank says how many there were: "talked to all N"
 *
 * To see what connections a spawned job finds that is on the same nodes. */
#include <mpi.h>
#include <stdio.h>

static void talk_to_all(MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int step = 1; step < size; step++) {
        const int to = (rank + step) % size, from = (rank - step + size) % size;
        int got[2] = {-1, -1};
        const int said[2] = {rank, step};
        MPI_Sendrecv(said, 2, MPI_INT, to, step, got, 2, MPI_INT, from, step, comm, MPI_STATUS_IGNORE);
        if (got[0] != from || got[1] != step) {
            printf("rank %d heard of %d, %d instead of %d, %d\n", rank, got[0], got[1], from, step);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv) {
    MPI_Comm parent, others, all;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    talk_to_all(MPI_COMM_WORLD);
    if (parent == MPI_COMM_NULL)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, size, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
    else
        others = parent;
    MPI_Intercomm_merge(others, parent != MPI_COMM_NULL, &all);
    talk_to_all(all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    if (rank == 0) printf("talked to all %d\n", size);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&others);
    MPI_Finalize();
    return 0;
}
