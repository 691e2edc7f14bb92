/* Least squares with an L1 term along a row of penalties: an active set with a Cholesky factor, exact at every point.
 *
 *     minimise  w'Hw/2 - c'w + l1 |w|_1 + l2/2 |w|^2          H (p, p) symmetric, row by row
 *
 * Each point starts from the one before. Weights move from where they are towards the minimum for the present signs;
 * the first that would change its sign stops the move and leaves. At rest, the columns whose correlation with the
 * residual is above l1 come in. One that depends on the set and is above l1 takes the place of a column of it, along
 * the line on which the fit stays the same. Every move lowers the objective, so no set of signs comes twice.
 *
 * H = R'R holds half the digits of R. Where R is given as well, solutions on the set are corrected by residuals of R
 * (the corrected semi-normal equations: Björck 1987), and correlations are R'(z - R w): as good as a QR of the set's
 * columns while their Gram matrix has a factor at all, at the price of some products.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define DEPENDENT 1e-11 /* share of a column that is left when those in the set are taken away: under this, rounding */
#define CORRECTIONS 6
#define ROUNDING 1e-16
#define ABOVE 1e-9      /* share of l1 by which a column that depends on the set has to be above it: more than rounding */

typedef struct {
    int64_t p, k;    /* columns in all and in the set */
    const double *H; /* (p, p) */
    double *L;       /* (p, p): lower triangle of the set, H_AA + l2 I = L L' */
    const double *Rt, *z; /* (p, p): row j is column j of R, upper triangular; (p,) with c = R'z. Or both NULL */
    double *w, *g, *x; /* weights, correlations c - H w, solution on the set */
    double *turns;     /* (2, p): rotations */
    double *step, *r;  /* correction of x, residual z - R x */
    int64_t *set;
    int8_t *sign, *barred;
} Set;

