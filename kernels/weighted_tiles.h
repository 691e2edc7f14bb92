/* Sums of products of rows, a tile of them at a time: blocks of the sums stay in registers while a tile is gone through.
 *
 * Rows of a tile are `P` numbers, padded with zeros to whole vectors, beside their multiples by a weight.
 */
#define TILE 32 /* rows */

/* A block of the sums: so many rows, so many vectors wide; both in registers. */
#define BLOCK(NAME, TARGET, ROWS, VECTORS)                                                             \
    TARGET static void NAME(const double *u, const double *hu, int64_t P, int64_t rows, double *sums) { \
        Vector s[ROWS][VECTORS];                                                                       \
        for (int i = 0; i < ROWS; i++)                                                                 \
            for (int v = 0; v < VECTORS; v++) s[i][v] = ((const Vector *)(sums + i * P))[v];           \
        for (int64_t k = 0; k < rows; k++, u += P, hu += P)                                            \
            for (int i = 0; i < ROWS; i++)                                                             \
                for (int v = 0; v < VECTORS; v++) s[i][v] += u[i] * ((const Vector *)hu)[v];           \
        for (int i = 0; i < ROWS; i++)                                                                 \
            for (int v = 0; v < VECTORS; v++) ((Vector *)(sums + i * P))[v] = s[i][v];                 \
    }

/* The upper half of all blocks; what lies below the diagonal inside a block is summed and not used. */
#define TILES(NAME, TARGET, ROWS, ONE, TWO, THREE, MOST)                                                   \
    TARGET static void NAME(const double *u, const double *hu, int64_t P, int64_t rows, double *sums) { \
        for (int64_t i = 0; i < P; i += ROWS)                                                          \
            for (int64_t j = i / WIDTH * WIDTH; j < P;) {                                              \
                int64_t left = (P - j) / WIDTH;                                                        \
                double *at = sums + i * P + j;                                                         \
                int64_t taken = left < MOST ? left : MOST;                                             \
                if (taken == 3) THREE(u + i, hu + j, P, rows, at);                                     \
                else if (taken == 2) TWO(u + i, hu + j, P, rows, at);                                  \
                else ONE(u + i, hu + j, P, rows, at);                                                  \
                j += taken * WIDTH;                                                                    \
            }                                                                                          \
    }

#define ANY
BLOCK(any_one, ANY, 4, 1)
TILES(any_tiles, ANY, 4, any_one, any_one, any_one, 1)
#if defined(__x86_64__)
#define WIDE __attribute__((target("avx512f")))
BLOCK(wide_one, WIDE, 8, 1)
BLOCK(wide_two, WIDE, 8, 2)
BLOCK(wide_three, WIDE, 8, 3)
TILES(wide_tiles, WIDE, 8, wide_one, wide_two, wide_three, 3)
#define FUSED __attribute__((target("avx2,fma")))
BLOCK(fused_one, FUSED, 4, 1)
TILES(fused_tiles, FUSED, 4, fused_one, fused_one, fused_one, 1)
#endif
