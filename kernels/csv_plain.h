/* Rows of plain numbers, where the processor reads many bytes at a time; part of csv_kernel.c.
 *
 * Where fields end is found for 64 bytes at once, so that no field has to wait for the one before it, and the digits of a
 * field are put together at once. What is longer than fifteen bytes or written in another way is left to read_number;
 * both give the same double: a whole number below 2^53 divided by a power of ten.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#define MANY __attribute__((target("avx2,bmi")))
#define REACH 16        /* bytes before the end of a number that are looked at, whatever its length */
#define SHORTEST_RUN 4  /* columns of numbers next to one another, from which on it pays */

static int has_many;
static uint8_t ZERO[16], NINE[16];    /* '0' and 9: compilers make constants anew for each field */
static uint8_t KEPT[REACH][16];       /* by the length of a number that ends with the last byte: what belongs to it */
static uint8_t MOVED[17][16];         /* by the place of its decimal mark, 16 for none: what comes where without that */
static double DIVISORS[17];           /* by the same */

__attribute__((constructor)) static void prepare_many(void) {
    memset(ZERO, '0', 16), memset(NINE, 9, 16);
    for (int n = 0; n < REACH; n++)
        for (int j = 0; j < 16; j++) KEPT[n][j] = j >= 16 - n ? 0xFF : 0;
    for (int n = 0; n <= 16; n++) {
        for (int j = 0; j < 16; j++) MOVED[n][j] = (uint8_t)(n == 16 || j > n ? j : j ? j - 1 : 0x80);
        DIVISORS[n] = n == 16 ? 1.0 : POWERS_OF_TEN[15 - n];
    }
    __builtin_cpu_init();
    has_many = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi");
}

/* A bit for each of 64 bytes that ends a field. */
MANY static inline uint64_t field_ends(const uint8_t *p, __m256i delimiter, __m256i newline) {
    __m256i low = _mm256_loadu_si256((const __m256i *)p), high = _mm256_loadu_si256((const __m256i *)(p + 32));
    __m256i in_low = _mm256_or_si256(_mm256_cmpeq_epi8(low, delimiter), _mm256_cmpeq_epi8(low, newline));
    __m256i in_high = _mm256_or_si256(_mm256_cmpeq_epi8(high, delimiter), _mm256_cmpeq_epi8(high, newline));
    return (uint32_t)_mm256_movemask_epi8(in_low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(in_high) << 32;
}

/* What is the same for all fields, kept in registers. */
typedef struct {
    __m128i decimal, zero, nine, tens, hundreds, more;
} Constants;

/* The number in the `length` bytes before `end`, less than REACH, without its sign; 0 if they are not digits with at most
 * one mark. *marks is not 0 if there is one. */
MANY static inline int read_short(const uint8_t *end, uint64_t length, const Constants k, double *out, unsigned *marks) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(end - REACH)), kept = _mm_loadu_si128((const __m128i *)KEPT[length]);
    __m128i values = _mm_sub_epi8(bytes, k.zero), is_mark = _mm_and_si128(_mm_cmpeq_epi8(bytes, k.decimal), kept);
    __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(values, k.nine), values);
    unsigned found = (unsigned)_mm_movemask_epi8(is_mark);
    if (!_mm_testc_si128(_mm_or_si128(is_digit, is_mark), kept)) return 0;  /* there is something else */
    if ((found & (found - 1)) | (found & 0x8000)) return 0;                 /* two marks, or one behind all digits */
    unsigned place = (unsigned)__builtin_ctz(found | 0x10000);
    values = _mm_shuffle_epi8(_mm_and_si128(values, kept), _mm_loadu_si128((const __m128i *)MOVED[place]));
    __m128i pairs = _mm_maddubs_epi16(values, k.tens);                       /* eight of two digits */
    __m128i fours = _mm_madd_epi16(pairs, k.hundreds);                       /* four of four */
    __m128i eights = _mm_madd_epi16(_mm_packus_epi32(fours, fours), k.more); /* two of eight, twice */
    uint64_t both = (uint64_t)_mm_cvtsi128_si64(eights);
    *out = (double)(int64_t)((both & 0xFFFFFFFF) * 100000000 + (both >> 32)) / DIVISORS[place];
    *marks = found;
    return 1;
}

