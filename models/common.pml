/* What all models share: small words, and the number of faults that one execution may meet. */

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define NOBODY 255
#define DEAD 254              /* an owner that is no more: a process that comes in its place has another id */

#ifndef FAULTS
#define FAULTS 2
#endif

/* Every crash, freeze, lost answer, broken connection, restart and release costs one. When none is left, whatever is
   still to be done has to come to its end by itself. */
byte faults = FAULTS;
