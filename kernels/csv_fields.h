/* Where a field begins and ends, in quotes or not; part of csv_kernel.c. */
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
    if (*end == d->newline)
        while (end > begin && end[-1] == '\r') end--; /* one, or more where CR LF was written as text */
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
