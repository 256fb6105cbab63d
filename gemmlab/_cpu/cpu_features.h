/* The processor's level and the build's facts. `__builtin_cpu_supports` asks the operating system too
   (XCR0), so a level that the system does not save and restore is not offered. */
#ifndef GEMMLAB_FEATURES_H
#define GEMMLAB_FEATURES_H

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
static int cpu_has_level(int level) {
    __builtin_cpu_init();
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
    int v2 = HAS("popcnt") && HAS("sse3") && HAS("ssse3") && HAS("sse4.1") && HAS("sse4.2");
    int v3 = v2 && HAS("avx") && HAS("avx2") && HAS("bmi") && HAS("bmi2") && HAS("fma");
    int v4 = v3 && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl");
#undef HAS
    return level == 2 ? v2 : level == 3 ? v3 : level == 4 ? v4 : 0;
}
#else
static int cpu_has_level(int level) { (void)level; return 0; }
#endif

static int openmp_version(void) {
#ifdef _OPENMP
    return _OPENMP;
#else
    return 0;
#endif
}

static const char *compiler(void) {
#if defined(__clang__)
    return "Clang " __clang_version__;
#elif defined(__GNUC__)
    return "GCC " __VERSION__;
#elif defined(_MSC_VER)
    return "MSVC";
#else
    return "unknown";
#endif
}
#endif
