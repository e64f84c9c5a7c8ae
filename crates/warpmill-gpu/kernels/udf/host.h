// Translated Python functions for the host: keywords of CUDA C++, and types. Devices bring their own.

#include <math.h>

#define __device__
#define __forceinline__ inline

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef __int128 i128;
typedef unsigned __int128 u128;

inline double __longlong_as_double(i64 bits) {
    double x;
    __builtin_memcpy(&x, &bits, sizeof(x));
    return x;
}
