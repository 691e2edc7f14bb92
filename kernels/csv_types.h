/* What a reading knows: dialect, columns, dictionaries and where it is; part of csv_kernel.c. */
#define EXPORT __attribute__((visibility("default")))
#define MAX_QUOTED (1 << 22) /* a quoted field longer than this is taken for a quote that is never closed */

enum { SKIP, NUMBER, DATE, LEVEL, MARKED, TIME };                                 /* kinds of columns */
enum { DONE, NEED_MORE, TOO_MANY_ODDITIES, NO_MEMORY, NO_ROOM };                     /* what parse() returns */
enum { PLAIN, QUOTED, ESCAPED };                                             /* how a field was written */
enum { WRONG_COUNT, NEVER_CLOSED };                                          /* what is wrong with a row */
enum { YEAR_FIRST, DAY_FIRST, MONTH_FIRST, ORDER };                          /* styles of a date: an order, ... */
enum { SHORT_YEARS = 4, NAMED = 8, COMPACT = 16, OTHERS_TOO = 32, BUDDHIST = 64 };        /* ... and what is added to it */
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

/* Small letters with their month; and, with 13, words that may stand with a date and say nothing: de, Monday. */
typedef struct {
    const uint8_t *names;
    const int32_t *ends;
    const uint8_t *numbers;
    int64_t count;
} Months;

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
    int64_t limit;
} Dictionary;

typedef struct {
    const uint8_t *buffer;
    int64_t length, at_end; /* valid bytes; whether the file ends there */
    int64_t position, stop; /* rows that start before `stop` are read; position moves on */
    Dialect dialect;
    int64_t columns;
    const int32_t *kind, *slot, *date_style;
    Months months;
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
    int64_t level_columns;
    const uint64_t *powers_of_five; /* (high, low) of 5^q for q = -342 .. 308 */
    int64_t run_from, run_upto; /* columns of numbers next to one another; 0 at first */
} Parser;

typedef struct {
    const uint8_t *begin, *end; /* the text, trimmed; with its quotes when ESCAPED */
    const uint8_t *terminator;  /* the delimiter or newline after it */
    int64_t newlines;           /* inside the quotes */
    int written;
} Field;
