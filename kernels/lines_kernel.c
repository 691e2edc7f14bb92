/* Writes predictions as lines of CSV: the number of the row, and doubles with as few digits as tell them from all others.
 *
 * What belongs elsewhere: what is predicted, and which columns of the file stand beside it. The text of a double is
 * that of Python's repr, to the byte.
 */
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define LEAST (-292) /* the power of ten that the table begins with */

typedef struct {
    int64_t first;            /* number of the first row */
    int64_t bounded;          /* whether `p - width` and `p + width` are written as well */
    double width;
    const uint8_t *no, *yes;  /* the classes of a yes/no target as fields of CSV; NULL where numbers are predicted */
    int64_t no_length, yes_length;
    double threshold;         /* the probability from which on the class is `yes` */
    const uint8_t *both;      /* the set of both classes; NULL where no sets are written */
    int64_t both_length;
    double usual;             /* the probability of the likelier class up to which a set has both */
    const uint64_t *powers;   /* (high, low) of 10^k for k = -292 .. 324: 128 leading bits, rounded up */
} Lines;

/* ---------------------------------------------------------------- the shortest decimal */

static uint64_t scaled(const uint64_t *power, uint64_t c) { /* power * c, its last bit set if anything was cut off */
    unsigned __int128 low = (unsigned __int128)power[1] * c, high = (unsigned __int128)power[0] * c;
    high += low >> 64;
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/* Giulietti's Schubfach ("The Schubfach way to render doubles", 2021): of the decimals that round to the double of these
 * bits, the shortest, and of those the nearest: *digits * 10^(the answer). Not for 0, infinity and NaN. */
static int shortest(const uint64_t *powers, uint64_t bits, uint64_t *digits) {
    uint64_t fraction = bits & ((1ULL << 52) - 1);
    int exponent = (int)(bits >> 52) & 2047, q = exponent ? exponent - 1075 : -1074;
    uint64_t c = exponent ? fraction | 1ULL << 52 : fraction;
    if (q <= 0 && q > -53 && (c & ((1ULL << -q) - 1)) == 0) return *digits = c >> -q, 0; /* a whole number */
    int narrow = fraction == 0 && exponent > 1, odd = c & 1; /* the double below is nearer than that above */
    int k = (q * 1262611 - (narrow ? 524031 : 0)) >> 22;
    int h = q + ((-k * 1741647) >> 19) + 1;
    const uint64_t *power = powers + 2 * (-k - LEAST);
    uint64_t lower = scaled(power, (4 * c - 2 + (uint64_t)narrow) << h) + (uint64_t)odd;
    uint64_t here = scaled(power, (4 * c) << h), upper = scaled(power, (4 * c + 2) << h) - (uint64_t)odd;
    uint64_t s = here / 4, tens = s / 10;
    if (s >= 10) {
        int below = lower <= 40 * tens, above = 40 * tens + 40 <= upper;
        if (below != above) return *digits = tens + (uint64_t)above, k + 1;
    }
    int below = lower <= 4 * s, above = 4 * s + 4 <= upper;
    if (below != above) return *digits = s + (uint64_t)above, k;
    *digits = s + (here > 4 * s + 2 || (here == 4 * s + 2 && (s & 1)));
    return k;
}

static const char PAIRS[] = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
                            "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* The digits of a whole number; returns how many. */
static int write_whole(uint64_t value, uint8_t *out) {
    uint8_t text[20], *p = text + sizeof text;
    for (; value >= 100; value /= 100) memcpy(p -= 2, PAIRS + 2 * (value % 100), 2);
    if (value >= 10)
        memcpy(p -= 2, PAIRS + 2 * value, 2);
    else
        *--p = (uint8_t)('0' + value);
    int length = (int)(text + sizeof text - p);
    memcpy(out, p, (size_t)length);
    return length;
}

/* A double as Python's repr has it, at most 25 bytes; returns where it ends. */
static uint8_t *write_double(const uint64_t *powers, double value, uint8_t *out) {
    uint64_t bits, digits;
    memcpy(&bits, &value, 8);
    if (value != value) return memcpy(out, "nan", 3), out + 3;
    if (bits >> 63) *out++ = '-';
    bits &= ~(1ULL << 63);
    if (bits == 0) return memcpy(out, "0.0", 3), out + 3;
    if (bits == 2047ULL << 52) return memcpy(out, "inf", 3), out + 3;
    int k = shortest(powers, bits, &digits);
    while (digits % 10 == 0) digits /= 10, k++;
    uint8_t text[20];
    int count = write_whole(digits, text), point = count + k; /* the value is 0.DIGITS * 10^point */
    if (point <= -4 || point > 16) {
        *out++ = text[0];
        if (count > 1) {
            *out++ = '.';
            memcpy(out, text + 1, (size_t)count - 1);
            out += count - 1;
        }
        int power = point - 1;
        *out++ = 'e';
        *out++ = power < 0 ? '-' : '+';
        power = power < 0 ? -power : power;
        if (power < 10) *out++ = '0';
        return out + write_whole((uint64_t)power, out);
    }
    if (point <= 0) {
        memcpy(out, "0.0000", 6);
        memcpy(out + 2 - point, text, (size_t)count);
        return out + 2 - point + count;
    }
    if (point >= count) {
        memcpy(out, text, (size_t)count);
        memset(out + count, '0', (size_t)(point - count));
        memcpy(out + point, ".0", 2);
        return out + point + 2;
    }
    memcpy(out, text, (size_t)point);
    out[point] = '.';
    memcpy(out + point + 1, text + point, (size_t)(count - point));
    return out + count + 1;
}

/* ---------------------------------------------------------------- lines */

static uint8_t *write_set(const Lines *a, double p, uint8_t *out) { /* the likelier class, or both */
    *out++ = ',';
    if (p != p) return out;
    int both = (p >= 0.5 ? p : 1 - p) <= a->usual;
    int64_t length = both ? a->both_length : p >= 0.5 ? a->yes_length : a->no_length;
    memcpy(out, both ? a->both : p >= 0.5 ? a->yes : a->no, (size_t)length);
    return out + length;
}

static uint8_t *write_line(const Lines *a, double p, uint8_t *out) {
    *out++ = ',';
    if (a->yes) {
        int64_t length = p >= a->threshold ? a->yes_length : a->no_length;
        if (p == p) {
            memcpy(out, p >= a->threshold ? a->yes : a->no, (size_t)length);
            out += length;
        }
        *out++ = ',';
        if (p == p) out = write_double(a->powers, p, out);
        return a->both ? write_set(a, p, out) : out;
    }
    if (p == p) out = write_double(a->powers, p, out);
    for (int64_t side = 0; a->bounded && side < 2; side++) {
        *out++ = ',';
        if (p == p) out = write_double(a->powers, side ? p + a->width : p - a->width, out);
    }
    return out;
}

/* A line for each of `count` predictions; NaN leaves its fields empty. Returns how many bytes were written; a line takes
 * at most 100 and those of a class. */
EXPORT int64_t write_lines(const Lines *a, const double *predictions, int64_t count, uint8_t *out) {
    uint8_t *begin = out;
    for (int64_t i = 0; i < count; i++) {
        out += write_whole((uint64_t)(a->first + i), out);
        out = write_line(a, predictions[i], out);
        *out++ = '\n';
    }
    return out - begin;
}