/* A field of a run that read_short does not take; kept apart, so that its registers are not missed above. */
static __attribute__((noinline)) int read_longer(Parser *a, int64_t c, const uint8_t *p, const uint8_t *last, double *out) {
    const Dialect *d = &a->dialect;
    const uint8_t thousands = d->thousands == d->delimiter ? 0 : d->thousands;
    double value;
    int zero_led;
    if (read_number(p, d->decimal, thousands, a->powers_of_five, &value, &zero_led) != last) return 0;
    a->leading_zeros[c] += zero_led;
    *out = value;
    return 1;
}

/* As read_plain_numbers, for the columns up to `upto`, which are numbers next to one another. */
MANY static int read_run(Parser *a, int64_t *field, const uint8_t **at, int64_t upto) {
    const uint8_t *limit = a->buffer + a->length, *p = *at, *window = p, mark = a->dialect.newline;
    const __m256i delimiter = _mm256_set1_epi8((char)a->dialect.delimiter), newline = _mm256_set1_epi8((char)mark);
    const Constants k = {_mm_set1_epi8((char)a->dialect.decimal), _mm_loadu_si128((const __m128i *)ZERO),
                         _mm_loadu_si128((const __m128i *)NINE), _mm_set1_epi16(0x010A), _mm_set1_epi32(0x00010064), _mm_set1_epi32(0x00012710)};
    int64_t first = *field, c = first, *leading_zeros = a->leading_zeros;
    double *out = a->numbers + a->rows * a->number_stride + a->slot[first] - first;
    uint64_t ends = field_ends(window, delimiter, newline);
    int ends_row = 0;
    for (; c < upto && !ends_row; c++) {
        while (!ends) ends = field_ends(window += 64, delimiter, newline); /* there is one at the limit */
        const uint8_t *end = window + __builtin_ctzll(ends), *last = end;
        ends &= ends - 1;
        if (*end == mark) {
            if (end >= limit) break;
            ends_row = 1;
            last -= last > p && last[-1] == '\r' && mark != '\r';
        }
        uint64_t negative = *p == '-', length = (uint64_t)(last - p) - negative, bits;
        unsigned marks;
        double value;
        if (length - 1 < REACH - 1 && read_short(last, length, k, &value, &marks)) {
            memcpy(&bits, &value, 8);
            bits ^= negative << 63;
            memcpy(out + c, &bits, 8);
            if (!marks) leading_zeros[c] += (length > 1) & (p[negative] == '0');
        } else if (!read_longer(a, c, p, last, out + c)) {
            ends_row = 0;
            break;
        }
        p = end + 1;
    }
    *field = c - ends_row; /* the last one of a row, or the next */
    *at = p - ends_row;    /* its newline, or the next */
    return ends_row;
}

/* Where the run of columns of numbers from `field` on ends; `field` where it is too short, or too near the beginning. */
static inline int64_t end_of_run(Parser *a, int64_t field, const uint8_t *at) {
    if (!has_many || at - a->buffer < REACH) return field;
    if (a->run_from != field || !a->run_upto) { /* most tables have one, which is looked for once */
        int64_t upto = field;
        while (upto < a->columns && a->kind[upto] == NUMBER) upto++;
        a->run_from = field, a->run_upto = upto;
    }
    return a->run_upto - field < SHORTEST_RUN ? field : a->run_upto;
}
#else
static inline int read_run(Parser *a, int64_t *field, const uint8_t **at, int64_t upto) {
    return (void)a, (void)field, (void)at, (void)upto, 0;
}
static inline int64_t end_of_run(Parser *a, int64_t field, const uint8_t *at) { return (void)a, (void)at, field; }
#endif
