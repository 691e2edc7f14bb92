/* Numbers, plain and with marks around them; part of csv_kernel.c. */
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
    if (thousands && *p == thousands && digits >= 1 && digits <= 3 && *first != '0') { /* 0,125 is no 125 */
        while (*p == thousands && digit(p[1]) < 10 && digit(p[2]) < 10 && digit(p[3]) < 10 && digit(p[4]) >= 10) {
            mantissa = 1000 * mantissa + 100 * digit(p[1]) + 10 * digit(p[2]) + digit(p[3]);
            p += 4;
            digits += 3;
        }
    }
    if (*p == decimal) {
        const uint8_t *point = p++;
        *zero_led = 0; /* 00.5 is no code */
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
