/* ARMCI, as Banyan has it: memory of other processes, by address. Link with -larmci beside Banyan's MPI library.
 *
 * Pointers of ARMCI_Malloc are the caller's own where memory is mapped (armci_domain_same_id), and otherwise the owner's; each
 * has a meaning only together with its owner. Processes are named by their ranks among all, also in groups. Functions return
 * 0; what is wrong ends the job with a message. Each ARMCI_ function has a second name, PARMCI_, for tools. */
#ifndef BANYAN_ARMCI_H
#define BANYAN_ARMCI_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef long armci_size_t;
typedef int ARMCI_Group;
typedef int armci_domain_t;

/* What is under way; to be initialised before its first use, or all zero. */
typedef struct {
    unsigned long word[4];
} armci_hdl_t;

/* Segments of one length. */
typedef struct {
    void **src_ptr_array;
    void **dst_ptr_array;
    int bytes;
    int ptr_array_len;
} armci_giov_t;

enum ARMCI_Rmw_e {
    ARMCI_SWAP = 10,
    ARMCI_SWAP_LONG = 11,
    ARMCI_FETCH_AND_ADD = 12,
    ARMCI_FETCH_AND_ADD_LONG = 13
};

enum ARMCI_Acc_e {
    ARMCI_ACC_INT = 37,
    ARMCI_ACC_DBL = 38,
    ARMCI_ACC_FLT = 39,
    ARMCI_ACC_CPL = 40,
    ARMCI_ACC_DCP = 41,
    ARMCI_ACC_LNG = 42
};

enum armci_domain_e { ARMCI_DOMAIN_SMP = 0 };

#define ARMCI_MAX_STRIDE_LEVEL 8

/* Start and end. Repeated calls are counted. A process that has not called MPI_Init does so here. Init_mpi_comm and
 * Init_thread_comm are for some processes of the world, whose ranks are meant from there on; Init_mpi_comm returns 1. */
int ARMCI_Init(void);
int ARMCI_Init_args(int *argc, char ***argv);
int ARMCI_Init_mpi_comm(MPI_Comm comm);
int ARMCI_Init_thread(int requested);
int ARMCI_Init_thread_comm(int requested, MPI_Comm comm);
int ARMCI_Initialized(void);
int ARMCI_Finalize(void);
void ARMCI_Cleanup(void);
void ARMCI_Error(const char *message, int code);

/* Memory that all processes, or those of a group, allocate together. */
int ARMCI_Malloc(void **base_ptrs, armci_size_t bytes);
int ARMCI_Free(void *ptr);
int ARMCI_Malloc_group(void **base_ptrs, armci_size_t bytes, ARMCI_Group *group);
int ARMCI_Free_group(void *ptr, ARMCI_Group *group);
int ARMCI_Malloc_memdev(void **base_ptrs, armci_size_t bytes, const char *device);
int ARMCI_Malloc_group_memdev(void **base_ptrs, armci_size_t bytes, ARMCI_Group *group, const char *device);
int ARMCI_Free_memdev(void *ptr);
void *ARMCI_Malloc_local(armci_size_t bytes);
int ARMCI_Free_local(void *ptr);
void ARMCI_Access_begin(void *ptr);
void ARMCI_Access_end(void *ptr);
void ARMCI_Copy(void *src, void *dst, int bytes);

/* Order. A blocking operation is seen by those behind it towards the same process; done there it is after a fence. */
void ARMCI_Barrier(void);
void ARMCI_Fence(int proc);
void ARMCI_AllFence(void);
void ARMCI_GroupFence(ARMCI_Group *group);

/* Bytes in a row, */
int ARMCI_Put(void *src, void *dst, int bytes, int proc);
int ARMCI_Get(void *src, void *dst, int bytes, int proc);
int ARMCI_Acc(int datatype, void *scale, void *src, void *dst, int bytes, int proc);
int ARMCI_Put_flag(void *src, void *dst, int bytes, int *flag, int value, int proc);
/* in rows: count[0] bytes, and count[i] times that at a distance of stride_arr[i - 1] bytes, */
int ARMCI_PutS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int proc);
int ARMCI_GetS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int proc);
int ARMCI_AccS(int datatype, void *scale, void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[],
    int count[], int stride_levels, int proc);
