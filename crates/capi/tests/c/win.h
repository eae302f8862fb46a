/* What the tests of windows need beside check.h: a wrong number is reported beside the right one, bytes have a pattern,
 * and chance has a seed.
 *
 *   win_... [lenient]     leaves out what MPICH 5.0.2 does wrong, so that the rest of a program can be tried with it
 */
#ifndef WIN_H
#define WIN_H

#include "check.h"
#include <stdint.h>

enum { REPORTS_MAX = 20 };

static int lenient;

static inline void begin_windows(int *argc, char ***argv)
{
    lenient = *argc > 1 && strcmp((*argv)[1], "lenient") == 0;
    begin(argc, argv);
}

static inline void report(const char *file, int line, const char *what, long double expected, long double found)
{
    if (failures++ < REPORTS_MAX)
        fprintf(stderr, "rank %d: %s:%d: %s: expected %.20Lg, found %.20Lg\n", rank, file, line, what, expected, found);
}

/* Two numbers are the same. */
#define SAME(found, expected)                                                                    \
    do {                                                                                         \
        long double found_ = (long double)(found), expected_ = (long double)(expected);          \
        if (found_ != expected_)                                                                 \
            report(__FILE__, __LINE__, #found, expected_, found_);                               \
    } while (0)

/* What byte i of a process's data in a round is. */
static inline unsigned char byte_of(int owner, int round, size_t i)
{
    return (unsigned char)(i * 7 + (i >> 8) + (size_t)owner * 31 + (size_t)round * 13);
}

static inline void fill(unsigned char *at, size_t n, int owner, int round)
{
    for (size_t i = 0; i < n; i++)
        at[i] = byte_of(owner, round, i);
}

/* `n` bytes are those of a process in a round; only the first that is wrong is reported. */
#define BYTES(at, n, owner, round) bytes_are(__FILE__, __LINE__, at, n, owner, round)

static inline void bytes_are(const char *file, int line, const unsigned char *at, size_t n, int owner, int round)
{
    char what[80];
    for (size_t i = 0; i < n; i++) {
        if (at[i] == byte_of(owner, round, i))
            continue;
        snprintf(what, sizeof what, "byte %zu of %zu of rank %d in round %d", i, n, owner, round);
        report(file, line, what, byte_of(owner, round, i), at[i]);
        return;
    }
}

static inline unsigned next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

/* A rank at some distance, around the ring. */
static inline int at_distance(int steps)
{
    return (rank + steps % size + size) % size;
}

/* This process's own memory may be read and written in between, whatever the window's memory model. */
static inline void open_own(MPI_Win win)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
}

static inline void close_own(MPI_Win win)
{
    MPI_Win_unlock(rank, win);
}

#endif
