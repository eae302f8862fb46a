/* One process that spawns many, one after the other: `brood TIMES [PROCESSES]`. What they leave behind is looked for in this
   process and in those above it: the agent that started it, the warden, and the launcher. PROCESSES says in how many of
   them: those of other launchers are not ours. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { GENERATIONS = 4, GROWTH_KIB_MAX = 512 };

static long resident_kib(int pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int parent_of(int pid)
{
    char path[64], line[256];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "PPid: %d", &parent) == 1)
            break;
    if (file)
        fclose(file);
    return parent;
}

int main(int argc, char **argv)
{
    static const char *names[GENERATIONS] = {"the program", "the agent", "the warden", "the launcher"};
    int pids[GENERATIONS] = {getpid()}, times = argc > 1 ? atoi(argv[1]) : 0, bad = 0;
    int looked_at = argc > 2 && atoi(argv[2]) < GENERATIONS ? atoi(argv[2]) : GENERATIONS;
    long early[GENERATIONS] = {0};
    char self[4096];
    MPI_Comm parents, children;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL) {
        MPI_Barrier(parents);
        MPI_Comm_disconnect(&parents);
        return MPI_Finalize();
    }
    if (!realpath(argv[0], self))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 1; i < GENERATIONS; i++)
        pids[i] = parent_of(pids[i - 1]);
    for (int i = 0; i < times; i++) {
        MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
        MPI_Barrier(children);
        MPI_Comm_disconnect(&children);
        for (int j = 0; j < GENERATIONS && i == times / 10; j++)
            early[j] = resident_kib(pids[j]);
    }
    for (int i = 0; i < looked_at; i++) {
        long late = resident_kib(pids[i]);
        printf("%s: %ld KiB early, %ld at the end\n", names[i], early[i], late);
        bad += !early[i] || late > early[i] + GROWTH_KIB_MAX;
    }
    printf("%d spawns: %s\n", times, bad ? "FAILED" : "ok");
    MPI_Finalize();
    return bad != 0;
}
