/* crc32.c - CRC-32, eight bytes at a time: Kounavis and Berry, "A systematic approach to building
 * high performance software-based CRC generators", 2005. */
#include "model/file/crc32.h"

void weir_crc32_begin(weir_crc32 *c)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i;
        for (int bit = 0; bit < 8; bit++)
            v = v >> 1 ^ (v & 1 ? 0xedb88320u : 0);
        c->table[0][i] = v;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++)
            c->table[k][i] = c->table[k - 1][i] >> 8 ^ c->table[0][c->table[k - 1][i] & 255];
    c->state = ~0u;
}

void weir_crc32_add(weir_crc32 *c, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t             s = c->state;

    for (; n >= 8; n -= 8, p += 8) {
        s ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        s = c->table[7][s & 255] ^ c->table[6][s >> 8 & 255] ^ c->table[5][s >> 16 & 255] ^
            c->table[4][s >> 24] ^ c->table[3][p[4]] ^ c->table[2][p[5]] ^ c->table[1][p[6]] ^
            c->table[0][p[7]];
    }
    for (; n > 0; n--, p++)
        s = s >> 8 ^ c->table[0][(s ^ *p) & 255];
    c->state = s;
}
