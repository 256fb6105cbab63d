/* The processor's level and the build's facts. `__builtin_cpu_supports` asks the operating system too
   (XCR0), so a level that the system does not save and restore is not offered. */
#ifndef GEMMLAB_FEATURES_H
#define GEMMLAB_FEATURES_H

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static int cpu_has_level(int level) {
    __builtin_cpu_init();
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
    int v2 = HAS("popcnt") && HAS("sse3") && HAS("ssse3") && HAS("sse4.1") && HAS("sse4.2");
    int v3 = v2 && HAS("avx") && HAS("avx2") && HAS("bmi") && HAS("bmi2") && HAS("fma");
    int v4 = v3 && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl");
#undef HAS
    return level == 2 ? v2 : level == 3 ? v3 : level == 4 ? v4 : 0;
}

static int cpu_has_dot(void) {
    return cpu_has_level(4) && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
}

/* AMX: tiles, bfloat16 and int8. The tiles' registers are large, so Linux wants to be asked for them, once. */
static int cpu_has_amx(void) {
    unsigned a, b, c, d;
    if (!cpu_has_level(4) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 22 & 13) != 13) return 0;
#if defined(__linux__) && defined(SYS_arch_prctl)
    const int request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return 0;
#endif
}

/* Vendor, family and model, as in "GenuineIntel-6-207": the extended fields are added as the manuals of both vendors say. */
static void cpu_processor(char *name, size_t size) {
    unsigned a, b, c, d;
    char vendor[13] = "";
    *name = 0;
    if (!__get_cpuid(0, &a, &b, &c, &d)) return;
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    unsigned family = a >> 8 & 15, model = a >> 4 & 15;
    if (family == 6 || family == 15) model += (a >> 16 & 15) << 4;
    if (family == 15) family += a >> 20 & 255;
    snprintf(name, size, "%s-%u-%u", vendor, family, model);
}
#else
#include <stddef.h>
static int cpu_has_level(int level) { (void)level; return 0; }
static int cpu_has_dot(void) { return 0; }
static int cpu_has_amx(void) { return 0; }
static void cpu_processor(char *name, size_t size) { (void)size; *name = 0; }
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
