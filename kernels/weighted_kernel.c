/* Sums of rows that count by weights, as Newton steps ask for them: each row is read once, half of a matrix is summed.
 *
 *     square = sum_k h_k u_k u_k'     slope_i = sum_k g_ik u_k     with u = (1, x)
 *
 * What the weights mean is not known here. Rows are copied a tile at a time beside their multiples by h, which then lie
 * in the nearest caches; blocks of the sums stay in registers while a tile is gone through.
 */
#include "vector_math.h"
#include "weighted_tiles.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct {
    const double *X; /* (rows, columns), rows `stride` numbers apart */
    int64_t rows, stride, columns, padded;
    const double *h; /* (rows,) */
    const double *g; /* (slopes, rows) */
    int64_t slopes;
} Rows;

/* A row into its tile: u, h u, and what it adds to the slopes, a vector at a time. */
#define PACK(NAME, TARGET)                                                                                  \
    TARGET static inline void NAME(const Rows *r, int64_t row, double *u, double *hu, double *slope) {      \
        const double *x = r->X + row * r->stride;                                                           \
        double last[WIDTH] = {0};                                                                           \
        int64_t full = r->columns / WIDTH * WIDTH, left = r->columns - full;                                \
        for (int64_t j = 0; j < left; j++) last[j] = x[full + j];                                           \
        last[left] = 1.0;                                                                                   \
        for (int64_t j = 0; j < r->padded; j += WIDTH) {                                                    \
            Vector part = *(const Vector *)(j < full ? x + j : last);                                       \
            *(Vector *)(u + j) = part;                                                                      \
            *(Vector *)(hu + j) = r->h[row] * part;                                                         \
            for (int64_t i = 0; i < r->slopes; i++)                                                         \
                *(Vector *)(slope + i * r->padded + j) += r->g[i * r->rows + row] * part;                   \
        }                                                                                                   \
    }

/* All rows, a tile at a time. */
#define SUMS(NAME, TARGET, PACK_OF, TILES_OF)                                                               \
    TARGET static void NAME(const Rows *r, double *room, double *square, double *slope) {                   \
        int64_t P = r->padded;                                                                              \
        double *u = room, *hu = room + TILE * P;                                                            \
        for (int64_t start = 0; start < r->rows; start += TILE) {                                           \
            int64_t rows = r->rows - start < TILE ? r->rows - start : TILE;                                 \
            for (int64_t k = 0; k < rows; k++) PACK_OF(r, start + k, u + k * P, hu + k * P, slope);         \
            TILES_OF(u, hu, P, rows, square);                                                               \
        }                                                                                                   \
    }

PACK(any_pack, ANY)
SUMS(any, ANY, any_pack, any_tiles)
#if defined(__x86_64__)
PACK(wide_pack, WIDE)
SUMS(wide, WIDE, wide_pack, wide_tiles)
PACK(fused_pack, FUSED)
SUMS(fused, FUSED, fused_pack, fused_tiles)
#endif

typedef void (*Sums)(const Rows *rows, double *room, double *square, double *slope);

static Sums best = any;
#if defined(__x86_64__)
static int has_fused, has_wide;

__attribute__((constructor)) static void prepare(void) {
    __builtin_cpu_init();
    has_fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    has_wide = __builtin_cpu_supports("avx512f") != 0;
    best = has_wide ? wide : has_fused ? fused : any;
}
#endif

/* Into square (padded, padded), its upper half, and slope (slopes, padded), both zero at first; `room` has 2 TILE padded
 * numbers. */
EXPORT void weighted_sums(const Rows *rows, double *room, double *square, double *slope) {
    best(rows, room, square, slope);
}

/* The same for any processor, and for those with registers of four: to prove the others by. */
EXPORT void weighted_sums_anywhere(const Rows *rows, double *room, double *square, double *slope) {
    any(rows, room, square, slope);
}

EXPORT void weighted_sums_fused(const Rows *rows, double *room, double *square, double *slope) {
#if defined(__x86_64__)
    if (has_fused) {
        fused(rows, room, square, slope);
        return;
    }
#endif
    any(rows, room, square, slope);
}