int ARMCI_PutS_flag(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int *flag, int value, int proc);
int ARMCI_PutS_flag_dir(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int *flag, int value, int proc);
/* and in segments. */
int ARMCI_PutV(armci_giov_t *iov, int iov_len, int proc);
int ARMCI_GetV(armci_giov_t *iov, int iov_len, int proc);
int ARMCI_AccV(int datatype, void *scale, armci_giov_t *iov, int iov_len, int proc);

/* The same, to be waited for later: by a handle, or, where that is null, all together. */
int ARMCI_NbPut(void *src, void *dst, int bytes, int proc, armci_hdl_t *handle);
int ARMCI_NbGet(void *src, void *dst, int bytes, int proc, armci_hdl_t *handle);
int ARMCI_NbAcc(int datatype, void *scale, void *src, void *dst, int bytes, int proc, armci_hdl_t *handle);
int ARMCI_NbPutS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int proc, armci_hdl_t *handle);
int ARMCI_NbGetS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int proc, armci_hdl_t *handle);
int ARMCI_NbAccS(int datatype, void *scale, void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[],
    int count[], int stride_levels, int proc, armci_hdl_t *handle);
int ARMCI_NbPutV(armci_giov_t *iov, int iov_len, int proc, armci_hdl_t *handle);
int ARMCI_NbGetV(armci_giov_t *iov, int iov_len, int proc, armci_hdl_t *handle);
int ARMCI_NbAccV(int datatype, void *scale, armci_giov_t *iov, int iov_len, int proc, armci_hdl_t *handle);
void ARMCI_INIT_HANDLE(armci_hdl_t *handle);
void ARMCI_SET_AGGREGATE_HANDLE(armci_hdl_t *handle);
void ARMCI_UNSET_AGGREGATE_HANDLE(armci_hdl_t *handle);
int ARMCI_Wait(armci_hdl_t *handle);
int ARMCI_Test(armci_hdl_t *handle);
int ARMCI_WaitProc(int proc);
int ARMCI_WaitAll(void);

/* Single values. */
int ARMCI_PutValueInt(int src, void *dst, int proc);
int ARMCI_PutValueLong(long src, void *dst, int proc);
int ARMCI_PutValueFloat(float src, void *dst, int proc);
int ARMCI_PutValueDouble(double src, void *dst, int proc);
int ARMCI_NbPutValueInt(int src, void *dst, int proc, armci_hdl_t *handle);
int ARMCI_NbPutValueLong(long src, void *dst, int proc, armci_hdl_t *handle);
int ARMCI_NbPutValueFloat(float src, void *dst, int proc, armci_hdl_t *handle);
int ARMCI_NbPutValueDouble(double src, void *dst, int proc, armci_hdl_t *handle);
int ARMCI_GetValueInt(void *src, int proc);
long ARMCI_GetValueLong(void *src, int proc);
float ARMCI_GetValueFloat(void *src, int proc);
double ARMCI_GetValueDouble(void *src, int proc);
int ARMCI_Rmw(int op, void *ploc, void *prem, int value, int proc);

/* Mutexes are numbered by each process for its own; one set of them at a time. */
int ARMCI_Create_mutexes(int count);
int ARMCI_Destroy_mutexes(void);
void ARMCI_Lock(int mutex, int proc);
void ARMCI_Unlock(int mutex, int proc);

/* Groups. Processes are named by their ranks in the parent, which is the default group. Only members need call. */
void ARMCI_Group_create(int grp_size, int *pid_list, ARMCI_Group *group_out);
void ARMCI_Group_create_child(int grp_size, int *pid_list, ARMCI_Group *group_out, ARMCI_Group *group_parent);
void ARMCI_Group_free(ARMCI_Group *group);
int ARMCI_Group_rank(ARMCI_Group *group, int *rank);
void ARMCI_Group_size(ARMCI_Group *group, int *size);
void ARMCI_Group_set_default(ARMCI_Group *group);
void ARMCI_Group_get_default(ARMCI_Group *group_out);
void ARMCI_Group_get_world(ARMCI_Group *group_out);
int ARMCI_Absolute_id(ARMCI_Group *group, int group_rank);

