/* Everybody contacts a rank that is outside the library for a while.
 *
 *   asleep [SECONDS [poll]]
 *
 * Rank 0 sleeps, then takes a message from each, in any order, and answers it. With `poll` the others never wait inside
 * the library: they only test and probe, and do something else in between. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size;

static void nap(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void check(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "rank %d of %d: %s\n", rank, size, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void serve(double seconds)
{
    char *heard = calloc((size_t)size, 1);
    nap(seconds);
    for (int i = 1; i < size; i++) {
        int value = 0;
        MPI_Status status;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        check(value == 3 * status.MPI_SOURCE && !heard[status.MPI_SOURCE], "a message is wrong or came twice");
        heard[status.MPI_SOURCE] = 1;
        value++;
        MPI_Send(&value, 1, MPI_INT, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
    }
    free(heard);
    printf("asleep: %d ranks were heard after %g s\n", size - 1, seconds);
}

static void contact(void)
{
    int value = 3 * rank, answer = 0;
    MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Recv(&answer, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(answer == value + 1, "the answer is wrong");
}

static void contact_polling(void)
{
    int value = 3 * rank, answer = 0, sent = 0, there = 0;
    MPI_Request request;
    MPI_Isend(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
    for (; !sent; nap(0.002))
        MPI_Test(&request, &sent, MPI_STATUS_IGNORE);
    for (; !there; nap(0.002))
        MPI_Iprobe(0, 2, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    MPI_Recv(&answer, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(answer == value + 1, "the answer is wrong");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        serve(argc > 1 ? atof(argv[1]) : 3);
    else if (argc > 2 && strcmp(argv[2], "poll") == 0)
        contact_polling();
    else
        contact();
    MPI_Finalize();
    return 0;
}
