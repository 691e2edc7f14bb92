/* Reads rows written as `label index:value index:value ...` (svmlight, libsvm) into compressed rows.
 *
 * What belongs elsewhere: which bytes are read, and what is said of a row that is not so. Promises: every double is
 * correctly rounded; no byte at or past `length` is taken for data (the caller keeps PADDING bytes there, of which the
 * first is a newline and the others are zero); the rows before a bad one are whole.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "csv_types.h"
#include "csv_numbers.h"

enum { ALL_READ, BAD_ROW, NOT_RISING };

typedef struct {
    const uint8_t *buffer;
    int64_t length, position, stop; /* rows that begin before `stop` are read; position moves on */
    const uint64_t *powers_of_five;
    double *labels;
    int64_t *ends; /* how many values there are up to the end of each row */
    int32_t *indices;
    double *values;
    int64_t rows, count, greatest; /* rows and values read; the greatest index */
} Pairs;

static inline int is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r'; }

static inline const uint8_t *after_blanks(const uint8_t *p) {
    while (is_blank(*p)) p++;
    return p;
}

/* A finite number at p; returns where it ends, NULL where there is none. Long ones are left to the C library. */
static const uint8_t *number_at(const Pairs *a, const uint8_t *p, double *out) {
    int zero_led;
    const uint8_t *end = read_number(p, '.', 0, a->powers_of_five, out, &zero_led);
    if (end) return end;
    for (end = p; digit(*end) < 10 || *end == '.' || *end == '-' || *end == '+' || (*end | 32) == 'e';) end++;
    char *found;
    *out = end > p ? strtod((const char *)p, &found) : NAN;
    return end > p && (const uint8_t *)found == end && isfinite(*out) ? end : NULL;
}

/* A whole number that fits into 31 bits; returns where it ends, or NULL. */
static const uint8_t *index_at(const uint8_t *p, int64_t *out) {
    const uint8_t *first = p;
    int64_t value = 0;
    while (digit(*p) < 10 && p - first < 11) value = 10 * value + digit(*p++);
    *out = value;
    return p > first && value < INT32_MAX ? p : NULL;
}

static int read_row(Pairs *a, const uint8_t *p) {
    int64_t index, before = -1;
    if (!(p = number_at(a, p, &a->labels[a->rows]))) return BAD_ROW;
    for (;;) {
        const uint8_t *next = after_blanks(p);
        if (*next == '\n' || *next == '#') break;
        if (next == p) return BAD_ROW; /* two fields without a blank between */
        if (before < 0 && memcmp(next, "qid:", 4) == 0) {
            if (!(p = index_at(next + 4, &index))) return BAD_ROW;
            continue;
        }
        if (!(p = index_at(next, &index)) || *p != ':') return BAD_ROW;
        if (index <= before) return NOT_RISING;
        if (!(p = number_at(a, p + 1, &a->values[a->count]))) return BAD_ROW;
        a->indices[a->count++] = (int32_t)index;
        before = index;
    }
    if (before > a->greatest) a->greatest = before;
    a->ends[a->rows++] = a->count;
    return ALL_READ;
}

EXPORT int read_pairs(Pairs *a) {
    while (a->position < a->stop) {
        const uint8_t *p = a->buffer + a->position, *end = memchr(p, '\n', (size_t)(a->length - a->position));
        const uint8_t *first = after_blanks(p);
        if (*first != '\n' && *first != '#') {
            int64_t before = a->count;
            int said = read_row(a, first);
            if (said != ALL_READ) return a->count = before, said;
        }
        a->position = end ? end + 1 - a->buffer : a->length;
    }
    return ALL_READ;
}
