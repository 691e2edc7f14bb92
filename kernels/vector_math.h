/* e^x and log(1 + x) of eight doubles at once, to about the last digit; for kernels that ask for them row by row.
 *
 * Written in the compiler's own vectors, so that any processor has them: one with wide registers takes one instruction
 * where others take several.
 */
#include <stdint.h>

#define WIDTH 8 /* numbers of a vector */

typedef double Vector __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));
typedef int64_t Integers __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));

#define ALWAYS static inline __attribute__((always_inline))
#define PICK(IF, THEN, ELSE) ((Vector)(((Integers)(THEN) & (IF)) | ((Integers)(ELSE) & ~(IF)))) /* lane by lane */

ALWAYS Vector all(double x) { return (Vector){x, x, x, x, x, x, x, x}; }

ALWAYS Vector larger(Vector x, Vector y) { return PICK(x < y, y, x); } /* NaN where x is */

ALWAYS Vector smaller(Vector x, Vector y) { return PICK(x > y, y, x); }

ALWAYS Vector size_of(Vector x) { return (Vector)((Integers)x & INT64_MAX); }

/* x = k log 2 + r, then Taylor's series of e^r, |r| <= log(2) / 2, and 2^k in two halves, which reaches the smallest and
 * the largest doubles. */
ALWAYS Vector exp_of(Vector x) {
    const double shift = 0x1.8p52; /* what is added to it is rounded to a whole number, which its last bits hold */
    x = smaller(larger(x, all(-746.0)), all(710.0));
    Vector moved = x * 0x1.71547652b82fep0 + shift, k = moved - shift;
    Vector r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    Vector s = all(1.0 / 6227020800);
    s = s * r + 1.0 / 479001600;
    s = s * r + 1.0 / 39916800;
    s = s * r + 1.0 / 3628800;
    s = s * r + 1.0 / 362880;
    s = s * r + 1.0 / 40320;
    s = s * r + 1.0 / 5040;
    s = s * r + 1.0 / 720;
    s = s * r + 1.0 / 120;
    s = s * r + 1.0 / 24;
    s = s * r + 1.0 / 6;
    s = s * r + 1.0 / 2;
    s = 1.0 + (r + r * r * s);
    Integers whole = (Integers)moved - (Integers)all(shift), half = whole >> 1;
    return s * (Vector)((half + 1023) << 52) * (Vector)((whole - half + 1023) << 52);
}

/* Of 0 <= x <= 1: 2 atanh(z) with z = x / (2 + x), which loses no digit where x is small. */
ALWAYS Vector log1p_of(Vector x) {
    Vector z = x / (2.0 + x), w = z * z, s = all(1.0 / 33);
    s = s * w + 1.0 / 31;
    s = s * w + 1.0 / 29;
    s = s * w + 1.0 / 27;
    s = s * w + 1.0 / 25;
    s = s * w + 1.0 / 23;
    s = s * w + 1.0 / 21;
    s = s * w + 1.0 / 19;
    s = s * w + 1.0 / 17;
    s = s * w + 1.0 / 15;
    s = s * w + 1.0 / 13;
    s = s * w + 1.0 / 11;
    s = s * w + 1.0 / 9;
    s = s * w + 1.0 / 7;
    s = s * w + 1.0 / 5;
    s = s * w + 1.0 / 3;
    return 2.0 * (z + z * w * s);
}