/* Which processes share memory: those of one domain may store to each other's by the pointers that ARMCI_Malloc gives. */
int ARMCI_Uses_shm(void);
int ARMCI_Uses_shm_grp(ARMCI_Group *group);
int ARMCI_Same_node(int proc);
void ARMCI_Set_shm_limit(unsigned long bytes);
int armci_domain_nprocs(armci_domain_t domain, int id);
int armci_domain_id(armci_domain_t domain, int glob_proc_id);
int armci_domain_glob_proc_id(armci_domain_t domain, int id, int loc_proc_id);
int armci_domain_my_id(armci_domain_t domain);
int armci_domain_count(armci_domain_t domain);
int armci_domain_same_id(armci_domain_t domain, int proc);

/* Notices: one is seen after everything that its sender has begun towards the receiver before. */
int armci_notify(int proc);
int armci_notify_wait(int proc, int *pval);

/* The communicator of a group. */
MPI_Comm armci_group_comm(ARMCI_Group *group);

/* Rows to bytes without gaps, and back. */
void armci_write_strided(void *ptr, int stride_levels, int stride_arr[], int count[], char *buf);
void armci_read_strided(void *ptr, int stride_levels, int stride_arr[], int count[], char *buf);
/* The same by their second names. */
int PARMCI_Init(void);
int PARMCI_Init_args(int *argc, char ***argv);
int PARMCI_Init_mpi_comm(MPI_Comm comm);
int PARMCI_Init_thread(int requested);
int PARMCI_Init_thread_comm(int requested, MPI_Comm comm);
int PARMCI_Initialized(void);
int PARMCI_Finalize(void);
void PARMCI_Cleanup(void);
void PARMCI_Error(const char *message, int code);
int PARMCI_Malloc(void **base_ptrs, armci_size_t bytes);
int PARMCI_Free(void *ptr);
int PARMCI_Malloc_group(void **base_ptrs, armci_size_t bytes, ARMCI_Group *group);
int PARMCI_Free_group(void *ptr, ARMCI_Group *group);
int PARMCI_Malloc_memdev(void **base_ptrs, armci_size_t bytes, const char *device);
int PARMCI_Malloc_group_memdev(void **base_ptrs, armci_size_t bytes, ARMCI_Group *group, const char *device);
int PARMCI_Free_memdev(void *ptr);
void *PARMCI_Malloc_local(armci_size_t bytes);
int PARMCI_Free_local(void *ptr);
void PARMCI_Access_begin(void *ptr);
void PARMCI_Access_end(void *ptr);
void PARMCI_Copy(void *src, void *dst, int bytes);
void PARMCI_Barrier(void);
void PARMCI_Fence(int proc);
void PARMCI_AllFence(void);
void PARMCI_GroupFence(ARMCI_Group *group);
int PARMCI_Put(void *src, void *dst, int bytes, int proc);
int PARMCI_Get(void *src, void *dst, int bytes, int proc);
int PARMCI_Acc(int datatype, void *scale, void *src, void *dst, int bytes, int proc);
int PARMCI_Put_flag(void *src, void *dst, int bytes, int *flag, int value, int proc);
int PARMCI_PutS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int proc);
int PARMCI_GetS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int proc);
int PARMCI_AccS(int datatype, void *scale, void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[],
    int count[], int stride_levels, int proc);
