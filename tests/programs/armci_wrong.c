/* Calls that are wrong, one for each name: armci_wrong NAME. The job ends, and says which call of which rank it was. */
#include <armci.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int me, size, value = 0, strides[1] = {8}, count[2] = {8, -1};
    double scale = 1;
    armci_hdl_t handle;
    if (!strcmp(what, "early"))
        ARMCI_Put(&value, &value, 4, 0);
    MPI_Init(&argc, &argv);
    ARMCI_Init();
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void **at = malloc(size * sizeof(void *));
    ARMCI_Malloc(at, 64);
    if (me == 1) {
        memset(&handle, 0x55, sizeof handle);
        if (!strcmp(what, "rank"))
            ARMCI_Put(&value, at[0], 4, size);
        if (!strcmp(what, "negative"))
            ARMCI_Fence(-1);
        if (!strcmp(what, "pointer"))
            ARMCI_Get(&value, at[1], 4, 0);
        if (!strcmp(what, "beyond"))
            ARMCI_Put(&value, (char *)at[0] + 62, 4, 0);
        if (!strcmp(what, "null"))
            ARMCI_Put(NULL, at[0], 4, 0);
        if (!strcmp(what, "handle"))
            ARMCI_Wait(&handle);
        if (!strcmp(what, "count"))
            ARMCI_PutS(&value, strides, at[0], strides, count, 1, 0);
        if (!strcmp(what, "levels"))
            ARMCI_PutS(&value, strides, at[0], strides, count, 9, 0);
        if (!strcmp(what, "datatype"))
            ARMCI_Acc(7, &scale, at[1], at[0], 8, 0);
        if (!strcmp(what, "element"))
            ARMCI_Acc(ARMCI_ACC_DBL, &scale, at[1], at[0], 12, 0);
        if (!strcmp(what, "mutex"))
            ARMCI_Lock(0, 0);
        if (!strcmp(what, "rmw"))
            ARMCI_Rmw(99, &value, at[0], 1, 0);
        if (!strcmp(what, "free"))
            ARMCI_Free((char *)at[1] + 8);
    }
    ARMCI_Barrier();
    if (me == 0)
        printf("nothing was wrong with '%s'\n", what);
    ARMCI_Free(at[me]);
    ARMCI_Finalize();
    MPI_Finalize();
    return 0;
}
