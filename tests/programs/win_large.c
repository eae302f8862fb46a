/* Large pieces of memory, which others change as soon as they may: what is read under a lock, or in an access that is completed, is of
 * one moment. And what waits for a lock does not lie with the target.
 *
 *   win_large   wants 3 ranks or more, the last of them on another node than the first; prints "win_large: ok"
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 16 << 20, ROUNDS = 10 }; /* more than sockets hold */
enum { ROWS = 4096, ROW = 4096, MOST_HELD = 8 << 20 };

static int rank, size, wrong;
static unsigned char *memory, *local;
static MPI_Win win;

/* All of it is of one round. */
static void is_whole(const unsigned char *at, const char *what) {
    for (int i = 1; i < BYTES; i++) {
        if (at[i] == at[0]) continue;
        fprintf(stderr, "win_large: rank %d: %s: byte %d is of round %d, the first of %d\n", rank, what, i, at[i], at[0]);
        wrong++;
        return;
    }
}

static void read_under_locks(void) {
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Get(local, BYTES, MPI_BYTE, 0, 0, BYTES, MPI_BYTE, win);
        MPI_Win_unlock(0, win);
        is_whole(local, "what was read under a lock");
    }
}

/* The second rank shares the memory of the first, and changes it as often as it has the lock, until all others have read. */
static void under_locks(void) {
    MPI_Request over;
    int is_over = 0;
    if (rank > 1) read_under_locks();
    MPI_Ibarrier(MPI_COMM_WORLD, &over);
    for (int round = 0; rank == 1 && !is_over; round++) {
        memset(local, round, BYTES);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(local, BYTES, MPI_BYTE, 0, 0, BYTES, MPI_BYTE, win);
        MPI_Win_unlock(0, win);
        MPI_Test(&over, &is_over, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&over, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD); /* the second rank has changed it for the last time */
}

/* The target changes its memory when the last rank says that its access is over. */
static void in_general_epochs(void) {
    MPI_Group world, first, last;
    int zero = 0, end = size - 1;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &zero, &first);
    MPI_Group_incl(world, 1, &end, &last);
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            memset(memory, round, BYTES);
            MPI_Win_post(last, 0, win);
            MPI_Win_wait(win);
        } else if (rank == end) {
            MPI_Win_start(first, 0, win);
            MPI_Get(local, BYTES, MPI_BYTE, 0, 0, BYTES, MPI_BYTE, win);
            MPI_Win_complete(win);
            is_whole(local, "what was read before an access was completed");
        }
    }
    MPI_Group_free(&first);
    MPI_Group_free(&last);
    MPI_Group_free(&world);
    MPI_Barrier(MPI_COMM_WORLD);
}

static long resident_bytes(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* Others put rows of memory that the first rank has locked. It looks for messages for as long as these would need. */
static void hold(void) {
    long before = resident_bytes();
    int flag;
    MPI_Barrier(MPI_COMM_WORLD);
    for (double end = MPI_Wtime() + 0.5; MPI_Wtime() < end;)
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    long more = resident_bytes() - before;
    if (more > MOST_HELD) {
        fprintf(stderr, "win_large: what waits for a lock takes %ld bytes of its target\n", more);
        wrong++;
    }
}

static void put_rows(MPI_Win rows) {
    unsigned char *own = malloc((size_t)ROWS * ROW);
    MPI_Datatype type;
    memset(own, rank, (size_t)ROWS * ROW);
    MPI_Type_vector(ROWS, ROW, 2 * ROW, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, rows);
    MPI_Put(own, ROWS * ROW, MPI_BYTE, 0, 0, 1, type, rows);
    MPI_Win_unlock(0, rows);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, rows);
    MPI_Get(own, ROWS * ROW, MPI_BYTE, 0, 0, 1, type, rows);
    MPI_Win_unlock(0, rows);
    for (int i = 1; i < ROWS * ROW; i++)
        if (own[i] != own[0] || own[i] == 0 || own[i] >= size) {
            fprintf(stderr, "win_large: rank %d: byte %d of the rows is of rank %d, the first of %d\n", rank, i, own[i], own[0]);
            wrong++;
            break;
        }
    MPI_Type_free(&type);
    free(own);
}

static void behind_a_lock(void) {
    unsigned char *own;
    MPI_Win rows;
    MPI_Win_allocate(rank == 0 ? 2L * ROWS * ROW : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &rows);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, rows);
        hold();
        MPI_Win_unlock(0, rows);
    } else {
        put_rows(rows);
    }
    MPI_Win_free(&rows);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    local = malloc(BYTES);
    MPI_Win_allocate(rank == 0 ? BYTES : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (rank == 0) memset(memory, 0, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    under_locks();
    in_general_epochs();
    behind_a_lock();
    int all;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0) printf("win_large: ok\n");
    MPI_Win_free(&win);
    free(local);
    MPI_Finalize();
    return all != 0;
}
