#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
/* Loops stay loops: none becomes a call of memcpy or memset. */
#pragma clang attribute push(__attribute__((no_builtin)), apply_to = function)
#endif
#if defined(__GNUC__) && !defined(__clang__)
/* The same, and products and sums are not contracted behind the model's back. */
#pragma GCC optimize("no-tree-loop-distribute-patterns", "fp-contract=off")
/* Whether an element was stored before it is read is checked where the code is generated. */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#else
#pragma STDC FP_CONTRACT OFF
#endif

