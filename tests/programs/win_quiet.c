/* Rank 1 puts into memory of rank 0 and gets it back, while that does nothing: it looks for a file, which rank 1 makes when
 * it is done. If it were needed for that, both would wait for ever.
 *
 *   win_quiet FILE     windows of the program's memory, created and dynamic, in rows and in blocks
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DOUBLES = 8192, BLOCKS = 64, EACH = 2, STRIDE = 5 };

static int rank;
static double cells[DOUBLES];

/* The kernel lets a process reach the memory of another one, or there is nothing to be tried. */
static int may_reach(long pid, MPI_Aint at)
{
    double value;
    struct iovec here = {&value, sizeof value}, there = {(void *)at, sizeof value};
    return process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0) == sizeof value;
}

static void use(MPI_Win win, MPI_Aint at, MPI_Datatype type, int count, double first)
{
    double out[DOUBLES], in[DOUBLES];
    int doubles = type == MPI_DOUBLE ? count : count * BLOCKS * EACH;
    for (int i = 0; i < doubles; i++) {
        out[i] = first + i;
        in[i] = -1;
    }
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Put(out, doubles, MPI_DOUBLE, 0, at, count, type, win);
    MPI_Win_flush(0, win);
    MPI_Get(in, doubles, MPI_DOUBLE, 0, at, count, type, win);
    MPI_Win_unlock(0, win);
    for (int i = 0; i < doubles; i++) {
        if (in[i] != out[i]) {
            fprintf(stderr, "win_quiet: double %d of %d: expected %g, found %g\n", i, doubles, out[i], in[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Win created, dynamic;
    MPI_Datatype blocks;
    MPI_Aint at[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_vector(BLOCKS, EACH, STRIDE, MPI_DOUBLE, &blocks);
    MPI_Type_commit(&blocks);
    MPI_Win_create(cells, sizeof cells, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &created);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    if (rank == 0)
        MPI_Win_attach(dynamic, cells, sizeof cells);
    MPI_Get_address(cells, &at[0]);
    at[1] = (MPI_Aint)getpid();
    MPI_Bcast(at, 2, MPI_AINT, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        while (access(argv[1], F_OK))
            usleep(1000);
    int may = rank != 1 || may_reach((long)at[1], at[0]);
    if (rank == 1) {
        if (may) {
            use(created, 0, MPI_DOUBLE, 1, 1);
            use(created, 64, MPI_DOUBLE, 4000, 2);
            use(created, 128, blocks, 3, 3);
            use(dynamic, at[0], MPI_DOUBLE, 1, 4);
            use(dynamic, at[0] + 64, MPI_DOUBLE, 4000, 5);
            use(dynamic, at[0] + 128, blocks, 3, 6);
        }
        close(open(argv[1], O_CREAT | O_WRONLY, 0600));
        puts(may ? "win_quiet: ok" : "win_quiet: the kernel does not let one process reach another's memory: not tried");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && cells[16] != 6 && cells[16] != 0) {
        fprintf(stderr, "win_quiet: the last put left %g\n", cells[16]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        MPI_Win_detach(dynamic, cells);
    MPI_Win_free(&dynamic);
    MPI_Win_free(&created);
    MPI_Type_free(&blocks);
    MPI_Finalize();
    return 0;
}
