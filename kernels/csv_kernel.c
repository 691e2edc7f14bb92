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

#define EXPORT __attribute__((visibility("default")))
#define MAX_QUOTED (1 << 22) /* a quoted field longer than this is taken for a quote that is never closed */

enum { SKIP, NUMBER, DATE, LEVEL, MARKED };                                  /* kinds of columns */
enum { DONE, NEED_MORE, TOO_MANY_ODDITIES, NO_MEMORY, NO_ROOM };                     /* what parse() returns */
enum { PLAIN, QUOTED, ESCAPED };                                             /* how a field was written */
enum { WRONG_COUNT, NEVER_CLOSED };                                          /* what is wrong with a row */
enum { YEAR_FIRST, DAY_FIRST, MONTH_FIRST };                                 /* orders of a date */
enum { MISSING_CODE = -1, TOO_MANY_LEVELS = -2 };
enum { DROPPED, MINUS, GROUP };                                              /* what a mark in a number is */

typedef struct {
    uint8_t delimiter, quote, escape, decimal, thousands, comment, newline;
    uint8_t numbers_missing; /* whether some missing tokens look like numbers, -999 say */
} Dialect;

/* How the numbers of a MARKED column are written: texts around them, minus signs, and what groups their digits. */
typedef struct {
    const uint8_t *marks; /* one after the other, each of the role that `roles` gives it */
    const int32_t *ends;
    const uint8_t *roles;
    int64_t count;
    uint8_t decimal, pairs; /* pairs: all groups but the last have two digits, 12,34,567 */
} Notation;

typedef struct {
    int64_t row, column, line, offset, length, written;
} Oddity;

typedef struct {
    int64_t row, line, fields, reason;
} BadRow;

typedef struct {
    uint64_t hash;
    int64_t offset;
    int32_t length, written;
} Level;

/* The distinct texts of one column of one block: open addressing, texts stay in the buffer. */
typedef struct {
    Level *levels;
    int32_t *table; /* index into levels, or -1 */
    int64_t count, room, mask;
    int64_t refused; /* fields that came after `limit` distinct texts */
} Dictionary;

typedef struct {
    const uint8_t *buffer;
    int64_t length, at_end; /* valid bytes; whether the file ends there */
    int64_t position, stop; /* rows that start before `stop` are read; position moves on */
    Dialect dialect;
    int64_t columns;
    const int32_t *kind, *slot, *date_order;
    const Notation *notations; /* per column; those of MARKED ones are looked at */
    const uint8_t *missing_tokens;
    const int32_t *missing_ends;
    int64_t missing_count;
    double *numbers; /* rows x number_stride */
    int64_t number_stride;
    int32_t *codes; /* level columns x code_stride */
    int64_t code_stride;
    int64_t rows, row_room, lines;
    Oddity *oddities;
    int64_t oddity_count, oddity_room;
    BadRow *bad_rows;
    int64_t bad_count, bad_room;
    int64_t *leading_zeros; /* per column */
    Dictionary *dictionaries;
    int64_t level_columns, level_limit;
    const uint64_t *powers_of_five; /* (high, low) of 5^q for q = -342 .. 308 */
} Parser;

typedef struct {
    const uint8_t *begin, *end; /* the text, trimmed; with its quotes when ESCAPED */
    const uint8_t *terminator;  /* the delimiter or newline after it */
    int64_t newlines;           /* inside the quotes */
    int written;
} Field;

/* ---------------------------------------------------------------- fields */

static int64_t count_bytes(const uint8_t *p, const uint8_t *end, uint8_t wanted) {
    int64_t n = 0;
    while (p < end) n += *p++ == wanted;
    return n;
}

static inline int is_blank(const Dialect *d, uint8_t c) { return c == ' ' || (c == '\t' && d->delimiter != '\t'); }

static inline const uint8_t *skip_blanks(const Dialect *d, const uint8_t *p) {
    if (d->delimiter == ' ') return p;
    while (is_blank(d, *p)) p++;
    return p;
}

