/* Messages of several lengths between pairs of ranks, both ways at once: none is lost, changed or out of order.
 *
 *   classes BYTES:COUNT[:BATCH]...     such as: classes 8:1000 65536:100
 *
 * Rank r talks to rank r + size/2, which a launcher puts on another host if there are two. A message has its length, one
 * of three tags, and words that depend on class, sender, number and place. They go in batches, of 16 messages or 8 MiB at most, and of four kinds:
 *   received in the order of arrival, by receives that were posted before anything was sent;
 *   received late, and those of the last tag first;
 *   asked for with MPI_Probe after some time without any call;
 *   one by one, with MPI_Sendrecv.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 16, TAGS = 3, KINDS = 4, BATCH_BYTES = 8 << 20, LATE_US = 20000 };

struct class { int number, bytes, count, batch; };

static int rank, size, partner;
static MPI_Request requests[2 * BATCH];
static MPI_Status statuses[2 * BATCH];

static uint64_t word(const struct class *class, int sender, int message, int at)
{
    return ((uint64_t)message << 32 | (uint64_t)class->number << 24 | (uint64_t)sender << 8) + at * 0x9e3779b97f4a7c15u;
}

static void fill(char *to, const struct class *class, int message)
{
    for (int at = 0; at < class->bytes; at += 8) {
        uint64_t value = word(class, rank, message, at);
        memcpy(to + at, &value, class->bytes - at < 8 ? class->bytes - at : 8);
    }
}

static void wrong(const struct class *class, int message, const char *what, int at)
{
    fprintf(stderr, "rank %d: message %d of %d bytes from rank %d: %s %d\n", rank, message, class->bytes, partner, what, at);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(const char *from, const struct class *class, int message, MPI_Status *status)
{
    int bytes = -1;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if (status->MPI_SOURCE != partner || status->MPI_TAG != message % TAGS)
        wrong(class, message, "the tag is", status->MPI_TAG);
    if (bytes != class->bytes)
        wrong(class, message, "the length is", bytes);
    for (int at = 0; at < class->bytes; at += 8) {
        uint64_t value = word(class, partner, message, at);
        if (memcmp(from + at, &value, class->bytes - at < 8 ? class->bytes - at : 8) != 0)
            wrong(class, message, "another content at byte", at);
    }
}

static void send_batch(char *out, const struct class *class, int first, int count, MPI_Request *to)
{
    for (int i = 0; i < count; i++) {
        char *from = out + (size_t)i * class->bytes;
        fill(from, class, first + i);
        MPI_Isend(from, class->bytes, MPI_BYTE, partner, (first + i) % TAGS, MPI_COMM_WORLD, &to[i]);
    }
}

static void receive_posted(char *out, char *in, const struct class *class, int first, int count)
{
    for (int i = 0; i < count; i++)
        MPI_Irecv(in + (size_t)i * class->bytes, class->bytes, MPI_BYTE, partner, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
    send_batch(out, class, first, count, requests + count);
    MPI_Waitall(2 * count, requests, statuses);
    for (int i = 0; i < count; i++)
        check(in + (size_t)i * class->bytes, class, first + i, &statuses[i]);
}

static void receive_late(char *out, char *in, const struct class *class, int first, int count)
{
    send_batch(out, class, first, count, requests);
    for (int tag = TAGS - 1; tag >= 0; tag--)
        for (int i = 0; i < count; i++) {
            if ((first + i) % TAGS != tag)
                continue;
            MPI_Recv(in, class->bytes, MPI_BYTE, partner, tag, MPI_COMM_WORLD, &statuses[0]);
            check(in, class, first + i, &statuses[0]);
        }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static void receive_probed(char *out, char *in, const struct class *class, int first, int count)
{
    send_batch(out, class, first, count, requests);
    usleep(LATE_US);
    for (int i = 0; i < count; i++) {
        MPI_Probe(partner, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[0]);
        MPI_Recv(in, class->bytes, MPI_BYTE, partner, statuses[0].MPI_TAG, MPI_COMM_WORLD, &statuses[0]);
        check(in, class, first + i, &statuses[0]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static void exchange_each(char *out, char *in, const struct class *class, int first, int count)
{
    for (int i = 0; i < count; i++) {
        fill(out, class, first + i);
        MPI_Sendrecv(out, class->bytes, MPI_BYTE, partner, (first + i) % TAGS, in, class->bytes, MPI_BYTE, partner,
                     MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[0]);
        check(in, class, first + i, &statuses[0]);
    }
}

static void run(const struct class *class)
{
    static void (*const kinds[KINDS])(char *, char *, const struct class *, int, int) = {
        receive_posted, receive_late, receive_probed, exchange_each};
    int batch = BATCH_BYTES / class->bytes, kind = 0;
    batch = batch < 1 ? 1 : batch > class->batch ? class->batch : batch;
    char *out = malloc((size_t)batch * class->bytes), *in = malloc((size_t)batch * class->bytes);
    double start = MPI_Wtime();
    for (int first = 0; first < class->count; first += batch, kind++) {
        int count = class->count - first < batch ? class->count - first : batch;
        kinds[kind % KINDS](out, in, class, first, count);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%8d B: %5d messages each way, nothing lost, nothing reordered, %.1f s\n", class->bytes, class->count,
               MPI_Wtime() - start);
    fflush(stdout);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    partner = (rank + size / 2) % size;
    for (int i = 1; i < argc; i++) {
        struct class class = {.number = i, .batch = BATCH};
        int given = sscanf(argv[i], "%d:%d:%d", &class.bytes, &class.count, &class.batch);
        if (size % 2 != 0 || given < 2 || class.bytes < 8 || class.batch < 1 || class.batch > BATCH) {
            fprintf(stderr, "classes: an even number of ranks, and BYTES:COUNT[:BATCH], not %s\n", argv[i]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        run(&class);
    }
    if (rank == 0)
        printf("classes: ok (%d ranks)\n", size);
    MPI_Finalize();
    return 0;
}