int PARMCI_PutS_flag(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int *flag, int value, int proc);
int PARMCI_PutS_flag_dir(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int *flag, int value, int proc);
int PARMCI_PutV(armci_giov_t *iov, int iov_len, int proc);
int PARMCI_GetV(armci_giov_t *iov, int iov_len, int proc);
int PARMCI_AccV(int datatype, void *scale, armci_giov_t *iov, int iov_len, int proc);
int PARMCI_NbPut(void *src, void *dst, int bytes, int proc, armci_hdl_t *handle);
int PARMCI_NbGet(void *src, void *dst, int bytes, int proc, armci_hdl_t *handle);
int PARMCI_NbAcc(int datatype, void *scale, void *src, void *dst, int bytes, int proc, armci_hdl_t *handle);
int PARMCI_NbPutS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int proc, armci_hdl_t *handle);
int PARMCI_NbGetS(void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[], int count[], int
    stride_levels, int proc, armci_hdl_t *handle);
int PARMCI_NbAccS(int datatype, void *scale, void *src_ptr, int src_stride_arr[], void *dst_ptr, int dst_stride_arr[],
    int count[], int stride_levels, int proc, armci_hdl_t *handle);
int PARMCI_NbPutV(armci_giov_t *iov, int iov_len, int proc, armci_hdl_t *handle);
int PARMCI_NbGetV(armci_giov_t *iov, int iov_len, int proc, armci_hdl_t *handle);
int PARMCI_NbAccV(int datatype, void *scale, armci_giov_t *iov, int iov_len, int proc, armci_hdl_t *handle);
void PARMCI_INIT_HANDLE(armci_hdl_t *handle);
void PARMCI_SET_AGGREGATE_HANDLE(armci_hdl_t *handle);
void PARMCI_UNSET_AGGREGATE_HANDLE(armci_hdl_t *handle);
int PARMCI_Wait(armci_hdl_t *handle);
int PARMCI_Test(armci_hdl_t *handle);
int PARMCI_WaitProc(int proc);
int PARMCI_WaitAll(void);
int PARMCI_PutValueInt(int src, void *dst, int proc);
int PARMCI_PutValueLong(long src, void *dst, int proc);
int PARMCI_PutValueFloat(float src, void *dst, int proc);
int PARMCI_PutValueDouble(double src, void *dst, int proc);
int PARMCI_NbPutValueInt(int src, void *dst, int proc, armci_hdl_t *handle);
int PARMCI_NbPutValueLong(long src, void *dst, int proc, armci_hdl_t *handle);
int PARMCI_NbPutValueFloat(float src, void *dst, int proc, armci_hdl_t *handle);
int PARMCI_NbPutValueDouble(double src, void *dst, int proc, armci_hdl_t *handle);
int PARMCI_GetValueInt(void *src, int proc);
long PARMCI_GetValueLong(void *src, int proc);
float PARMCI_GetValueFloat(void *src, int proc);
double PARMCI_GetValueDouble(void *src, int proc);
int PARMCI_Rmw(int op, void *ploc, void *prem, int value, int proc);
int PARMCI_Create_mutexes(int count);
int PARMCI_Destroy_mutexes(void);
void PARMCI_Lock(int mutex, int proc);
void PARMCI_Unlock(int mutex, int proc);
void PARMCI_Group_create(int grp_size, int *pid_list, ARMCI_Group *group_out);
void PARMCI_Group_create_child(int grp_size, int *pid_list, ARMCI_Group *group_out, ARMCI_Group *group_parent);
void PARMCI_Group_free(ARMCI_Group *group);
int PARMCI_Group_rank(ARMCI_Group *group, int *rank);
void PARMCI_Group_size(ARMCI_Group *group, int *size);
void PARMCI_Group_set_default(ARMCI_Group *group);
void PARMCI_Group_get_default(ARMCI_Group *group_out);
void PARMCI_Group_get_world(ARMCI_Group *group_out);
int PARMCI_Absolute_id(ARMCI_Group *group, int group_rank);
int PARMCI_Uses_shm(void);
int PARMCI_Uses_shm_grp(ARMCI_Group *group);
int PARMCI_Same_node(int proc);
void PARMCI_Set_shm_limit(unsigned long bytes);

#ifdef __cplusplus
}
#endif

#include <message.h>

#endif
