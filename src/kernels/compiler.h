/* Two sentences to the compiler, for inner loops that GCC otherwise spoils. */
#ifndef ORK_KERNELS_COMPILER_H
#define ORK_KERNELS_COMPILER_H

/* Stands in the inner of two loops that must not be interchanged: bricks would be read across instead of along. */
#define ORK_KEEP_ORDER() __asm__ volatile("")

/* x86: says that a vector is used here. GCC 12 otherwise keeps two copies of an array of sums and moves between them
 * through memory in every turn of the loop, or loads a weight anew for each use. */
#define ORK_KEEP_IN_REGISTER(vector) __asm__("" : "+v"(vector))

#endif
