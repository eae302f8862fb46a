/* What Banyan's MPI library counts in this process, for programs that ask while they run.
 *
 * Both functions return MPI_SUCCESS, or an error code that they give to no error handler; then what the pointer
 * points to is left as it was. `banyan run --help-stats` says what each name means.
 *
 *     char name[BANYAN_MAX_STAT_NAME];
 *     unsigned long long value;
 *     for (int i = 0; BANYAN_Stat_name(i, name) == MPI_SUCCESS; i++)
 *         if (BANYAN_Stat(name, &value) == MPI_SUCCESS)
 *             printf("%s %llu\n", name, value);
 */
#ifndef BANYAN_H
#define BANYAN_H

#ifdef __cplusplus
extern "C" {
#endif

/* Room for any name, with the zero behind it. */
#define BANYAN_MAX_STAT_NAME 64

/* The counter of this name, now. Between MPI_Init and MPI_Finalize, from any thread that may call MPI; before and after
 * it is MPI_ERR_OTHER. A name that there is not, or a null pointer, is MPI_ERR_ARG. */
int BANYAN_Stat(const char *name, unsigned long long *value);

/* The name of counter `index`, counted from 0, in room for BANYAN_MAX_STAT_NAME characters. At any time. Where there are
 * no more, it is MPI_ERR_ARG. */
int BANYAN_Stat_name(int index, char *name);

#ifdef __cplusplus
}
#endif

#endif
