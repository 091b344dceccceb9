// Binds the functions that glibc 2.34 moved into libc.so.6 to their first versions, so that a library linked on a new
// system loads on glibc 2.17. There the old versions live in libdl.so.2 and libpthread.so.0: link with
// `-Wl,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0 -Wl,--as-needed`. For every file that calls one of them.
#pragma once

#if __has_include(<gnu/libc-version.h>)
#if defined(__x86_64__)
#define MAMBA_GLIBC_FLOOR "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define MAMBA_GLIBC_FLOOR "GLIBC_2.17"
#endif
#endif

#if defined(MAMBA_GLIBC_FLOOR)
#define MAMBA_FROM_FIRST_GLIBC(name) __asm__(".symver " #name "," #name "@" MAMBA_GLIBC_FLOOR)
MAMBA_FROM_FIRST_GLIBC(dlopen);
MAMBA_FROM_FIRST_GLIBC(dlsym);
MAMBA_FROM_FIRST_GLIBC(dlerror);
MAMBA_FROM_FIRST_GLIBC(dlclose);
MAMBA_FROM_FIRST_GLIBC(pthread_create);
MAMBA_FROM_FIRST_GLIBC(pthread_join);
MAMBA_FROM_FIRST_GLIBC(pthread_once);
#undef MAMBA_FROM_FIRST_GLIBC
#endif
