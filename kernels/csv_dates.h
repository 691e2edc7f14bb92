/* Dates and times of day in words and numbers; part of csv_kernel.c. */
static int64_t read_digits(const uint8_t **p, int least, int most, int64_t *value) {
    int64_t n = 0;
    *value = 0;
    while (n < most && digit(**p) < 10) {
        *value = 10 * *value + digit(*(*p)++);
        n++;
    }
    return n >= least ? n : 0;
}

static int64_t days_since_1970(int64_t y, int64_t m, int64_t d) { /* Howard Hinnant's days_from_civil */
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static int skip_text(const uint8_t **p, const uint8_t *end, const char *text) {
    int64_t length = (int64_t)strlen(text);
    if (end - *p < length || memcmp(*p, text, (size_t)length) != 0) return 0;
    *p += length;
    return 1;
}

/* A blank of any kind that stands before AM and PM: CLDR has a narrow one. */
static void skip_any_blanks(const uint8_t **p, const uint8_t *end) {
    while (*p < end && (skip_text(p, end, " ") || skip_text(p, end, "\xc2\xa0") || skip_text(p, end, "\xe2\x80\xaf"))) {}
}

/* AM, pm, a.m., or p at the end: the hour that `hour` of twelve is, or -1; 24-hour times have none and stay as they are. */
static int64_t hour_of_day(const uint8_t **p, const uint8_t *end, int64_t hour) {
    const uint8_t *q = *p;
    skip_any_blanks(&q, end);
    int arab = q == end || *q < 128 ? 0 : skip_text(&q, end, "\xd8\xb5") ? 'a' : skip_text(&q, end, "\xd9\x85") ? 'p' : 0;
    int half = arab ? arab : q < end ? *q | 32 : 0;
    if (half != 'a' && half != 'p') return hour;
    q += !arab;
    if (q < end && *q == '.') q++, skip_any_blanks(&q, end); /* a. m., as in Spanish */
    if (q < end && !arab) {
        if ((*q++ | 32) != 'm') return -1;
        if (q < end && *q == '.') q++;
    }
    *p = q;
    return hour < 1 || hour > 12 ? -1 : hour % 12 + (half == 'p' ? 12 : 0);
}

static int skip_one_of(const uint8_t **p, const uint8_t *end, const char *const *texts) {
    if (*p >= end || **p < 128) return 0; /* as nearly always: no sign of another script */
    for (; *texts; texts++)
        if (skip_text(p, end, *texts)) {
            skip_any_blanks(p, end);
            return 1;
        }
    return 0;
}

/* Hours, minutes and seconds with a sign behind each of them, and the half of the day before them, if any. */
static const char *const MORNING[] = {"\xe5\x8d\x88\xe5\x89\x8d", "\xe4\xb8\x8a\xe5\x8d\x88", "\xec\x98\xa4\xec\xa0\x84", 0};
static const char *const AFTERNOON[] = {"\xe5\x8d\x88\xe5\xbe\x8c", "\xe4\xb8\x8b\xe5\x8d\x88", "\xec\x98\xa4\xed\x9b\x84", 0};
static const char *const HOURS[] = {"\xe6\x99\x82", "\xe6\x97\xb6", "\xec\x8b\x9c", 0};
static const char *const MINUTES[] = {"\xe5\x88\x86", "\xeb\xb6\x84", 0};
static const char *const SECONDS[] = {"\xe7\xa7\x92", "\xec\xb4\x88", 0};

static int read_signed_clock(const uint8_t **p, const uint8_t *end, int64_t *minute, int64_t *second) {
    *minute = 0;
    if (*p < end && digit(**p) < 10 && (!read_digits(p, 1, 2, minute) || !skip_one_of(p, end, MINUTES))) return 0;
    if (*p < end && digit(**p) < 10 && (!read_digits(p, 1, 2, second) || !skip_one_of(p, end, SECONDS))) return 0;
    return 1;
}

/* +02:00 and the like, of which `least` digits stand behind the sign. */
static int read_zone(const uint8_t **p, int least, double *seconds) {
    int64_t hour, minute;
    int sign = *(*p)++ == '-' ? 1 : -1;
    if (!read_digits(p, least, 2, &hour)) return 0;
    if (**p == ':') (*p)++;
    if (!read_digits(p, 2, 2, &minute)) minute = 0;
    *seconds += sign * (3600.0 * hour + 60.0 * minute);
    return 1;
}

/* 14:35, 14:35:10.5, 2:35 PM, 14h35; 14.35 only where a date stands before it: by itself that is a number. */
static int read_clock(const uint8_t **p, const uint8_t *end, int dated, double *seconds) {
    int64_t hour, minute, second = 0;
    double fraction = 0, unit = 0.1;
    int half = skip_one_of(p, end, MORNING) ? 0 : skip_one_of(p, end, AFTERNOON) ? 12 : -1;
    if (!read_digits(p, 1, 2, &hour)) return 0;
    if (half >= 0 && hour <= 12) hour = hour % 12 + half; /* some write 13 in the afternoon, and 0 for noon */
    if (skip_one_of(p, end, HOURS)) {
        if (!read_signed_clock(p, end, &minute, &second) || hour > 23 || minute > 59 || second > 60) return 0;
        *seconds += 3600.0 * hour + 60.0 * minute + second;
        return 1;
    }
    uint8_t mark = **p;
    if (mark != ':' && mark != 'h' && !(dated && mark == '.')) return 0;
    (*p)++;
    if (!read_digits(p, 2, 2, &minute)) return 0;
    if (*p < end && **p == (mark == '.' ? '.' : ':')) {
        (*p)++;
        if (!read_digits(p, 2, 2, &second)) return 0;
        if (*p < end && (**p == '.' || **p == ',')) /* at the end, a comma is the delimiter */
            for ((*p)++; digit(**p) < 10; unit /= 10) fraction += unit * digit(*(*p)++);
    }
    if (half < 0) hour = hour_of_day(p, end, hour);
    if (hour < 0 || hour > 23 || minute > 59 || second > 60) return 0;
    *seconds += 3600.0 * hour + 60.0 * minute + second + fraction;
    if (*p < end && **p == 'Z') {
        (*p)++;
    } else if (skip_text(p, end, " UTC") || skip_text(p, end, " GMT")) {
        if (*p < end && (**p == '+' || **p == '-')) return read_zone(p, 1, seconds);
    } else {
        const uint8_t *zone = *p + (end - *p > 1 && **p == ' ');
        if (zone < end && (*zone == '+' || *zone == '-')) {
            *p = zone;
            return read_zone(p, 2, seconds);
        }
    }
    return 1;
}

/* What follows a part of a date: one of - / . (a blank may follow the point) or the sign for year or month. */
static int read_mark(const uint8_t **p, const uint8_t *end, int i, uint8_t *mark) {
    static const char *signs[][2] = {{"\xe5\xb9\xb4", "\xe6\x9c\x88"}, {"\xeb\x85\x84", "\xec\x9b\x94"}};
    for (int script = 0; script < 2; script++) {
        if (i ? *mark != script + 1 : 0) continue;
        if (!skip_text(p, end, signs[script][i])) continue;
        *mark = (uint8_t)(script + 1);
        skip_any_blanks(p, end);
        return 1;
    }
    if (i == 0) *mark = **p;
    if (**p != *mark || (*mark != '-' && *mark != '/' && *mark != '.')) return 0;
    (*p)++;
    if (*mark == '.' && *p < end && **p == ' ') (*p)++;
    return 1;
}

static int64_t full_year(int64_t year) { return year + (year < 69 ? 2000 : 1900); } /* as POSIX has it */

/* Three numbers in the order that `style` says. */
static int read_numbered_day(const uint8_t **p, const uint8_t *end, int style, int64_t *year, int64_t *month, int64_t *day) {
    static const int places[3][3] = {{0, 1, 2}, {2, 1, 0}, {2, 0, 1}}; /* where year, month, day stand */
    const int *place = places[style & ORDER];
    int64_t part[3], digits[3];
    uint8_t mark = 0;
    if (style & COMPACT) { /* 20211231 */
        if (read_digits(p, 8, 8, &part[0]) == 0) return 0;
        *year = part[0] / 10000, *month = part[0] / 100 % 100, *day = part[0] % 100;
        return *year >= 1000;
    }
    for (int i = 0; i < 3; i++) {
        int is_year = i == place[0], least = !is_year ? 1 : style & SHORT_YEARS ? 2 : 4;
        if ((digits[i] = read_digits(p, least, is_year ? 4 : 2, &part[i])) == 0) return 0;
        if (i < 2 && !read_mark(p, end, i, &mark)) return 0;
    }
    if (mark == 1 && !skip_text(p, end, "\xe6\x97\xa5")) return 0;
    if (mark == 2 && !skip_text(p, end, "\xec\x9d\xbc")) return 0;
    if (mark == '.' && place[0] == 0 && *p < end && **p == '.') (*p)++;
    *year = part[place[0]], *month = part[place[1]], *day = part[place[2]];
    if (style & BUDDHIST && *year > 2300) *year -= 543;
    int64_t written = digits[place[0]];
    if (written == 3) return 0;
    if (written == 2) {
        if (mark == '.' && digits[0] + digits[1] + digits[2] != 6) return 0; /* 1.2.13 is a version */
        *year = full_year(*year);
    }
    return 1;
}

static int is_letter(uint8_t c) { return (c | 32) - 'a' < 26u || c > 127; }

/* The month that a word names, 0 for none. */
static int64_t month_named(const Months *months, const uint8_t *word, int64_t length) {
    for (int64_t i = 0; i < months->count; i++) {
        int32_t from = i ? months->ends[i - 1] : 0;
        if (months->ends[i] - from != length) continue;
        int64_t same = 0;
        while (same < length) {
            uint8_t c = word[same];
            if (((c - 'A') & 255) < 26) c |= 32;
            if (c != months->names[from + same]) break;
            same++;
        }
        if (same == length) return months->numbers[i];
    }
    return 0;
}

/* 23SEP2021, Jul 16, 2017, 16. Juli 2017, 2017-Jul-16: a word and two numbers, of which one has to be the year. */
static int read_named_day(const Months *months, const uint8_t **at, const uint8_t *end, int64_t *year, int64_t *month,
                          int64_t *day) {
    const uint8_t *p = *at;
    int64_t part[2], digits[2];
    int count = 0;
    *month = 0;
    while (p < end && (count < 2 || !*month)) {
        const uint8_t *from = p;
        if (digit(*p) < 10) {
            if (count == 2 || (digits[count] = read_digits(&p, 1, 4, &part[count])) == 3) return 0;
            count++;
        } else if (is_letter(*p) && *p != 0xc2) {
            while (p < end && is_letter(*p) && *p != 0xc2) p++;
            int64_t found = month_named(months, from, p - from);
            if (found > 12 && (p - from != 2 || count == 0)) { /* a day of the week, first of all */
                if (count || *month) return 0;
            } else if (found > 12) { /* de, th: between the parts */
                continue;
            } else {
                if (!found || *month) return 0;
                *month = found;
            }
        } else if (*p == ' ' || *p == '-' || *p == '/' || *p == '.' || *p == ',' || *p == '\'') {
            p++;
        } else if (!skip_text(&p, end, "\xc2\xa0")) {
            return 0;
        }
    }
    if (count < 2 || !*month) return 0;
    int year_at = digits[0] == 4 ? 0 : 1;
    if (digits[1 - year_at] > 2 || digits[year_at] == 1) return 0;
    *year = digits[year_at] == 2 ? full_year(part[year_at]) : part[year_at];
    *day = part[1 - year_at];
    *at = p + (p < end && *p == '.' && year_at == 0); /* 2021. máj 3. */
    return 1;
}

/* Polish and Russian write 31.12.2021 r., of the year; in UTF-8 or the code pages of Windows. */
static void skip_of_year(const uint8_t **p, const uint8_t *end) {
    const uint8_t *at = *p;
    skip_any_blanks(&at, end);
    if (!skip_text(&at, end, "r") && !skip_text(&at, end, "\xd0\xb3") && !skip_text(&at, end, "\xe3")) return;
    skip_text(&at, end, ".");
    if (at == end || *at == ' ' || *at == ',') *p = at;
}

/* 1435 or 143510 right behind a day of eight digits. */
static int read_packed_clock(const uint8_t **p, const uint8_t *end, double *seconds) {
    int64_t hour, minute, second = 0;
    if ((end - *p != 4 && end - *p != 6) || !read_digits(p, 2, 2, &hour) || !read_digits(p, 2, 2, &minute)) return 0;
    if (*p < end && !read_digits(p, 2, 2, &second)) return 0;
    *seconds += 3600.0 * hour + 60.0 * minute + second;
    return hour < 24 && minute < 60 && second < 61;
}

/* A date of one style, or a date and a time, as days since 1970 (UTC). */
static int read_styled_date(const Months *months, const uint8_t *p, const uint8_t *end, int style, double *out) {
    static const int8_t month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year, month, day;
    if (!(style & NAMED ? read_named_day(months, &p, end, &year, &month, &day)
                        : read_numbered_day(&p, end, style, &year, &month, &day)))
        return 0;
    if (month < 1 || month > 12 || day < 1 || day > month_days[month - 1]) return 0;
    if (year == 9999 || (style & COMPACT && year >= 3000)) return 0; /* 31.12.9999 is no day that anybody means */
    if (month == 2 && day == 29 && (year % 4 || (year % 100 == 0 && year % 400))) return 0;
    double seconds = 86400.0 * days_since_1970(year, month, day);
    if (style & COMPACT && p < end && digit(*p) < 10 && !read_packed_clock(&p, end, &seconds)) return 0;
    skip_of_year(&p, end);
    if (p < end && (*p == 'T' || *p == ' ' || *p == ',' || (style & NAMED && *p == ':'))) {
        p++;
        if (p < end && *p == ' ') p++;
        if (!read_clock(&p, end, 1, &seconds)) return 0;
    }
    *out = seconds / 86400.0;
    return p == end;
}

/* A date of a style or, where they may stand among its own, one that tells itself: year first, or the month a name. */
static int read_date(const Months *months, const uint8_t *p, const uint8_t *end, int style, double *out) {
    if (read_styled_date(months, p, end, style, out)) return 1;
    return style & OTHERS_TOO && (read_styled_date(months, p, end, YEAR_FIRST, out) ||
                                  read_styled_date(months, p, end, DAY_FIRST | NAMED, out));
}

/* A time of day as hours after midnight. */
static int read_time(const uint8_t *p, const uint8_t *end, double *out) {
    double seconds = 0;
    if (!read_clock(&p, end, 0, &seconds) || p != end) return 0;
    *out = seconds / 3600.0;
    return 1;
}

EXPORT int time_of(const uint8_t *text, int64_t length, double *out) { return read_time(text, text + length, out); }

EXPORT int date_of(const Months *months, const uint8_t *text, int64_t length, int style, double *out) {
    return read_date(months, text, text + length, style, out);
}
