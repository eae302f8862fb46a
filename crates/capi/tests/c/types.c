/* Datatypes: large ones, arrays, external32, numbers of Fortran, and reductions of the rarer predefined types. */
#include "check.h"
#include <limits.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A description of constant length makes a type of constant size, whatever the counts. */
static void large(void)
{
    MPI_Datatype vector, nested;
    double best = 1;
    for (int attempt = 0; attempt < 20; attempt++) {
        double start = seconds();
        MPI_Type_vector(100000000, 1, 2, MPI_DOUBLE, &vector);
        MPI_Type_commit(&vector);
        if (seconds() - start < best)
            best = seconds() - start;
        if (attempt < 19)
            MPI_Type_free(&vector);
    }
    CHECK(best < 1e-3);
    MPI_Type_vector(1000000, 3, 7, vector, &nested);
    MPI_Count bytes;
    MPI_Type_size_x(nested, &bytes);
    CHECK(bytes == 8LL * 100000000 * 3000000);
    MPI_Type_free(&nested);
    MPI_Type_free(&vector);

    /* Each made of the one before; the last is freed last. */
    MPI_Datatype chain = MPI_INT, next;
    for (int i = 0; i < 200000; i++) {
        MPI_Type_contiguous(1, chain, &next);
        if (i > 0)
            MPI_Type_free(&chain);
        chain = next;
    }
    MPI_Type_commit(&chain);
    int from = 5, to = 0;
    MPI_Sendrecv(&from, 1, chain, 0, 0, &to, 1, chain, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK(to == 5);
    MPI_Type_free(&chain);
}

static void refused(void)
{
    MPI_Datatype type;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Type_create_hvector(3, 1, (MPI_Aint)1 << 62, MPI_INT, &type)) == MPI_ERR_ARG);
    MPI_Aint far = (MPI_Aint)LONG_MAX - 2;
    CHECK(class_of(MPI_Type_create_hindexed_block(1, 1, &far, MPI_INT, &type)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Type_contiguous_c((MPI_Count)1 << 62, MPI_INT, &type)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Type_create_resized(MPI_INT, 8, LONG_MAX, &type)) == MPI_ERR_ARG);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* A part of a cube, sent with gaps and received without. */
