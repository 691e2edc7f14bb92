/* Cells of rows written before lines that were made for them; part of csv_kernel.c. */
typedef struct {
    const int32_t *places; /* the columns whose cells are written, in this order; `last` is the greatest */
    int64_t count, last;
    int64_t *cells;       /* room for (offset, length, how written) of columns 0 .. last */
    const uint8_t *lines; /* `number,made` each; the number is left out */
    int64_t length, at;   /* lines before `at` are written */
    int64_t tail, end;    /* of the line at `at`: where its comma is, and its newline */
    int64_t by_hand;      /* every row is to be put together elsewhere */
    int64_t all;          /* all columns are written, in their order */
    uint8_t *out;
    int64_t room, used;
} Joining;

/* Where the cells of the row at `position` are, and in *next where the one after it begins; returns how many fields were
 * looked at, or -1 if the end of the row is not in the buffer. Without a quote in its line, later ones are not. */
static int64_t find_cells(const Parser *a, Joining *b, int64_t *next) {
    const Dialect *d = &a->dialect;
    const uint8_t *p = a->buffer + a->position, *limit = a->buffer + a->length;
    const uint8_t *line = memchr(p, d->newline, (size_t)(limit - p));
    if (!line && !a->at_end) return -1;
    if (!line) line = limit;
    int whole = d->quote && memchr(p, d->quote, (size_t)(line - p));
    int64_t fields = 0;
    Field f;
    for (;; p = f.terminator + 1) {
        int status = read_field(d, p, limit, (int)a->at_end, &f);
        if (status == NEED_MORE) return -1;
        if (status == -1) { /* never closed: as text up to the end of the line */
            f.terminator = memchr(p, d->newline, (size_t)(limit - p));
            if (!f.terminator) f.terminator = limit;
            f = (Field){p, trim_end(d, p, f.terminator), f.terminator, 0, PLAIN};
        }
        if (fields <= b->last) {
            int64_t *cell = b->cells + 3 * fields;
            cell[0] = f.begin - a->buffer, cell[1] = f.end - f.begin, cell[2] = f.written;
        }
        fields++;
        if (f.terminator >= limit || *f.terminator == d->newline) break;
        if (fields > b->last && fields > 1 && !whole) {
            f.terminator = line;
            break;
        }
    }
    *next = f.terminator + 1 - a->buffer;
    return fields;
}

/* Finds tail and end of the line at `at`; a newline in quotes does not end it. */
static void find_tail(Joining *b, int quotes) {
    const uint8_t *p = b->lines + b->at, *limit = b->lines + b->length;
    int inside = 0;
    p = memchr(p, ',', (size_t)(limit - p));
    b->tail = (p ? p : (p = limit)) - b->lines;
    if (quotes) {
        for (; p < limit && (inside || *p != '\n'); p++) inside ^= *p == '"';
    } else if (!(p = memchr(p, '\n', (size_t)(limit - p)))) {
        p = limit;
    }
    b->end = p - b->lines;
}

/* Copies the row at `position` as a whole if it has nothing but plain cells, of the right number: true of most rows of
 * most files, and several times as fast as cell by cell. Returns where the next row begins, 0 if it was not copied. */
static int64_t copy_row(const Parser *a, uint8_t *out, int64_t room, int64_t *length) {
    const Dialect *d = &a->dialect;
    const uint8_t *p = a->buffer + a->position, *line = memchr(p, d->newline, (size_t)(a->length - a->position));
    if (!line || line - p > room) return 0;
    int64_t next = line + 1 - a->buffer, delimiters = 0;
    if (line > p && line[-1] == '\r') line--;
    const uint8_t delimiter = d->delimiter, quote = d->quote ? d->quote : '"', other = delimiter == ',' ? '"' : ',';
    const int64_t n = line - p;
    unsigned odd = 0;
    for (int64_t i = 0; i < n; i++) {
        uint8_t c = p[i];
        delimiters += c == delimiter;
        odd |= (c == '"') | (c == quote) | (c == other) | (c == ' ') | ((c == '\t') & (delimiter != '\t')) | (c == '\r');
        out[i] = c == delimiter ? ',' : c;
    }
    *length = n;
    return odd || delimiters != a->columns - 1 || n == 0 ? 0 : next;
}

