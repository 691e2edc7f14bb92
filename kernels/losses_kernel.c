/* Sums of a loss over rows, as Newton steps ask for them, in one reading of the rows: scores, what the loss is there, its
 * slope, and, where that is asked for, its curvature.
 *
 *     eta = b + (x - centre)'w     value = sum c loss     slope = sum c loss' u     square = sum c loss'' u u'
 *
 * with u = (x - centre, 1) and c what a row counts for. Which losses there are is `Kind`; why they are what they are is
 * in `losses`. Rows that are not `used` have a score and add nothing.
 */
#include "vector_math.h"
#include "weighted_tiles.h"

#define EXPORT __attribute__((visibility("default")))
#define FURTHEST 700.0 /* e^eta is a double up to here; a step that goes beyond is too long, and its value says so */

enum Kind { LOGISTIC, POISSON, GAMMA };

typedef struct {
    const double *X; /* (rows, columns), rows `stride` numbers apart */
    int64_t rows, stride, columns, padded;
    const double *y; /* (rows,), `apart` numbers apart */
    int64_t apart;
    const double *weight, *offset, *beside; /* (rows,) each, or none; `beside`: another slope */
    const uint8_t *used;                    /* (rows,), or none for all */
    const double *coef;                     /* (padded,): w, b, zeros */
    const double *centre;                   /* (padded,), zeros behind the columns; or none */
    int64_t kind, squares;
    double *scores, *means, *values; /* (rows,) each, to be written; or none */
} Rows;

typedef struct {
    double *room;   /* 2 TILE padded numbers */
    double *square; /* (padded, padded), its upper half; zero at first, as all of them */
    double *slope, *beside;
    double value, reach, margin;
} Sums;

typedef struct {
    Vector value, slope, curvature, mean;
} Pieces;

ALWAYS Pieces logistic(Vector y, Vector eta) {
    Vector small = exp_of(-size_of(eta)), share = 1.0 / (1.0 + small);
    Vector p = PICK(eta >= 0.0, share, small * share);
    return (Pieces){log1p_of(small) + larger(eta, all(0.0)) - y * eta, p - y, small * share * share, p};
}

ALWAYS Pieces poisson(Vector y, Vector eta) {
    Vector mean = exp_of(smaller(eta, all(FURTHEST)));
    return (Pieces){mean - y * eta, mean - y, mean, mean};
}

ALWAYS Pieces gamma_of(Vector y, Vector eta) {
    Vector inverse = exp_of(-larger(eta, all(-FURTHEST))), ratio = y * inverse;
    return (Pieces){ratio + eta, 1.0 - ratio, ratio, 1.0 / inverse};
}

