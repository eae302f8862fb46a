/* Two jobs of two launchers that meet: `meet accept FILE [TIMES]` writes its port there, `meet connect FILE [TIMES]` reads
   it. With `dies` behind it, the job that connects is killed in the middle, and the other one goes on. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*s %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void write_port(const char *file, const char *port)
{
    char early[4096];
    snprintf(early, sizeof early, "%s.new", file);
    FILE *f = fopen(early, "w");
    fputs(port, f);
    fclose(f);
    rename(early, file);
}

/* The other job may be started later. */
static void read_port(const char *file, char *port)
{
    FILE *f;
    while (!(f = fopen(file, "r")))
        usleep(1000);
    if (!fgets(port, MPI_MAX_PORT_NAME, f))
        exit(3);
    fclose(f);
}

int main(int argc, char **argv)
{
    int rank, size, accepts = !strcmp(argv[1], "accept"), times = argc > 3 ? atoi(argv[3]) : 1;
    int dies = argc > 4 && !strcmp(argv[4], "dies"), bad = 0;
    char port[MPI_MAX_PORT_NAME] = "";
    long early = 0;
    MPI_Comm inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0 && accepts) {
        MPI_Open_port(MPI_INFO_NULL, port);
        write_port(argv[2], port);
    } else if (rank == 0) {
        read_port(argv[2], port);
    }
    for (int i = 0; i < times; i++) {
        if (accepts)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        int others, mine = rank + i, sum, expected = 0;
        MPI_Comm_remote_size(inter, &others);
        for (int r = 0; r < others; r++)
            expected += r + i;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
        bad += sum != expected;
        for (int r = 0; r < others; r++) {
            int got = -1;
            MPI_Sendrecv(&mine, 1, MPI_INT, r, 5, &got, 1, MPI_INT, r, 5, inter, MPI_STATUS_IGNORE);
            bad += got != r + i;
        }
        if (dies) {
            int never, code;
            /* Who is left hears of it, perhaps while it still leaves the barrier, and goes on without them. */
            MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
            MPI_Barrier(inter);
            if (!accepts && rank == 0)
                raise(SIGKILL);
            code = MPI_Probe(0, 6, inter, MPI_STATUS_IGNORE);
            bad += code == MPI_SUCCESS;
            code = MPI_Recv(&never, 1, MPI_INT, 0, 6, inter, MPI_STATUS_IGNORE);
            bad += code == MPI_SUCCESS;
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Comm_free(&inter);
            break;
        }
        MPI_Comm_disconnect(&inter);
        if (i == times / 10)
            early = resident_kib();
    }
    /* 10,000 meetings leave nothing behind. */
    if (times > 100 && resident_kib() > early + 1024)
        bad++, fprintf(stderr, "rank %d: %ld KiB early, %ld at the end\n", rank, early, resident_kib());
    if (rank == 0 && accepts)
        MPI_Close_port(port);
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("meet %s: %s\n", accepts ? "accept" : "connect", bad ? "FAILED" : "ok");
    MPI_Finalize();
    return bad != 0;
}
