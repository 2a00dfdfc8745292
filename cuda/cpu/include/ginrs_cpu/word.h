/* The unsigned integer of N bytes through which a value of that size is read and written whole. */
#ifndef GINRS_CPU_WORD_H_
#define GINRS_CPU_WORD_H_
#include <stddef.h>
#include <stdint.h>

namespace ginrs_cpu {
template <size_t N>
struct WordOf {}; /* other sizes have none */
template <>
struct WordOf<1> { typedef uint8_t Type; };
template <>
struct WordOf<2> { typedef uint16_t Type; };
template <>
struct WordOf<4> { typedef uint32_t Type; };
template <>
struct WordOf<8> { typedef uint64_t Type; };
}  // namespace ginrs_cpu
#endif
