/* CHECK for host programs: prints what did not hold and where; the program's exit status is the number of failures. */
#ifndef HEADERS_CHECK_H_
#define HEADERS_CHECK_H_
#include <stdio.h>
static int failures = 0;
#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition) && ++failures < 20) printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
  } while (0)
#endif
