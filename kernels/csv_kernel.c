/* Splits CSV bytes into rows and turns plain fields into doubles, dates and level codes.
 *
 * What belongs elsewhere: finding out the dialect, decoding text, deciding what a strange field means. A field
 * that is not understood here is handed back as an "oddity" with its place, and Python decides.
 *
 * Promises: every double is correctly rounded; bytes at or past `length` are never taken for data (the caller
 * keeps at least PADDING writable bytes there, of which the first is set to the newline); a row whose end is not
 * yet in the buffer is not begun.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One translation unit in parts by subject: the compiler sees all of it, as if it were one file. */
#include "csv_types.h"
#include "csv_fields.h"
#include "csv_numbers.h"
#include "csv_plain.h"
#include "csv_dates.h"
#include "csv_levels.h"

/* ---------------------------------------------------------------- rows */

static int is_missing(const Parser *a, const Field *f) {
    int64_t length = f->end - f->begin;
    if (length == 0) return 1;
    for (int64_t i = 0; i < a->missing_count; i++) {
        int32_t from = i ? a->missing_ends[i - 1] : 0;
        if (a->missing_ends[i] - from == length && memcmp(a->missing_tokens + from, f->begin, (size_t)length) == 0) return 1;
    }
    return 0;
}

static double not_a_number(void) {
    uint64_t bits = 0x7FF8000000000000ULL;
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

static int value_of(const Parser *a, int64_t column, const Field *f, double *out) {
    if (f->written == ESCAPED) return 0;
    if (a->kind[column] == DATE) return read_date(&a->months, f->begin, f->end, a->date_style[column], out);
    if (a->kind[column] == TIME) return read_time(f->begin, f->end, out);
    if (a->kind[column] == MARKED) return read_marked(&a->notations[column], f->begin, f->end, a->powers_of_five, out);
    int zero_led;
    const uint8_t *end = read_number(f->begin, a->dialect.decimal, a->dialect.thousands, a->powers_of_five, out, &zero_led);
    if (end != f->end) return 0;
    a->leading_zeros[column] += zero_led;
    return 1;
}

/* Stores a field that the fast path did not take. */
static int store(Parser *a, int64_t column, const Field *f) {
    if (a->kind[column] == LEVEL) {
        int32_t code = is_missing(a, f) ? MISSING_CODE : code_of(a, &a->dictionaries[a->slot[column]], f);
        if (code == -3) return NO_MEMORY;
        a->codes[a->slot[column] * a->code_stride + a->rows] = code;
    } else if (a->kind[column] != SKIP) {
        double *out = &a->numbers[a->rows * a->number_stride + a->slot[column]];
        *out = not_a_number();
        if (is_missing(a, f) || value_of(a, column, f, out)) return DONE;
        *out = not_a_number();
        if (a->oddity_count == a->oddity_room) return TOO_MANY_ODDITIES;
        a->oddities[a->oddity_count++] = (Oddity){
            a->rows, column, a->lines, f->begin - a->buffer, f->end - f->begin, f->written};
    }
    return DONE;
}

/* Whether there is nothing in a field, or a rule drawn with at least three strokes: ----- */
static int says_nothing(const Field *f) {
    const uint8_t *p = f->begin;
    if (!p) return 0; /* a plain number */
    while (p < f->end && (*p == '-' || *p == '=' || *p == '_' || *p == '+')) p++;
    return p == f->end && (p == f->begin || p - f->begin >= 3);
}

static void blank_row(Parser *a, int64_t line, int64_t fields, int reason) {
    for (int64_t c = 0; c < a->columns; c++) {
        if (a->kind[c] == LEVEL)
            a->codes[a->slot[c] * a->code_stride + a->rows] = MISSING_CODE;
        else if (a->kind[c] != SKIP)
            a->numbers[a->rows * a->number_stride + a->slot[c]] = not_a_number();
    }
    if (a->bad_count < a->bad_room) a->bad_rows[a->bad_count] = (BadRow){a->rows, line, fields, reason};
    a->bad_count++;
}

/* The fast path: plain numbers with nothing around them, from field number *field at *at on. Stops before the first
 * field that is anything else; returns 1 if it came to the end of the row instead, with *at on the newline. */
static inline int read_plain_numbers(Parser *a, int64_t *field, const uint8_t **at) {
    const Dialect d = a->dialect;
    const uint8_t *limit = a->buffer + a->length, *p = *at;
    const uint8_t thousands = d.thousands == d.delimiter ? 0 : d.thousands;
    const int32_t *kind = a->kind, *slot = a->slot;
    double *out = a->numbers + a->rows * a->number_stride, value;
    int64_t c = *field;
    int zero_led, done = 0;
    for (; c < a->columns && kind[c] == NUMBER; c++) {
        const uint8_t *end = read_number(p, d.decimal, thousands, a->powers_of_five, &value, &zero_led);
        if (!end || end >= limit || !ends_field(&d, end)) break;
        out[slot[c]] = value;
        a->leading_zeros[c] += zero_led;
        p = end + 1;
        if (*end != d.delimiter) {
            p = end + (*end == '\r' && d.newline != '\r');
            done = 1;
            break;
        }
    }
    *field = c;
    *at = p;
    return done;
}

/* Reads the row at `position` into row number `rows`. */
static int read_row(Parser *a) {
    const Dialect *d = &a->dialect;
    const uint8_t *limit = a->buffer + a->length, *p = a->buffer + a->position;
    int64_t line = a->lines, newlines = 0, odd = a->oddity_count, fields = 0;
    Field f = {0};
    for (;; fields++, p = f.terminator + 1) {
        int64_t upto = d->numbers_missing ? fields : end_of_run(a, fields, p);
        if (upto > fields ? read_run(a, &fields, &p, upto) : !d->numbers_missing && read_plain_numbers(a, &fields, &p)) {
            f.end = f.terminator = p;
            break;
        }
        int status = read_field(d, p, limit, (int)a->at_end, &f);
        if (status == -1) { /* only this line is lost: the quote is taken as a character */
            const uint8_t *end = memchr(p, d->newline, (size_t)(limit - p));
            a->oddity_count = odd;
            if (!end && !a->at_end) return NEED_MORE;
            blank_row(a, line, fields + 1, NEVER_CLOSED);
            a->position = (end ? end + 1 : limit) - a->buffer;
            a->lines = line + 1 + newlines;
            a->rows++;
            return DONE;
        }
        if (status == DONE && fields < a->columns) status = store(a, fields, &f);
        if (status == NEED_MORE) a->oddity_count = odd;
        if (status != DONE) return status;
        newlines += f.newlines;
        if (f.terminator >= limit || *f.terminator == d->newline) break;
    }
    fields++;
    a->position = f.terminator + 1 - a->buffer;
    a->lines = line + 1 + newlines;
    int empty_line = fields == 1 && a->columns > 1 && f.written == PLAIN && says_nothing(&f);
    if (fields != a->columns) a->oddity_count = odd;
    if (fields != a->columns && !empty_line) blank_row(a, line, fields, WRONG_COUNT);
    a->rows += !(fields != a->columns && empty_line);
    return DONE;
}

/* Steps over an empty line or a comment: 1 if there was one, 0 if not, -1 if its end is not in the buffer. */
static int skip_line(Parser *a) {
    const Dialect *d = &a->dialect;
    const uint8_t *p = a->buffer + a->position, *limit = a->buffer + a->length, *end = p;
    if (d->comment && *p == d->comment) {
        end = memchr(p, d->newline, (size_t)(limit - p));
        if (!end && !a->at_end) return -1;
        if (!end) end = limit;
    } else if (*p == '\r' && p[1] == d->newline) {
        end = p + 1;
    } else if (*p != d->newline) {
        return 0;
    }
    a->position = end + 1 - a->buffer;
    a->lines++;
    return 1;
}

EXPORT int parse(Parser *a) {
    int64_t stop = a->stop < a->length ? a->stop : a->length;
    while (a->position < stop) {
        int skipped = skip_line(a);
        if (!skipped && a->rows == a->row_room) return NO_ROOM;
        int status = skipped < 0 ? NEED_MORE : skipped ? DONE : read_row(a);
        if (status != DONE) return status;
    }
    return DONE;
}

/* The fields of up to `row_room` rows and `room` cells as (row, offset, length, how written) quadruples, for previews
 * and for trying a dialect on a sample. Incomplete rows at the end are left out. Returns the number of cells. */
EXPORT int64_t split(Parser *a, int64_t *cells, int64_t room) {
    const uint8_t *limit = a->buffer + a->length;
    int64_t count = 0, row_begin = 0;
    while (a->position < a->length && a->rows < a->row_room) {
        int skipped = skip_line(a);
        if (skipped < 0) break; /* a comment whose end is not in the buffer */
        if (skipped) continue;
        const uint8_t *p = a->buffer + a->position;
        Field f;
        int status;
        for (row_begin = count;; p = f.terminator + 1) {
            status = read_field(&a->dialect, p, limit, (int)a->at_end, &f);
            if (status == -1) { /* never closed: as text up to the end of the line */
                f.terminator = memchr(p, a->dialect.newline, (size_t)(limit - p));
                if (!f.terminator) f.terminator = limit;
                f = (Field){p, trim_end(&a->dialect, p, f.terminator), f.terminator, 0, PLAIN};
            }
            if (status == NEED_MORE || count == room) return row_begin;
            int64_t *cell = cells + 4 * count++;
            cell[0] = a->rows, cell[1] = f.begin - a->buffer, cell[2] = f.end - f.begin, cell[3] = f.written;
            if (f.terminator >= limit || *f.terminator == a->dialect.newline) break;
        }
        a->position = f.terminator + 1 - a->buffer;
        a->rows++;
    }
    return count;
}

#include "csv_cells.h"

/* The first place at or after `from` that looks like the start of a row: the line there has the right number of
 * fields. A guess; the reader of the bytes before it knows. Returns -1 if there is none in the buffer. */
EXPORT int64_t guess_row_start(const Parser *a, int64_t from) {
    const uint8_t *limit = a->buffer + a->length, *first = NULL, *p = a->buffer + from;
    for (int tries = 0; tries < 100 && (p = memchr(p, a->dialect.newline, (size_t)(limit - p))); tries++) {
        const uint8_t *q = ++p;
        if (!first) first = p;
        Field f;
        int64_t fields = 0;
        do {
            if (q > limit || read_field(&a->dialect, q, limit, (int)a->at_end, &f) != DONE) break;
            fields++;
            q = f.terminator + 1;
        } while (f.terminator < limit && *f.terminator == a->dialect.delimiter && fields <= a->columns);
        if (fields == a->columns) return p - a->buffer;
    }
    return first ? first - a->buffer : -1;
}

/* ---------------------------------------------------------------- statistics */

/* Missing count, least and greatest value of each column, and the largest squared norm of a row (missing as 0). */
EXPORT double column_statistics(const double *x, int64_t rows, int64_t columns, int64_t *missing, double *least,
                                double *greatest) {
    double largest = 0;
    for (int64_t i = 0; i < rows; i++, x += columns) {
        double norm = 0;
        for (int64_t j = 0; j < columns; j++) {
            double v = x[j];
            least[j] = v < least[j] ? v : least[j];
            greatest[j] = v > greatest[j] ? v : greatest[j];
            missing[j] += v != v;
            norm += v == v ? v * v : 0;
        }
        largest = norm > largest ? norm : largest;
    }
    return largest;
}
