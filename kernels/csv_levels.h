/* The distinct texts of a column and their codes; part of csv_kernel.c. */
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
    if (d->count >= d->limit) return d->refused++, TOO_MANY_LEVELS;
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