/* Eight sums at a time: one would wait for each addition before the next. */
static double dot(const double *a, const double *b, int64_t n) {
    double s[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) s[k] += a[i + k] * b[i + k];
    for (; i < n; i++) sum += a[i] * b[i];
    return sum + (((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));
}

/* Row i of the factor, those before it being right; 0 if the column depends on them. */
static int factor_row(Set *s, int64_t i, double l2) {
    int64_t p = s->p, j = s->set[i];
    const double *row = s->H + j * p;
    double *Li = s->L + i * p, left = row[j] + l2;
    for (int64_t a = 0; a < i; a++) {
        const double *La = s->L + a * p;
        Li[a] = (row[s->set[a]] - dot(Li, La, a)) / La[a];
        left -= Li[a] * Li[a];
    }
    if (!(left > DEPENDENT * (row[j] + l2))) return 0;
    Li[i] = sqrt(left);
    return 1;
}

static void leave(Set *s, int64_t i) {
    int64_t j = s->set[i];
    s->sign[j] = 0;
    s->w[j] = 0;
    memmove(s->set + i, s->set + i + 1, (size_t)(s->k - i - 1) * sizeof *s->set);
    s->k--;
}

/* The factor from row `from` on; columns that depend on others leave the set. */
static void factor(Set *s, int64_t from, double l2) {
    for (int64_t i = from; i < s->k;) {
        if (factor_row(s, i, l2)) i++;
        else { s->barred[s->set[i]] = 1; leave(s, i); }
    }
}

/* A column leaves a set with a factor: the rows below move up, and rotations of neighbouring columns make them a
 * triangle again, which is cheaper than those rows anew by the number of columns. */
static void drop(Set *s, int64_t i) {
    int64_t p = s->p;
    double *cosine = s->turns, *sine = s->turns + p;
    leave(s, i);
    for (int64_t r = i; r < s->k; r++) {
        double *row = s->L + r * p;
        memcpy(row, row + p, (size_t)(r + 2) * sizeof *row);
        for (int64_t t = i; t < r; t++) {
            double a = row[t], b = row[t + 1];
            row[t] = cosine[t] * a + sine[t] * b;
            row[t + 1] = cosine[t] * b - sine[t] * a;
        }
        double length = hypot(row[r], row[r + 1]);
        cosine[r] = row[r] / length;
        sine[r] = row[r + 1] / length;
        row[r] = length;
    }
}

static void unbar(Set *s, const int8_t *shut) {
    for (int64_t j = 0; j < s->p; j++) s->barred[j] = shut[j] || !(s->H[j * s->p + j] > 0);
}

/* x = (L L')^-1 x on the set. */
static void by_factor(const Set *s, double *x) {
    int64_t p = s->p;
    for (int64_t i = 0; i < s->k; i++) {
        const double *Li = s->L + i * p;
        x[i] = (x[i] - dot(Li, x, i)) / Li[i];
    }
    for (int64_t i = s->k - 1; i >= 0; i--) {
        const double *Li = s->L + i * p;
        double found = x[i] / Li[i];
        x[i] = found;
        for (int64_t b = 0; b < i; b++) x[b] -= Li[b] * found;
    }
}

/* r = target - R x for weights x of the set's columns; column j of R ends at row j. */
static void residual(const Set *s, const double *target, const double *x) {
    int64_t p = s->p;
    memcpy(s->r, target, (size_t)p * sizeof *target);
    for (int64_t i = 0; i < s->k; i++) {
        int64_t j = s->set[i];
        const double *column = s->Rt + j * p;
        double weight = x[i];
        for (int64_t row = 0; row <= j; row++) s->r[row] -= weight * column[row];
    }
}

/* Steps towards R'(target - R x) = l1 sign + l2 x on the set, as long as each is less than half the one before and the
 * next, which is shorter in the same proportion, would be more than rounding. */
static void correct(Set *s, const double *target, double l1, double l2) {
    double all = 0, last;
    for (int64_t i = 0; i < s->k; i++) all += fabs(s->x[i]);
    last = all;
    for (int round = 0; round < CORRECTIONS; round++) {
        double size = 0;
        residual(s, target, s->x);
        for (int64_t i = 0; i < s->k; i++) {
            int64_t j = s->set[i];
            s->step[i] = dot(s->Rt + j * s->p, s->r, j + 1) - l1 * s->sign[j] - l2 * s->x[i];
        }
        by_factor(s, s->step);
        for (int64_t i = 0; i < s->k; i++) size += fabs(s->step[i]);
        if (!(size < last / 2)) return;
        for (int64_t i = 0; i < s->k; i++) s->x[i] += s->step[i];
        if (size * (size / last) <= ROUNDING * all) return;
        last = size;
    }
}

/* x = (L L')^-1 (c - l1 sign) on the set; exactly with c = R'target. */
static void solve(Set *s, const double *c, const double *target, double l1, double l2) {
    for (int64_t i = 0; i < s->k; i++) s->x[i] = c[s->set[i]] - l1 * s->sign[s->set[i]];
    by_factor(s, s->x);
    if (target) correct(s, target, l1, l2);
}

/* Move to the solution for the present signs, losing the columns whose sign would change on the way. */
static int64_t move(Set *s, const double *c, double l1, double l2, int exactly) {
    int64_t lost = 0;
    for (;;) {
        solve(s, c, exactly ? s->z : NULL, l1, l2);
        double step = 1;
        int64_t first = -1;
        for (int64_t i = 0; i < s->k; i++) {
            double now = s->w[s->set[i]], then = s->x[i];
            if (then * s->sign[s->set[i]] > 0) continue;
            double reach = now == then ? 0 : now / (now - then);
            if (reach < step || first < 0) { step = reach < step ? reach : step; first = i; }
        }
        for (int64_t i = 0; i < s->k; i++) {
            int64_t j = s->set[i];
            s->w[j] = step == 1 && first < 0 ? s->x[i] : s->w[j] + step * (s->x[i] - s->w[j]);
        }
        if (first < 0) return lost;
        drop(s, first);
        lost++;
    }
}

static void correlate(Set *s, const double *c) {
    int64_t p = s->p;
    if (s->Rt) {
        for (int64_t i = 0; i < s->k; i++) s->x[i] = s->w[s->set[i]];
        residual(s, s->z, s->x);
        for (int64_t j = 0; j < p; j++) s->g[j] = dot(s->Rt + j * p, s->r, j + 1);
        return;
    }
    memcpy(s->g, c, (size_t)p * sizeof *c);
    for (int64_t i = 0; i < s->k; i++) {
        const double *row = s->H + s->set[i] * p;
        double w = s->w[s->set[i]];
        for (int64_t j = 0; j < p; j++) s->g[j] -= w * row[j];
    }
}

/* Let in the columns above their bound: the worst one, or (`bold`) all that are at least half as bad. */
static int64_t enter(Set *s, double l1, double slack, double l2, int bold) {
    double worst = slack;
    int64_t at = -1, came = 0;
    for (int64_t j = 0; j < s->p; j++) {
        double over = fabs(s->g[j]) - l1;
        if (!s->sign[j] && !s->barred[j] && over > worst) { worst = over; at = j; }
    }
    if (at < 0) return 0;
    int64_t from = s->k;
    for (int64_t j = 0; j < s->p; j++) {
        double over = fabs(s->g[j]) - l1;
        if (s->sign[j] || s->barred[j] || over <= slack || !(j == at || (bold && over >= worst / 2))) continue;
        s->sign[j] = s->g[j] > 0 ? 1 : -1;
        s->set[s->k++] = j;
        came++;
    }
    factor(s, from, l2);
    return came;
}

/* Columns that depend on the set do not come in by `enter`, but the worst that is above its bound does here what some
 * of the set do, at less cost, until one of those has weight 0. 0 if there is none; -1 if there is and it cannot. */
static int64_t replace(Set *s, double l1, double slack, double l2, const int8_t *shut) {
    double worst = ABOVE * l1 + slack, step = INFINITY, gain = 0;
    int64_t at = -1, first = -1;
    for (int64_t j = 0; j < s->p; j++) {
        double over = fabs(s->g[j]) - l1;
        if (s->barred[j] && !shut[j] && s->H[j * s->p + j] > 0 && over > worst) { worst = over; at = j; }
    }
    if (at < 0) return 0;
    double sign = s->g[at] > 0 ? 1 : -1;
    solve(s, s->H + at * s->p, s->Rt ? s->Rt + at * s->p : NULL, 0, l2); /* x: the column as a sum of those in the set */
    for (int64_t i = 0; i < s->k; i++) {
        double now = s->w[s->set[i]], less = sign * s->x[i];
        gain += less * s->sign[s->set[i]];
        if (less * s->sign[s->set[i]] > 0 && now / less < step) { step = now / less; first = i; }
    }
    if (first < 0 || !(gain > 1) || !isfinite(step)) return -1;
    for (int64_t i = 0; i < s->k; i++) s->w[s->set[i]] -= step * sign * s->x[i];
    drop(s, first);
    unbar(s, shut);
    s->sign[at] = (int8_t)sign;
    s->w[at] = step * sign;
    s->set[s->k++] = at;
    factor(s, s->k - 1, l2);
    return 1;
}

/* W (m, p): the minimum at each of m penalties; W[0] holds a guess. Columns with shut[j] keep weight 0. Returns how
 * many points were settled: m if all. doubles: p * p + 7 p; ints: p; bytes: 2 p of room to work in. */
__attribute__((visibility("default")))
int64_t sparse_path(int64_t p, const double *H, const double *c, const double *Rt, const double *z,
                    const int8_t *shut, int64_t m, const double *l1, const double *l2, double *W, double *doubles,
                    int64_t *ints, int8_t *bytes, int64_t most) {
    double *w = doubles + p * p;
    Set s = {.p = p, .H = H, .Rt = Rt, .z = z, .L = doubles, .w = w, .g = w + p, .x = w + 2 * p, .turns = w + 3 * p,
             .step = w + 5 * p, .r = w + 6 * p, .set = ints, .sign = bytes, .barred = bytes + p};
    double largest = 0, factored = -1; /* the l2 that the factor was made with */
    for (int64_t j = 0; j < p; j++) if (fabs(c[j]) > largest) largest = fabs(c[j]);
    memset(bytes, 0, 2 * (size_t)p);
    for (int64_t j = 0; j < p; j++) {
        double w = W[j];
        s.w[j] = w;
        if (w != 0 && H[j * p + j] > 0 && !shut[j]) { s.sign[j] = w > 0 ? 1 : -1; s.set[s.k++] = j; }
        else s.w[j] = 0;
    }
    for (int64_t point = 0; point < m; point++) {
        double slack = 1e-12 * l1[point] + 1e-15 * largest;
        int64_t steps = 0;
        int bold = 1, settled = 0, exactly = 0; /* corrections are dear: where it rests without them, and from then on */
        unbar(&s, shut);
        if (l2[point] != factored) factor(&s, 0, factored = l2[point]);
        while (steps++ < most) {
            int64_t before = s.k;
            int64_t lost = move(&s, c, l1[point], l2[point], exactly);
            if (lost) unbar(&s, shut); /* what depended on those that left may come in now */
            if (lost > 1 && before) bold = 0; /* too many came at once: one at a time always makes progress */
            correlate(&s, c);
            if (enter(&s, l1[point], slack, l2[point], bold)) continue;
            int64_t replaced = replace(&s, l1[point], slack, l2[point], shut);
            if (replaced <= 0 && Rt && !exactly) { exactly = 1; continue; }
            settled = !replaced;
            if (replaced <= 0) break;
        }
        memcpy(W + point * p, s.w, (size_t)p * sizeof *s.w);
        if (!settled) return point;
    }
    return m;
}