ALWAYS double total_of(Vector v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

/* The last vector of a row: what is left of its columns, a one, zeros. Numbers behind the columns are read where there
 * are some, and not used. */
ALWAYS Vector tail_of(const Rows *r, int64_t row, int64_t full) {
    const double *x = r->X + row * r->stride + full;
    const Integers place = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t left = r->columns - full;
    Vector found, one = (Vector)((place == left) & (Integers)all(1.0));
    if (row * r->stride + full + WIDTH <= (r->rows - 1) * r->stride + r->columns) found = *(const Vector *)x;
    else
        for (int64_t j = 0; j < WIDTH; j++) found[j] = j < left ? x[j] : 0.0;
    return (Vector)(((Integers)found & (place < left)) | (Integers)one);
}

/* A row into its tile, and its score. */
ALWAYS double packed(const Rows *r, int64_t row, double *u) {
    const double *x = r->X + row * r->stride;
    int64_t full = r->columns / WIDTH * WIDTH;
    Vector sum = all(0.0);
    for (int64_t j = 0; j <= full; j += WIDTH) {
        Vector part = j < full ? *(const Vector *)(x + j) : tail_of(r, row, full);
        if (r->centre) part -= *(const Vector *)(r->centre + j);
        *(Vector *)(u + j) = part;
        sum += part * *(const Vector *)(r->coef + j);
    }
    return total_of(sum);
}

/* sums += sum_k g_k u_k of a tile, some vectors of it at a time. */
ALWAYS void added(const double *u, const double *g, int64_t P, int64_t rows, double *sums) {
    for (int64_t j = 0; j < P; j += 4 * WIDTH) {
        int64_t left = (P - j) / WIDTH;
        Vector *at = (Vector *)(sums + j), zero = all(0.0);
        Vector a = zero, b = zero, c = zero, d = zero;
        for (int64_t k = 0; k < rows; k++) {
            const Vector *x = (const Vector *)(u + k * P + j);
            a += g[k] * x[0];
            if (left > 1) b += g[k] * x[1];
            if (left > 2) c += g[k] * x[2];
            if (left > 3) d += g[k] * x[3];
        }
        at[0] += a;
        if (left > 1) at[1] += b;
        if (left > 2) at[2] += c;
        if (left > 3) at[3] += d;
    }
}

typedef void (*Tiles)(const double *u, const double *hu, int64_t P, int64_t rows, double *sums);

ALWAYS void summed(const Rows *r, Sums *s, Tiles tiles) {
    int64_t P = r->padded;
    double *u = s->room, *hu = s->room + TILE * P;
    double y[TILE], eta[TILE], count[TILE], g[TILE], h[TILE], beside[TILE], mean[TILE], value[TILE];
    Vector total = all(0.0), reach = all(0.0), margin = all(__builtin_inf());
    for (int64_t start = 0; start < r->rows; start += TILE) {
        int64_t rows = r->rows - start < TILE ? r->rows - start : TILE;
        for (int64_t k = 0; k < TILE; k++) {
            int64_t row = start + k;
            int there = k < rows, counts = there && (!r->used || r->used[row]);
            eta[k] = there ? packed(r, row, u + k * P) + (r->offset ? r->offset[row] : 0.0) : 0.0;
            y[k] = there ? r->y[row * r->apart] : 1.0;
            count[k] = !counts ? 0.0 : r->weight ? r->weight[row] : 1.0;
            beside[k] = counts && r->beside ? r->beside[row] : 0.0;
        }
        for (int64_t k = 0; k < TILE; k += WIDTH) {
            Vector at = *(Vector *)(eta + k), of = *(Vector *)(y + k), c = *(Vector *)(count + k);
            Pieces found = r->kind == LOGISTIC ? logistic(of, at) : r->kind == POISSON ? poisson(of, at) : gamma_of(of, at);
            Integers in = c > 0.0; /* what is not finite elsewhere adds nothing */
            total += PICK(in, c * found.value, all(0.0));
            *(Vector *)(g + k) = PICK(in, c * found.slope, all(0.0));
            *(Vector *)(h + k) = PICK(in, c * found.curvature, all(0.0));
            *(Vector *)(mean + k) = found.mean;
            *(Vector *)(value + k) = found.value;
            reach = larger(PICK(in, size_of(at), all(0.0)), reach);
            margin = smaller(PICK(in, (2.0 * of - 1.0) * at, margin), margin);
        }
        for (int64_t k = 0; k < rows; k++) {
            if (r->scores) r->scores[start + k] = eta[k];
            if (r->means) r->means[start + k] = mean[k];
            if (r->values) r->values[start + k] = value[k];
        }
        added(u, g, P, rows, s->slope);
        if (r->beside) added(u, beside, P, rows, s->beside);
        if (!r->squares) continue;
        for (int64_t k = 0; k < rows; k++)
            for (int64_t j = 0; j < P; j += WIDTH) *(Vector *)(hu + k * P + j) = h[k] * *(Vector *)(u + k * P + j);
        tiles(u, hu, P, rows, s->square);
    }
    s->value = total_of(total), s->reach = 0, s->margin = __builtin_inf();
    for (int i = 0; i < WIDTH; i++) {
        s->reach = s->reach < reach[i] || reach[i] != reach[i] ? reach[i] : s->reach;
        s->margin = margin[i] < s->margin ? margin[i] : s->margin;
    }
}

static void any(const Rows *rows, Sums *sums) { summed(rows, sums, any_tiles); }
static void (*best)(const Rows *rows, Sums *sums) = any;
#if defined(__x86_64__)
WIDE static void wide(const Rows *rows, Sums *sums) { summed(rows, sums, wide_tiles); }
FUSED static void fused(const Rows *rows, Sums *sums) { summed(rows, sums, fused_tiles); }
static int has_fused;

__attribute__((constructor)) static void prepare(void) {
    __builtin_cpu_init();
    has_fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    best = __builtin_cpu_supports("avx512f") ? wide : has_fused ? fused : any;
}
#endif

EXPORT void loss_sums(const Rows *rows, Sums *sums) { best(rows, sums); }

/* The same for any processor, and for those with registers of four: to prove the others by. */
EXPORT void loss_sums_anywhere(const Rows *rows, Sums *sums) { any(rows, sums); }

EXPORT void loss_sums_fused(const Rows *rows, Sums *sums) {
#if defined(__x86_64__)
    if (has_fused) {
        fused(rows, sums);
        return;
    }
#endif
    any(rows, sums);
}
