/* The first message to a peer arrives while its sender computes.
 *
 *   leave [SECONDS]
 *
 * Half of the ranks send one message to the others and stay out of the library for some seconds; then they send another.
 * A receiver that got the first one only when the sender came back sees both at nearly the same time. (It may have begun
 * late itself, or have been kept from its core.) First between the
 * two halves of the ranks (other hosts, usually), then between neighbours (the same host); each is a first contact. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 200 };

static int rank, size;
static double seconds = 2;

static void nap(void)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void go_away(int peer)
{
    int words[WORDS];
    for (int i = 0; i < WORDS; i++)
        words[i] = rank + i;
    MPI_Send(words, WORDS, MPI_INT, peer, 1, MPI_COMM_WORLD);
    nap();
    MPI_Send(&rank, 1, MPI_INT, peer, 2, MPI_COMM_WORLD);
}

static void wait_for(int peer, const char *where)
{
    int words[WORDS], back = 0;
    MPI_Recv(words, WORDS, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double first = MPI_Wtime();
    MPI_Recv(&back, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double alone = MPI_Wtime() - first;
    if (words[0] != peer || words[WORDS - 1] != peer + WORDS - 1 || alone < seconds / 10) {
        fprintf(stderr, "rank %d: the message of rank %d (%s) came %.3f s before its sender was back, which was away for %g s\n",
                rank, peer, where, alone, seconds);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        seconds = atof(argv[1]);
    int half = size / 2;
    if (rank < half)
        go_away(rank + half);
    else if (rank < 2 * half)
        wait_for(rank - half, "of the other half");
    if (rank % 2 == 0 && rank + 1 < size)
        go_away(rank + 1);
    else if (rank % 2 == 1)
        wait_for(rank - 1, "next to it");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("leave: messages of %d ranks arrived while their senders were away\n", size);
    MPI_Finalize();
    return 0;
}
