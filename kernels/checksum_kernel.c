/* CRC-32C (Castagnoli), by the processor's own instruction where it has one, and in three lanes: each instruction waits
   for the one before it, so one lane alone would use a third of the processor. What is checked is not known here. */

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#define HARDWARE __attribute__((target("sse4.2")))
#define STEP(crc, word) _mm_crc32_u64((crc), (word))
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
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
#else
    return 1;
#endif
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
#ifdef HARDWARE
    if (has_hardware()) update = by_hardware;
#endif
}

/* The CRC of what has the CRC `before`, followed by these bytes. */
EXPORT uint32_t crc32c(uint32_t before, const uint8_t *p, int64_t n) { return ~update(~before, p, n); }

/* The same without the instruction: for processors that have none, and to prove the other by. */
EXPORT uint32_t crc32c_by_table(uint32_t before, const uint8_t *p, int64_t n) { return ~by_table(~before, p, n); }
