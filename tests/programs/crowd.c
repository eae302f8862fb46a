/* All ranks but 0 send to rank 0, which computes meanwhile: nothing gets stuck, and what each has sent comes in order.
 *
 *   crowd SECONDS COUNT BYTES...     rank 0 makes no call for so long; each of the others sends COUNT messages of each length
 *
 * For every length there are two rounds: in the first one rank 0 posts its receives before it computes, in the second
 * afterwards. In both it computes once more when it has taken half of them.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TAG = 5 };

static int rank, size, count;
static double seconds;

/* Without any call of MPI, and with little of the processor, which others may need. */
static void compute(void)
{
    usleep((useconds_t)(seconds * 1e6));
}

static void wrong(int source, int at, int seen)
{
    fprintf(stderr, "crowd: message %d of rank %d is wrong: %d\n", at, source, seen);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(const int *message, int words, int source, int at)
{
    for (int i = 0; i < words; i++)
        if (message[i] != source * 100000 + at + i)
            wrong(source, at, message[i]);
}

static void give(int words)
{
    MPI_Request *requests = malloc(count * sizeof *requests);
    int *messages = malloc((size_t)count * words * sizeof *messages);
    for (int at = 0; at < count; at++) {
        int *message = messages + (size_t)at * words;
        for (int i = 0; i < words; i++)
            message[i] = rank * 100000 + at + i;
        MPI_Isend(message, words, MPI_INT, 0, TAG, MPI_COMM_WORLD, &requests[at]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    free(messages);
    free(requests);
}

/* Receives of one sender after the other, posted before. */
static void take_posted(int words)
{
    int all = count * (size - 1);
    MPI_Request *requests = malloc(all * sizeof *requests);
    int *messages = malloc((size_t)all * words * sizeof *messages);
    for (int i = 0; i < all; i++)
        MPI_Irecv(messages + (size_t)i * words, words, MPI_INT, 1 + i / count, TAG, MPI_COMM_WORLD, &requests[i]);
    compute();
    MPI_Waitall(all / 2, requests, MPI_STATUSES_IGNORE);
    compute();
    MPI_Waitall(all - all / 2, requests + all / 2, MPI_STATUSES_IGNORE);
    for (int i = 0; i < all; i++)
        check(messages + (size_t)i * words, words, 1 + i / count, i % count);
    free(messages);
    free(requests);
}

/* Receives of whoever comes, posted when all have sent. */
static void take_late(int words)
{
    int *next = calloc(size, sizeof *next), *message = malloc(words * sizeof *message);
    MPI_Status status;
    compute();
    for (int i = 0; i < count * (size - 1); i++) {
        if (i == count * (size - 1) / 2)
            compute();
        MPI_Recv(message, words, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
        check(message, words, status.MPI_SOURCE, next[status.MPI_SOURCE]++);
    }
    free(message);
    free(next);
}

static void round_of(int bytes, void (*take)(int), const char *how)
{
    double start = MPI_Wtime();
    if (rank == 0)
        take(bytes / sizeof(int));
    else
        give(bytes / sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%8d B from %d ranks, %d each, %s: %.1f s\n", bytes, size - 1, count, how, MPI_Wtime() - start);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    seconds = argc > 1 ? atof(argv[1]) : 1;
    count = argc > 2 ? atoi(argv[2]) : 100;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 3; i < argc; i++) {
        round_of(atoi(argv[i]), take_posted, "received by what was posted");
        round_of(atoi(argv[i]), take_late, "received late");
    }
    if (rank == 0)
        printf("crowd: ok (%d ranks)\n", size);
    MPI_Finalize();
    return 0;
}
