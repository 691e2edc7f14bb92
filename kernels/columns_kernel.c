/* Coordinate descent over the columns of a sparse matrix: an L1 and an L2 penalty beside squares, X never filled in.
 *
 * X = root (A - 1 offset') inverse with A by columns, as `solve.rows.sparse` has it. Kept up to date is the weighted
 * residual root r = S + W c, of which S changes where a column has values and c is one number. What belongs elsewhere:
 * whether the answer is good enough, which whoever asks finds out from the rows.
 */
#include <math.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define TRIES 20 /* rounds over the columns with a weight between two over all */

typedef struct {
    int64_t columns;
    const int32_t *starts, *indices; /* A by columns */
    const double *values;
    const double *weight;    /* W: of the rows */
    const double *weighted;  /* A'W (columns,) */
    const double *offset, *inverse;
    const double *curvature; /* ||x_j||^2 / n */
    double n, total;         /* total: the sum of W */
    double *S;               /* (rows,) */
    double c, sum;           /* sum: of S */
    double *w;               /* (columns,) */
    int32_t *active;         /* (columns,): those with a weight */
    int64_t budget;          /* values that may be touched */
} Descent;

static inline double soft(double u, double l1) { return u > l1 ? u - l1 : u < -l1 ? u + l1 : 0.0; }

/* Moves one weight to its minimum; returns by how much the fitted values moved, per row. */
static double moved(Descent *d, int64_t j, double l1, double l2) {
    double curvature = d->curvature[j], old = d->w[j], dot = 0;
    int64_t from = d->starts[j], to = d->starts[j + 1];
    d->budget -= to - from + 1;
    for (int64_t i = from; i < to; i++) dot += d->values[i] * d->S[d->indices[i]];
    dot += d->c * d->weighted[j] - d->offset[j] * (d->sum + d->c * d->total);
    double new = soft(dot * d->inverse[j] / d->n + curvature * old, l1) / (curvature + l2);
    if (new == old) return 0;
    double step = (new - old) * d->inverse[j];
    for (int64_t i = from; i < to; i++) d->S[d->indices[i]] -= d->weight[d->indices[i]] * d->values[i] * step;
    d->c += d->offset[j] * step;
    d->sum -= d->weighted[j] * step;
    d->w[j] = new;
    d->budget -= to - from;
    return fabs(new - old) * sqrt(curvature);
}

static double largest(const Descent *d) {
    double most = 0;
    for (int64_t j = 0; j < d->columns; j++) most = fmax(most, fabs(d->w[j]) * sqrt(d->curvature[j]));
    return most;
}

/* Until no weight moves by more than `enough` of the largest one: 1; 0 where the budget was used up before. */
EXPORT int descend(Descent *d, double l1, double l2, double enough) {
    while (d->budget > 0) {
        double most = 0;
        for (int64_t j = 0; j < d->columns; j++)
            if (d->curvature[j] > 0) most = fmax(most, moved(d, j, l1, l2));
        double bound = enough * largest(d);
        if (most <= bound) return 1;
        int64_t count = 0;
        for (int64_t j = 0; j < d->columns; j++)
            if (d->w[j] != 0) d->active[count++] = (int32_t)j;
        for (int64_t try = 0; try < TRIES && most > bound && d->budget > 0; try++) {
            most = 0;
            for (int64_t k = 0; k < count; k++) most = fmax(most, moved(d, d->active[k], l1, l2));
        }
    }
    return 0;
}
