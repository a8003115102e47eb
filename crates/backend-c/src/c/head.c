#include <stddef.h>
#include <stdint.h>

/* Loops stay loops, none becomes a call of memcpy or memset; and products and sums are not
   contracted behind the model's back. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((no_builtin)), apply_to = function)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("no-tree-loop-distribute-patterns", "fp-contract=off")
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
/* With so few registers loads stay where they are used, and a kernel is a function. */
#pragma GCC optimize("no-schedule-insns", "no-inline-functions-called-once")
#if defined(__ARM_FEATURE_MVE)
#pragma GCC optimize("no-tree-ter")
#endif
#endif
/* That elements are stored before they are read was checked where this was generated; what a model
   compares may be known before it runs. */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"
/* What stands for vectors or instructions is not called where there are some. */
#pragma GCC diagnostic ignored "-Wunused-function"
#else
#pragma STDC FP_CONTRACT OFF
#endif

