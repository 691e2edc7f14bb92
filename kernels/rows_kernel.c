/* Products with sparse rows, for gradients of batches: scores of rows, and sums over rows by the columns they touch.
 *
 * Rows are stored one after the other; `starts` counts values before each row and at the end of the last. Sums are taken
 * in the order of the rows, so that they have the same bits whoever asks. What belongs elsewhere: centring, residuals,
 * and what becomes of the sums.
 */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* In four sums: the same bits for any number of threads, of which libraries for dense vectors take several. */
EXPORT double dot_of(int64_t size, const double *a, const double *b) {
    double one = 0, two = 0, three = 0, four = 0;
    int64_t i = 0;
    for (; i + 4 <= size; i += 4)
        one += a[i] * b[i], two += a[i + 1] * b[i + 1], three += a[i + 2] * b[i + 2], four += a[i + 3] * b[i + 3];
    for (; i < size; i++) one += a[i] * b[i];
    return (one + two) + (three + four);
}

/* out_i = sum_j a_ij w_j */
EXPORT void row_scores(
    int64_t rows, const int64_t *starts, const int32_t *indices, const double *values, const double *w, double *out
) {
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t k = starts[i]; k < starts[i + 1]; k++) sum += values[k] * w[indices[k]];
        out[i] = sum;
    }
}

/* sums_j += sum_i r_i a_ij; into all columns */
EXPORT void row_sums(
    int64_t rows, const int64_t *starts, const int32_t *indices, const double *values, const double *r, double *sums
) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = starts[i]; k < starts[i + 1]; k++) sums[indices[k]] += values[k] * r[i];
}

/* The same for the columns that the rows have a value in: their places in the order in which they are met, and the sums
 * there; returns how many. `sums` and `met` (columns,) are 0 before and after. */
EXPORT int64_t touched_sums(
    int64_t rows, const int64_t *starts, const int32_t *indices, const double *values, const double *r, double *sums,
    uint8_t *met, int32_t *places, double *out
) {
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = starts[i]; k < starts[i + 1]; k++) {
            int32_t j = indices[k];
            if (!met[j]) met[j] = 1, places[count++] = j;
            sums[j] += values[k] * r[i];
        }
    for (int64_t k = 0; k < count; k++) {
        int32_t j = places[k];
        out[k] = sums[j];
        sums[j] = 0, met[j] = 0;
    }
    return count;
}
