/* The 16 bytes that name a device, for cuda.h and driver_types.h. */
#ifndef GINRS_CPU_UUID_H_
#define GINRS_CPU_UUID_H_
struct CUuuid_st { char bytes[16]; };
typedef struct CUuuid_st CUuuid;
#endif
