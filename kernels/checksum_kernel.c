/* CRC-32C (Castagnoli), by the processor's own instruction where it has one, and in three lanes: each instruction waits
   for the one before it, so one lane alone would use a third of the processor. Processors that multiply polynomials in
   wide registers fold 256 bytes into the next 256 at a time, which is faster still (Gopal et al., Fast CRC Computation
   for Generic Polynomials Using PCLMULQDQ, Intel 2009). What is checked is not known here. */

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HARDWARE __attribute__((target("sse4.2")))
#define STEP(crc, word) _mm_crc32_u64((crc), (word))
#define WIDE __attribute__((target("avx512f,vpclmulqdq,sse4.2")))
#define FOLD 256 /* bytes in four registers */
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define HARDWARE
#define STEP(crc, word) __crc32cd((uint32_t)(crc), (word))
#endif

#define EXPORT __attribute__((visibility("default")))
#define POLYNOMIAL 0x82F63B78u /* reversed: the lowest bit is the highest power */
#define LANE (32 << 10)        /* bytes; joining two lanes costs as much as 1 KB */

typedef uint32_t (*Update)(uint32_t crc, const uint8_t *p, int64_t n);

static uint32_t table[8][256], over_a_lane;
#ifdef WIDE
static uint64_t over_a_fold[2]; /* for the earlier and the later half of 16 bytes */
#endif
static Update update;

/* a * b modulo the polynomial. */
static uint32_t times(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int i = 0; i < 32; i++) {
        product ^= b & (0u - (a >> 31));
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & (0u - (b & 1)));
    }
    return product;
}

/* x^(8 n): what a CRC is multiplied by when n zero bytes follow. */
static uint32_t power(int64_t n) {
    uint32_t result = 1u << 31, square = 1u << 23;
    for (; n; n >>= 1, square = times(square, square))
        if (n & 1) result = times(result, square);
    return result;
}

static uint32_t by_table(uint32_t crc, const uint8_t *p, int64_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t low = crc ^ (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n > 0; p++, n--) crc = table[0][(crc ^ *p) & 255] ^ crc >> 8;
    return crc;
}

#ifdef HARDWARE
HARDWARE static inline uint64_t word_at(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

HARDWARE static uint32_t by_hardware(uint32_t before, const uint8_t *p, int64_t n) {
    uint64_t crc = before; /* as wide as the instruction's own operand: no conversion in the loop */
    for (; n >= 3 * LANE; p += 3 * LANE, n -= 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (int64_t i = 0; i < LANE; i += 8) {
            crc = STEP(crc, word_at(p + i));
            second = STEP(second, word_at(p + LANE + i));
            third = STEP(third, word_at(p + 2 * LANE + i));
        }
        crc = times(over_a_lane, times(over_a_lane, (uint32_t)crc) ^ (uint32_t)second) ^ third;
    }
    for (; n >= 8; p += 8, n -= 8) crc = STEP(crc, word_at(p));
    return by_table((uint32_t)crc, p, n);
}

static int has_hardware(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2");
#else
    return 1;
#endif
}
#endif

#ifdef WIDE
/* Four times 16 bytes, moved 256 bytes on, and those that are there. */
WIDE static inline __m512i folded(__m512i bytes, __m512i over, __m512i there) {
    __m512i earlier = _mm512_clmulepi64_epi128(bytes, over, 0x00), later = _mm512_clmulepi64_epi128(bytes, over, 0x11);
    return _mm512_ternarylogic_epi64(earlier, later, there, 0x96); /* exclusive or of the three */
}

WIDE static uint32_t by_wide(uint32_t before, const uint8_t *p, int64_t n) {
    if (n < 4 * FOLD) return by_hardware(before, p, n);
    __m512i over = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)over_a_fold[1], (long long)over_a_fold[0]));
    __m512i sum[4];
    for (int i = 0; i < 4; i++) sum[i] = _mm512_loadu_si512(p + 64 * i);
    sum[0] = _mm512_xor_si512(sum[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)before)));
    for (p += FOLD, n -= FOLD; n >= FOLD; p += FOLD, n -= FOLD)
        for (int i = 0; i < 4; i++) sum[i] = folded(sum[i], over, _mm512_loadu_si512(p + 64 * i));
    uint8_t rest[FOLD]; /* has the remainder of all that was folded into it */
    for (int i = 0; i < 4; i++) _mm512_storeu_si512(rest + 64 * i, sum[i]);
    return by_hardware(by_hardware(0, rest, FOLD), p, n);
}
#endif

__attribute__((constructor)) static void prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (POLYNOMIAL & (0u - (crc & 1)));
        table[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++) table[k][i] = table[0][table[k - 1][i] & 255] ^ table[k - 1][i] >> 8;
    over_a_lane = power(LANE);
    update = by_table;
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
#ifdef HARDWARE
    if (has_hardware()) update = by_hardware;
#endif
#ifdef WIDE
    over_a_fold[0] = (uint64_t)power(FOLD + 4) << 1, over_a_fold[1] = (uint64_t)power(FOLD - 4) << 1;
    if (has_hardware() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")) update = by_wide;
#endif
}

/* The CRC of what has the CRC `before`, followed by these bytes. */
EXPORT uint32_t crc32c(uint32_t before, const uint8_t *p, int64_t n) { return ~update(~before, p, n); }

/* The same without the instruction: for processors that have none, and to prove the others by. */
EXPORT uint32_t crc32c_by_table(uint32_t before, const uint8_t *p, int64_t n) { return ~by_table(~before, p, n); }

/* The same by lanes: for processors without wide registers. */
EXPORT uint32_t crc32c_by_lanes(uint32_t before, const uint8_t *p, int64_t n) {
#ifdef HARDWARE
    if (has_hardware()) return ~by_hardware(~before, p, n);
#endif
    return ~by_table(~before, p, n);
}