static inline int ends_field(const Dialect *d, const uint8_t *p) {
    return *p == d->delimiter || *p == d->newline || (*p == '\r' && p[1] == d->newline);
}

static const uint8_t *find_terminator(const Dialect *d, const uint8_t *p) {
    while (*p != d->delimiter && *p != d->newline) p++;
    return p;
}

static const uint8_t *trim_end(const Dialect *d, const uint8_t *begin, const uint8_t *end) {
    if (end > begin && *end == d->newline && end[-1] == '\r') end--;
    if (d->delimiter != ' ')
        while (end > begin && is_blank(d, end[-1])) end--;
    return end;
}

/* The quote that closes the one at `open`, or NULL; *clean says whether the text stands there as it is. */
static const uint8_t *find_closing_quote(const Dialect *d, const uint8_t *open, const uint8_t *limit, int *clean) {
    const uint8_t *p = open + 1;
    if (limit - open > MAX_QUOTED) limit = open + MAX_QUOTED;
    *clean = 1;
    for (; p < limit; p++) {
        if (d->escape && *p == d->escape && d->escape != d->quote) {
            *clean = 0;
            p++;
        } else if (*p == d->quote) {
            if (p[1] != d->quote || p + 1 >= limit) return p;
            *clean = 0;
            p++;
        }
    }
    return NULL;
}

static int read_quoted(const Dialect *d, const uint8_t *open, const uint8_t *limit, int at_end, Field *f) {
    int clean;
    const uint8_t *close = find_closing_quote(d, open, limit, &clean), *after;
    /* a quote that is the last byte of the buffer may be the first half of a doubled one */
    if (!at_end && (close ? close + 1 >= limit : limit - open < MAX_QUOTED)) return NEED_MORE;
    if (!close) return -1;
    f->newlines = count_bytes(open, close, d->newline);
    after = skip_blanks(d, close + 1);
    if (ends_field(d, after)) {
        f->begin = clean ? open + 1 : open;
        f->end = clean ? close : close + 1;
        f->written = clean ? QUOTED : ESCAPED;
        f->terminator = *after == '\r' && *after != d->newline && *after != d->delimiter ? after + 1 : after;
    } else if (f->newlines) { /* lines further down, text after the quote: it opens a field of its own there */
        return -1;
    } else { /* text after the closing quote belongs to the field, as in Python's csv module */
        f->terminator = find_terminator(d, after);
        f->begin = open;
        f->end = trim_end(d, after, f->terminator);
        f->written = ESCAPED;
    }
    return DONE;
}

/* Returns DONE, NEED_MORE, or -1 for a quote that is never closed. */
static int read_field(const Dialect *d, const uint8_t *p, const uint8_t *limit, int at_end, Field *f) {
    p = skip_blanks(d, p);
    f->newlines = 0;
    if (d->quote && *p == d->quote && p < limit) {
        int status = read_quoted(d, p, limit, at_end, f);
        if (status != DONE) return status;
    } else {
        f->terminator = find_terminator(d, p);
        f->begin = p;
        f->end = trim_end(d, p, f->terminator);
        f->written = PLAIN;
    }
    if (f->end < f->begin) f->end = f->begin;
    return f->terminator >= limit && !at_end ? NEED_MORE : DONE;
}

/* ---------------------------------------------------------------- numbers */

