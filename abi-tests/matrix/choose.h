/* Which cases of a source are compiled. tests.txt lists them, tests/matrix.rs compiles them.
 *
 *   CASE_C(t)     T number t compiles with NVIDIA's headers and with ours
 *   CASE_N(t, i)  its i-th part compiles with ours; NVIDIA's refuse it
 *   CASE_X(t, i)  its i-th part must not compile
 *
 * Without a choice all C cases are compiled, and with OURS all N cases; with -DRUN_C=t, -DRUN_N=t*100+i or
 * -DRUN_X=t*100+i that one alone. */
#ifndef MATRIX_CHOOSE_H_
#define MATRIX_CHOOSE_H_
#if !defined(RUN_C) && !defined(RUN_N) && !defined(RUN_X)
#define RUN_C 0
#ifdef OURS
#define RUN_N 0
#endif
#endif
#ifndef RUN_C
#define RUN_C -1
#endif
#ifndef RUN_N
#define RUN_N -1
#endif
#ifndef RUN_X
#define RUN_X -1
#endif
#define CASE_C(t) (RUN_C == 0 || RUN_C == (t))
#define CASE_N(t, i) (RUN_N == 0 || RUN_N == (t) * 100 + (i))
#define CASE_X(t, i) (RUN_X == (t) * 100 + (i))
#endif