/* Room that the cells of a row may take, or -1 if one of them does not stand there as it is. */
static int64_t room_of(const Joining *b, int64_t fields) {
    int64_t room = b->end - b->tail + 1;
    for (int64_t i = 0; i < b->count; i++) {
        const int64_t *cell = b->cells + 3 * b->places[i];
        if (b->places[i] >= fields) continue;
        if (cell[2] == ESCAPED) return -1;
        room += 2 * cell[1] + 3;
    }
    return room + b->count;
}

/* A cell as a field of CSV: in quotes where it has a comma, a quote or an end of line. */
static uint8_t *write_cell(const uint8_t *p, int64_t length, uint8_t *out) {
    int quotes = 0;
    for (int64_t i = 0; i < length; i++) quotes |= p[i] == ',' || p[i] == '"' || p[i] == '\n' || p[i] == '\r';
    if (!quotes) return memcpy(out, p, (size_t)length), out + length;
    *out++ = '"';
    for (int64_t i = 0; i < length; i++) {
        if (p[i] == '"') *out++ = '"';
        *out++ = p[i];
    }
    *out++ = '"';
    return out;
}

/* Writes the cells of the next rows before lines that were made for them. Returns DONE when all lines are written,
 * NEED_MORE where no further row is whole in the buffer, NO_ROOM, or TOO_MANY_ODDITIES before a row whose cells have to
 * be put together elsewhere; `position` and `at` are then on that row and line. */
EXPORT int join(Parser *a, Joining *b) {
    int quotes = memchr(b->lines + b->at, '"', (size_t)(b->length - b->at)) != NULL;
    while (b->at < b->length) {
        int64_t next, fields, room, copied;
        if (a->position >= a->length) return NEED_MORE;
        int skipped = skip_line(a);
        if (skipped < 0) return NEED_MORE;
        if (skipped) continue;
        if (b->all && !b->by_hand) {
            find_tail(b, quotes);
            room = b->room - b->used - (b->end - b->tail + 1);
            if ((next = copy_row(a, b->out + b->used, room, &copied)) != 0) {
                memcpy(b->out + b->used + copied, b->lines + b->tail, (size_t)(b->end - b->tail));
                b->used += copied + b->end - b->tail + 1;
                b->out[b->used - 1] = '\n';
                b->at = b->end + 1;
                a->position = next;
                continue;
            }
        }
        if ((fields = find_cells(a, b, &next)) < 0) return NEED_MORE;
        Field only = {.begin = a->buffer + b->cells[0], .end = a->buffer + b->cells[0] + b->cells[1]};
        if (fields == 1 && a->columns > 1 && b->cells[2] == PLAIN && says_nothing(&only)) { /* blanks: no row */
            a->position = next;
            continue;
        }
        find_tail(b, quotes);
        if (b->by_hand || (room = room_of(b, fields)) < 0) return TOO_MANY_ODDITIES;
        if (room > b->room - b->used) return NO_ROOM;
        uint8_t *out = b->out + b->used;
        for (int64_t i = 0; i < b->count; i++) {
            const int64_t *cell = b->cells + 3 * b->places[i];
            if (i) *out++ = ',';
            if (b->places[i] < fields) out = write_cell(a->buffer + cell[0], cell[1], out);
        }
        memcpy(out, b->lines + b->tail, (size_t)(b->end - b->tail));
        out += b->end - b->tail;
        *out++ = '\n';
        b->used = out - b->out;
        b->at = b->end + 1;
        a->position = next;
    }
    return DONE;
}