static const double POWERS_OF_TEN[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Eisel and Lemire's method ("Number parsing at a gigabyte per second", 2021): the double nearest to w * 10^q from
 * one or two 64 x 64 bit products. Returns 0 where it cannot tell (subnormal, overflow): Python's float() can. */
static int nearest_double(const uint64_t *table, uint64_t w, int64_t q, double *out) {
    if (w == 0) return *out = 0.0, 1;
    if (q < -342 || q > 308) return 0;
    int zeros = __builtin_clzll(w);
    w <<= zeros;
    const uint64_t *five = table + 2 * (q + 342);
    unsigned __int128 product = (unsigned __int128)w * five[0];
    uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    if ((high & 0x1FF) == 0x1FF) {
        uint64_t more = (uint64_t)(((unsigned __int128)w * five[1]) >> 64);
        low += more;
        if (low < more) high++;
    }
    if (low == UINT64_MAX && !(q >= -27 && q <= 55)) return 0;
    int top = (int)(high >> 63);
    uint64_t mantissa = high >> (top + 9);
    int64_t exponent = ((217706 * q) >> 16) + 63 + top - zeros + 1023;
    if (exponent <= 0) return 0;
    if (low <= 1 && q >= -4 && q <= 23 && (mantissa & 3) == 1 && mantissa << (top + 9) == high)
        mantissa &= ~1ULL; /* exactly half way: to even */
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    if (mantissa >= 1ULL << 53) {
        mantissa = 1ULL << 52;
        exponent++;
    }
    if (exponent >= 2047) return 0;
    uint64_t bits = (mantissa & ~(1ULL << 52)) | (uint64_t)exponent << 52;
    memcpy(out, &bits, 8);
    return 1;
}

static inline unsigned digit(uint8_t c) { return (unsigned)c - '0'; }

/* Up to eight digits at p at once (little-endian); returns how many there were and adds them to the mantissa. */
static inline int read_eight(const uint8_t *p, uint64_t *mantissa) {
    static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    uint64_t word, other;
    memcpy(&word, p, 8);
    word ^= 0x3030303030303030ULL; /* a digit becomes 0 .. 9, anything else more */
    other = (word | (word + 0x7676767676767676ULL)) & 0x8080808080808080ULL;
    int count = other ? __builtin_ctzll(other) >> 3 : 8;
    if (count == 0) return 0;
    word <<= 64 - 8 * count; /* zeros in front, so that there are always eight */
    word = (word * 2561) >> 8;
    word = ((word & 0x00FF00FF00FF00FFULL) * 6553601) >> 16;
    word = ((word & 0x0000FFFF0000FFFFULL) * 42949672960001ULL) >> 32;
    *mantissa = *mantissa * powers[count] + word;
    return count;
}

/* Zeros before the first significant digit, which cost a mantissa nothing. */
static int64_t leading_zero_count(const uint8_t *p, uint8_t decimal) {
    int64_t n = 0;
    for (; *p == '0' || *p == decimal; p++) n += *p == '0';
    return n;
}

/* Reads [+-]digits[.digits][e[+-]digits]; returns where it ends, or NULL if it is not such a number or is one that
 * needs the general reader (more than 19 digits, subnormal, overflow). */
static inline const uint8_t *read_number(const uint8_t *p, uint8_t decimal, uint8_t thousands, const uint64_t *table,
                                         double *out, int *zero_led) {
    uint64_t mantissa = 0;
    int64_t exponent = 0;
    int negative = *p == '-';
    p += negative | (*p == '+');
    const uint8_t *first = p;
    while (digit(*p) < 10) mantissa = 10 * mantissa + digit(*p++);
    int64_t digits = p - first;
    *zero_led = digits > 1 && *first == '0';
    if (thousands && *p == thousands && digits >= 1 && digits <= 3 && !*zero_led) {
        while (*p == thousands && digit(p[1]) < 10 && digit(p[2]) < 10 && digit(p[3]) < 10 && digit(p[4]) >= 10) {
            mantissa = 1000 * mantissa + 100 * digit(p[1]) + 10 * digit(p[2]) + digit(p[3]);
            p += 4;
            digits += 3;
        }
    }
    if (*p == decimal) {
        const uint8_t *point = p++;
        int count;
        do p += count = read_eight(p, &mantissa);
        while (count == 8);
        exponent = point + 1 - p;
        digits -= exponent;
    }
    if (digits == 0 || (digits > 19 && digits - leading_zero_count(first, decimal) > 19)) return NULL;
    if ((*p | 32) == 'e') {
        const uint8_t *q = p + 1;
        int minus = *q == '-';
        int64_t power = 0;
        q += minus | (*q == '+');
        if (digit(*q) >= 10) return NULL;
        while (digit(*q) < 10 && power < 100000) power = 10 * power + digit(*q++);
        exponent += minus ? -power : power;
        p = q;
    }
    double value;
    if (mantissa < 1ULL << 53 && exponent >= -22 && exponent <= 22)
        value = exponent < 0 ? (double)mantissa / POWERS_OF_TEN[-exponent] : (double)mantissa * POWERS_OF_TEN[exponent];
    else if (!nearest_double(table, mantissa, exponent, &value))
        return NULL;
    *out = negative ? -value : value; /* compiles to a select: signs are too random to predict */
    return p;
}

/* ---------------------------------------------------------------- marked numbers */

/* The length of a mark of that role which stands at p (or, with `last`, which ends there), 0 if there is none. */
static int64_t mark_at(const Notation *n, int role, const uint8_t *p, int64_t room, int last) {
    for (int64_t i = 0; i < n->count; i++) {
        int32_t from = i ? n->ends[i - 1] : 0, length = n->ends[i] - from;
        if (n->roles[i] == role && length <= room && memcmp(last ? p - length : p, n->marks + from, (size_t)length) == 0)
            return length;
    }
    return 0;
}

/* The digits of a number without their grouping marks into `plain`; returns how many bytes, 0 if they are not so. */
static int64_t ungrouped(const Notation *n, const uint8_t *p, const uint8_t *end, uint8_t *plain, int64_t room) {
    int64_t count = 0, run = 0, groups = 0, length;
    const uint8_t *first = p;
    while (p < end && *p != n->decimal && (*p | 32) != 'e') {
        if (count == room) return 0;
        if (digit(*p) < 10) {
            plain[count++] = *p++;
            run++;
        } else if ((length = mark_at(n, GROUP, p, end - p, 0)) != 0) {
            int64_t wanted = n->pairs ? 2 : 3;
            if (groups ? run != wanted : run == 0 || run > wanted || *first == '0') return 0;
            groups++;
            run = 0;
            p += length;
        } else {
            return 0;
        }
    }
    if (groups && run != 3) return 0;
    for (; p < end; p++) {
        if (count == room) return 0;
        plain[count++] = *p == n->decimal ? '.' : *p == '.' ? 'x' : *p;
    }
    return count;
}

/* A number with marks: EUR 1.234,56, 12 %, (1,234) or 5- for what is below zero. */
static int read_marked(const Notation *n, const uint8_t *p, const uint8_t *end, const uint64_t *table, double *out) {
    uint8_t plain[96] = {0};
    int64_t length, count;
    int signs = 0, negative = 0, open = 0, zero_led;
    while (p < end && digit(*p) >= 10 && *p != n->decimal) {
        if (*p == ' ' || *p == '+' || *p == '-' || *p == '(') {
            signs += *p == '+' || *p == '-' || *p == '(';
            negative |= *p == '-' || *p == '(';
            open += *p++ == '(';
        } else if ((length = mark_at(n, MINUS, p, end - p, 0)) != 0) {
            signs++, negative = 1, p += length;
        } else if ((length = mark_at(n, DROPPED, p, end - p, 0)) != 0) {
            p += length;
            if (p < end && *p == n->decimal && ((p[-1] | 32) - 'a' < 26u || p[-1] > 127)) return 0; /* Rs.500 is not .500 */
        } else {
            return 0;
        }
    }
    while (p < end) {
        if ((length = mark_at(n, DROPPED, end, end - p, 1)) != 0) { /* first, as a mark may end in a digit: m2 */
            end -= length;
        } else if (digit(end[-1]) < 10 || end[-1] == n->decimal) {
            break;
        } else if (end[-1] == ' ') {
            end--;
        } else if (end[-1] == ')') {
            open--, end--;
        } else if (end[-1] == '-') {
            signs++, negative = 1, end--;
        } else if ((length = mark_at(n, MINUS, end, end - p, 1)) != 0) {
            signs++, negative = 1, end -= length;
        } else {
            return 0;
        }
    }
    if (open || signs > 1 || p == end) return 0;
    count = ungrouped(n, p, end, plain, (int64_t)sizeof plain - 16);
    if (!count || read_number(plain, '.', 0, table, out, &zero_led) != plain + count) return 0;
    if (negative) *out = -*out;
    return 1;
}

/* ---------------------------------------------------------------- dates */

static int read_digits(const uint8_t **p, int least, int most, int64_t *value) {
    int n = 0;
    *value = 0;
    while (n < most && digit(**p) < 10) {
        *value = 10 * *value + digit(*(*p)++);
        n++;
    }
    return n >= least;
}

static int64_t days_since_1970(int64_t y, int64_t m, int64_t d) { /* Howard Hinnant's days_from_civil */
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static int read_clock(const uint8_t **p, const uint8_t *end, double *seconds) {
    int64_t hour, minute, second = 0;
    double fraction = 0, unit = 0.1;
    if (!read_digits(p, 1, 2, &hour) || *(*p)++ != ':' || !read_digits(p, 2, 2, &minute)) return 0;
    if (**p == ':') {
        (*p)++;
        if (!read_digits(p, 2, 2, &second)) return 0;
        if (*p < end && (**p == '.' || **p == ',')) /* at the end, a comma is the delimiter */
            for ((*p)++; digit(**p) < 10; unit /= 10) fraction += unit * digit(*(*p)++);
    }
    if (hour > 23 || minute > 59 || second > 60) return 0;
    *seconds += 3600.0 * hour + 60.0 * minute + second + fraction;
    if (**p == 'Z') {
        (*p)++;
    } else if (**p == '+' || **p == '-') {
        int sign = *(*p)++ == '-' ? 1 : -1;
        if (!read_digits(p, 2, 2, &hour)) return 0;
        if (**p == ':') (*p)++;
        if (!read_digits(p, 2, 2, &minute)) minute = 0;
        *seconds += sign * (3600.0 * hour + 60.0 * minute);
    }
    return 1;
}

/* A date, or a date and a time, as seconds since 1970 (UTC). */
static int read_date(const uint8_t *p, const uint8_t *end, int order, double *out) {
    static const int places[3][3] = {{0, 1, 2}, {2, 1, 0}, {2, 0, 1}}; /* where year, month, day stand */
    static const int8_t month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t part[3];
    int year_at = places[order][0];
    uint8_t mark = 0;
    for (int i = 0; i < 3; i++) {
        if (!read_digits(&p, i == year_at ? 4 : 1, i == year_at ? 4 : 2, &part[i])) return 0;
        if (i == 2) break;
        if (i == 0) mark = *p;
        if (*p != mark || (mark != '-' && mark != '/' && mark != '.')) return 0;
        p++;
    }
    int64_t year = part[year_at], month = part[places[order][1]], day = part[places[order][2]];
    if (month < 1 || month > 12 || day < 1 || day > month_days[month - 1]) return 0;
    if (month == 2 && day == 29 && (year % 4 || (year % 100 == 0 && year % 400))) return 0;
    double seconds = 86400.0 * days_since_1970(year, month, day);
    if (p < end && (*p == 'T' || *p == ' ')) {
        p++;
        if (!read_clock(&p, end, &seconds)) return 0;
    }
    *out = seconds;
    return p == end;
}

EXPORT int date_of(const uint8_t *text, int64_t length, int order, double *out) {
    return read_date(text, text + length, order, out);
}

/* ---------------------------------------------------------------- levels */

static uint64_t mix(uint64_t h, uint64_t word) {
    unsigned __int128 m = (unsigned __int128)(h ^ word) * 0x9E3779B97F4A7C15ULL;
    return (uint64_t)(m >> 64) ^ (uint64_t)m;
}

static uint64_t hash_bytes(const uint8_t *p, int64_t n, uint64_t h) {
    uint64_t word;
    h = mix(h, (uint64_t)n + 0x2545F4914F6CDD1DULL);
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        h = mix(h, word);
    }
    if (n) {
        word = 0;
        memcpy(&word, p, (size_t)n);
        h = mix(h, word ^ 0xD6E8FEB86659FD93ULL);
    }
    return h;
}

/* Four lanes, so that the processor multiplies while it loads; for telling files apart, not against forgery. */
EXPORT uint64_t content_hash(const uint8_t *p, int64_t n) {
    uint64_t lane[4] = {1, 2, 3, 4}, word[4];
    for (; n >= 32; p += 32, n -= 32) {
        memcpy(word, p, 32);
        for (int i = 0; i < 4; i++) lane[i] = mix(lane[i], word[i]);
    }
    uint64_t h = hash_bytes(p, n, lane[0]);
    for (int i = 1; i < 4; i++) h = mix(h, lane[i]);
    return h;
}

static int grow(Dictionary *d) {
    int64_t room = d->room ? 4 * d->room : 64, mask = 2 * room - 1;
    Level *levels = realloc(d->levels, (size_t)room * sizeof(Level));
    if (!levels) return 0;
    d->levels = levels;
    int32_t *table = malloc((size_t)(mask + 1) * sizeof(int32_t));
    if (!table) return 0;
    memset(table, 0xFF, (size_t)(mask + 1) * sizeof(int32_t));
    for (int64_t i = 0; i < d->count; i++) {
        uint64_t at = levels[i].hash & (uint64_t)mask;
        while (table[at] >= 0) at = (at + 1) & (uint64_t)mask;
        table[at] = (int32_t)i;
    }
    free(d->table);
    d->table = table;
    d->room = room;
    d->mask = mask;
    return 1;
}

static int same_text(const Parser *a, const Level *level, const Field *f, uint64_t hash) {
    return level->hash == hash && level->length == f->end - f->begin && level->written == f->written &&
           memcmp(a->buffer + level->offset, f->begin, (size_t)level->length) == 0;
}

/* The code of a text, a new one if it was not seen before; -3 when memory is out. */
static int32_t code_of(const Parser *a, Dictionary *d, const Field *f) {
    if (d->count == d->room && !grow(d)) return -3;
    uint64_t hash = hash_bytes(f->begin, f->end - f->begin, (uint64_t)f->written), at = hash & (uint64_t)d->mask;
    for (; d->table[at] >= 0; at = (at + 1) & (uint64_t)d->mask)
        if (same_text(a, &d->levels[d->table[at]], f, hash)) return d->table[at];
    if (d->count >= a->level_limit) return d->refused++, TOO_MANY_LEVELS;
    d->levels[d->count] = (Level){hash, f->begin - a->buffer, (int32_t)(f->end - f->begin), f->written};
    d->table[at] = (int32_t)d->count;
    return (int32_t)d->count++;
}

EXPORT void free_dictionaries(Parser *a) {
    for (int64_t i = 0; i < a->level_columns; i++) {
        free(a->dictionaries[i].levels);
        free(a->dictionaries[i].table);
        memset(&a->dictionaries[i], 0, sizeof(Dictionary));
    }
}

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
    if (a->kind[column] == DATE) return read_date(f->begin, f->end, a->date_order[column], out);
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
        if (!d->numbers_missing && read_plain_numbers(a, &fields, &p)) {
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
    int empty_line = fields == 1 && a->columns > 1 && f.written == PLAIN && f.begin == f.end;
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
        if (skip_line(a) != 0) continue;
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