static void cube(void)
{
    enum { EDGE = 9 };
    static int all[EDGE][EDGE][EDGE], packed[4 * 5 * 3];
    int sizes[3] = {EDGE, EDGE, EDGE}, part[3] = {4, 5, 3}, start[3] = {2, 1, 6}, i, j, k, n = 0;
    MPI_Datatype type;
    for (i = 0; i < EDGE * EDGE * EDGE; i++)
        (&all[0][0][0])[i] = i;
    MPI_Type_create_subarray(3, sizes, part, start, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(all, 1, type, 0, 0, packed, 60, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    for (i = 0; i < 4; i++)
        for (j = 0; j < 5; j++)
            for (k = 0; k < 3; k++)
                CHECK(packed[n++] == all[i + 2][j + 1][k + 6]);
    MPI_Type_free(&type);
}

/* The shares of all processes of a grid are the whole array, and contents say what was given. */
static void distributed(void)
{
    enum { ROWS = 7, COLUMNS = 10, PROCESSES = 6 };
    int sizes[2] = {ROWS, COLUMNS}, deal[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
    int blocks[2] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 3}, i, p, total = 0;
    int owner[ROWS * COLUMNS];
    memset(owner, -1, sizeof owner);
    for (p = 0; p < PROCESSES; p++) {
        MPI_Datatype type;
        int bytes, mine[ROWS * COLUMNS];
        MPI_Type_create_darray(PROCESSES, p, 2, sizes, deal, blocks, grid, MPI_ORDER_C, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Type_size(type, &bytes);
        total += bytes / 4;
        for (i = 0; i < ROWS * COLUMNS; i++)
            mine[i] = p;
        MPI_Sendrecv(mine, bytes / 4, MPI_INT, 0, 0, owner, 1, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        int counts[4], integers[12];
        MPI_Datatype inner;
        MPI_Type_get_envelope(type, &counts[0], &counts[1], &counts[2], &counts[3]);
        CHECK(counts[0] == 12 && counts[1] == 0 && counts[2] == 1 && counts[3] == MPI_COMBINER_DARRAY);
        MPI_Type_get_contents(type, 12, 0, 1, integers, NULL, &inner);
        int expected[12] = {PROCESSES, p, 2, ROWS, COLUMNS, deal[0], deal[1], 2, blocks[1], 2, 3, MPI_ORDER_C};
        CHECK(memcmp(integers, expected, sizeof expected) == 0 && inner == MPI_INT);
        MPI_Type_free(&type);
    }
    CHECK(total == ROWS * COLUMNS);
    for (i = 0; i < ROWS * COLUMNS; i++)
        CHECK(owner[i] == i / COLUMNS / 2 % 2 * 3 + i % COLUMNS / 4);
}

static void external(void)
{
    struct {
        long number;
        short pair[2];
        double real;
    } in[2] = {{-2, {1, 2}, 1.0}, {7, {3, 4}, -2.0}}, out[2];
    int blocks[3] = {1, 2, 1};
    MPI_Aint places[3] = {0, 8, 16}, bytes, position = 0;
    MPI_Datatype types[3] = {MPI_LONG, MPI_SHORT, MPI_DOUBLE}, type;
    unsigned char packed[32];
    const unsigned char expected[16] = {255, 255, 255, 254, 0, 1, 0, 2, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0};
    MPI_Type_create_struct(3, blocks, places, types, &type);
    MPI_Type_commit(&type);
    MPI_Pack_external_size("external32", 2, type, &bytes);
    CHECK(bytes == 32);
    MPI_Pack_external("external32", in, 2, type, packed, 32, &position);
    CHECK(position == 32 && memcmp(packed, expected, 16) == 0);
    position = 0;
    memset(out, 0, sizeof out);
    MPI_Unpack_external("external32", packed, 32, &position, out, 2, type);
    CHECK(position == 32 && out[1].number == 7 && out[1].pair[1] == 4 && out[1].real == -2.0);
    CHECK(out[0].number == -2 && out[0].pair[0] == 1 && out[0].real == 1.0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Pack_external_size("native", 2, type, &bytes)) == MPI_ERR_ARG);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Type_free(&type);
}

static void fortran(void)
{
    MPI_Datatype one, two;
    int bytes, counts[4], integers[2];
    MPI_Type_create_f90_real(12, MPI_UNDEFINED, &one);
    MPI_Type_create_f90_real(12, MPI_UNDEFINED, &two);
    MPI_Type_size(one, &bytes);
    CHECK(one == two && bytes == 8);
    MPI_Type_get_envelope(one, &counts[0], &counts[1], &counts[2], &counts[3]);
    CHECK(counts[0] == 2 && counts[2] == 0 && counts[3] == MPI_COMBINER_F90_REAL);
    MPI_Type_get_contents(one, 2, 0, 0, integers, NULL, NULL);
    CHECK(integers[0] == 12 && integers[1] == MPI_UNDEFINED);
    MPI_Type_create_f90_integer(5, &one);
    MPI_Type_size(one, &bytes);
    CHECK(bytes == 4);
    MPI_Type_create_f90_complex(30, 30, &one);
    MPI_Type_size(one, &bytes);
    CHECK(bytes == 32);
}

static void elements(void)
{
    int blocks[3] = {1, 1, 1}, count;
    MPI_Aint places[3] = {0, 4, 8};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_INT, MPI_DOUBLE}, type;
    MPI_Status status;
    MPI_Type_create_struct(3, blocks, places, types, &type);
    MPI_Status_set_elements(&status, type, 5);
    MPI_Get_elements(&status, type, &count);
    CHECK(count == 5);
    MPI_Get_count(&status, type, &count);
    CHECK(count == MPI_UNDEFINED);
    MPI_Status_set_elements(&status, type, 6);
    MPI_Get_count(&status, type, &count);
    CHECK(count == 2);
    MPI_Type_free(&type);
}

/* Contents are told as they were given: in integers and addresses, or in large counts. */
static void contents(void)
{
    MPI_Datatype type, inner;
    int combiner, integers[4], n[3];
    MPI_Count counts[4], large[4];
    MPI_Aint addresses[2];
    MPI_Type_create_hvector(3, 2, 40, MPI_INT, &type);
    MPI_Type_get_envelope_c(type, &counts[0], &counts[1], &counts[2], &counts[3], &combiner);
    CHECK(counts[0] == 2 && counts[1] == 1 && counts[2] == 0 && counts[3] == 1);
    MPI_Type_get_contents(type, 2, 1, 1, integers, addresses, &inner);
    CHECK(integers[0] == 3 && integers[1] == 2 && addresses[0] == 40 && inner == MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_create_hvector_c(3, 2, 40, MPI_INT, &type);
    MPI_Type_get_envelope_c(type, &counts[0], &counts[1], &counts[2], &counts[3], &combiner);
    CHECK(counts[0] == 0 && counts[1] == 0 && counts[2] == 3 && counts[3] == 1);
    CHECK(combiner == MPI_COMBINER_HVECTOR);
    MPI_Type_get_contents_c(type, 0, 0, 3, 1, integers, addresses, large, &inner);
    CHECK(large[0] == 3 && large[1] == 2 && large[2] == 40 && inner == MPI_INT);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner)) == MPI_ERR_TYPE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Type_free(&type);
}

/* Against what the compiler computes. */
static void reductions(void)
{
    char letter[2] = {'a', 3}, most[2] = {'b', 1};
    MPI_Reduce_local(letter, most, 2, MPI_CHAR, MPI_MAX);
    CHECK(most[0] == 'b' && most[1] == 3);
#if defined(__SIZEOF_FLOAT128__)
    static __float128 a[1000], b[1000], sum[1000], times[1000];
    unsigned long long state = 88172645463325252ULL;
    int i, j;
    for (i = 0; i < 1000; i++) {
        unsigned long long word[4];
        for (j = 0; j < 4; j++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            word[j] = state;
        }
        /* Exponents so near each other that both operations round; a few far off. */
        word[1] = (word[1] & 0x8000ffffffffffffULL) | (0x3fffULL - word[3] % 200) << 48;
        word[3] = (word[3] & 0x8000ffffffffffffULL) | (i % 50 == 0 ? 0x10ULL : 0x3fffULL - word[2] % 200) << 48;
        memcpy(&a[i], &word[0], 16);
        memcpy(&b[i], &word[2], 16);
        sum[i] = times[i] = b[i];
    }
    MPI_Reduce_local(a, sum, 1000, MPI_REAL16, MPI_SUM);
    MPI_Reduce_local(a, times, 1000, MPI_REAL16, MPI_PROD);
    for (i = 0; i < 1000; i++) {
        CHECK(sum[i] == a[i] + b[i]);
        CHECK(times[i] == a[i] * b[i]);
    }
#endif
#if defined(__FLT16_MAX__)
    static _Float16 half[65536], halves[65536];
    for (i = 0; i < 65536; i++) {
        unsigned short bits = (unsigned short)i, other = (unsigned short)(i * 40503u >> 3);
        memcpy(&half[i], &bits, 2);
        memcpy(&halves[i], &other, 2);
    }
    static _Float16 both[65536];
    memcpy(both, halves, sizeof both);
    MPI_Reduce_local(half, both, 65536, MPI_REAL2, MPI_SUM);
    for (i = 0; i < 65536; i++) {
        _Float16 expected = half[i] + halves[i];
        CHECK(both[i] == expected || (both[i] != both[i] && expected != expected));
    }
#endif
}

#if defined(MPIX_C_FLOAT16)
/* Not of the standard, but of MPICH's header: IEEE's half, and the upper half of a float. */
static void halves(void)
{
    unsigned short a[3] = {0x3c00, 0x4000, 0x7bff}, b[3] = {0x3800, 0xc000, 0x7bff};
    MPI_Reduce_local(a, b, 3, MPIX_C_FLOAT16, MPI_SUM);
    CHECK(b[0] == 0x3e00 && b[1] == 0 && b[2] == 0x7c00); /* 1.5, 0, too much */
    for (int i = 0; i < 1000; i++) {
        /* One more than what has 8 digits: halves are rounded to the even one. */
        unsigned values[2] = {0x3f800000u + ((unsigned)i << 16), 0x3f800000u + ((unsigned)i * 7 % 128 << 16)};
        float x[2], sum;
        memcpy(x, values, sizeof x);
        sum = x[0] + x[1];
        unsigned bits;
        memcpy(&bits, &sum, 4);
        unsigned expected = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        unsigned short left = values[0] >> 16, right = values[1] >> 16;
        MPI_Reduce_local(&left, &right, 1, MPIX_BFLOAT16, MPI_SUM);
        CHECK(right == expected);
    }
    int size, length;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Type_size(MPIX_BFLOAT16, &size);
    MPI_Type_get_name(MPIX_C_FLOAT16, name, &length);
    CHECK(size == 2 && strcmp(name, "MPIX_C_FLOAT16") == 0);
}
#endif

#if defined(MPI_LB)
/* Removed from the standard, but programs have them. */
static void markers(void)
{
    int blocks[3] = {1, 1, 1};
    MPI_Aint places[3] = {-4, 0, 20}, lb, extent;
    MPI_Datatype types[3] = {MPI_LB, MPI_INT, MPI_UB}, type;
    MPI_Type_create_struct(3, blocks, places, types, &type);
    MPI_Type_get_extent(type, &lb, &extent);
    CHECK(lb == -4 && extent == 24);
    MPI_Type_free(&type);
}
#endif

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    large();
    refused();
    cube();
    distributed();
    external();
    fortran();
#if defined(MPIX_C_FLOAT16)
    halves();
#endif
    elements();
    contents();
    reductions();
#if defined(MPI_LB)
    markers();
#endif
    return finish("types");
}
