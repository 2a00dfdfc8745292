/* T001 to T003 on the host, with the formats that only the host's half includes. */
#include "layout.h"

#include <nccl_device/gin/gdaki/gin_gdaki_device_host_common.h>
#include <nccl_device/gin/proxy/gin_proxy_device_host_common.h>

SIZE(ncclGinProxyGpuCtx_t, 48);
AT(ncclGinProxyGpuCtx_t, nranks, 0);
AT(ncclGinProxyGpuCtx_t, queueSize, 4);
AT(ncclGinProxyGpuCtx_t, queues, 8);
AT(ncclGinProxyGpuCtx_t, pis, 16);
AT(ncclGinProxyGpuCtx_t, cis, 24);
AT(ncclGinProxyGpuCtx_t, counters, 32);
AT(ncclGinProxyGpuCtx_t, signals, 40);
SIZE(ncclGinProxyGfd_t, 64);
SIZE(ncclGinProxyQword_t, 8);
static_assert(alignof(ncclGinProxyGfd_t) == 1, "alignment of ncclGinProxyGfd_t");
static_assert(ncclGinProxyGfdHeader == 0 && ncclGinProxyGfdInlineLow == 1 && ncclGinProxyGfdSrcOff == 1 &&
                  ncclGinProxyGfdInlineHigh == 2 && ncclGinProxyGfdSrcHandle == 2 && ncclGinProxyGfdDstOff == 3 &&
                  ncclGinProxyGfdDstHandle == 4 && ncclGinProxyGfdCompletion == 5 && ncclGinProxyGfdSignalVal == 6 &&
                  ncclGinProxyGfdReserved == 7 && ncclGinProxyGfdQwords == 8,
              "ncclGinProxyGfdQwordIdx_t");
static_assert(ncclGinProxyOpPut == 1 && ncclGinProxyOpBaseMask == 1 && ncclGinProxyOpWithInline == 2 &&
                  ncclGinProxyOpWithCounter == 4 && ncclGinProxyOpWithSignalInc == 8 &&
                  ncclGinProxyOpWithSignalAdd == 16 && ncclGinProxyOpComplMask == ~1,
              "ncclGinProxyOp_t");

SIZE(ncclGinGdakiGPUContext, 72);
AT(ncclGinGdakiGPUContext, gdqp, 0);
AT(ncclGinGdakiGPUContext, companion_gdqp, 8);
AT(ncclGinGdakiGPUContext, counters_table, 16);
AT(ncclGinGdakiGPUContext, signals_table, 40);
AT(ncclGinGdakiGPUContext, sink_buffer_lkey, 64);
SIZE(ncclGinGdakiMemHandle, 16);
AT(ncclGinGdakiMemHandle, rkeys, 0);
AT(ncclGinGdakiMemHandle, lkey, 8);
SIZE(ncclGinGdakiGlobalGPUBufferTable<uint64_t>, 24);

static_assert(NCCL_GIN_PROXY_VERSION == 100 && NCCL_GIN_GDAKI_VERSION == 100, "versions of the handles");

#ifdef OURS
#include <ginrs_device/marker.h>
AT(ncclDevComm, ginrsMark, 141);
AT(ncclDevComm, resourceWindow_inlined.ginrsMark, 76);
AT(ncclGinCtx, ginrs.mark, 12);
SIZE(ginrsCommExt, 40);
AT(ginrsCommExt, version, 8);
AT(ginrsCommExt, bytes, 12);
AT(ginrsCommExt, abortWord, 16);
AT(ginrsCommExt, abortHost, 24);
AT(ginrsCommExt, lsaSize, 32);
SIZE(ginrsGinExt, 128);
AT(ginrsGinExt, version, 8);
AT(ginrsGinExt, hintMask, 12);
AT(ginrsGinExt, abortWord, 16);
AT(ginrsGinExt, hintHead, 24);
AT(ginrsGinExt, hintRing, 32);
AT(ginrsGinExt, abortHost, 40);
AT(ginrsGinExt, cachedCis, 48);
AT(ginrsGinExt, flags, 56);
AT(ginrsGinExt, directStride4G, 60);
AT(ginrsGinExt, directSignals, 64);
AT(ginrsGinExt, storeLargest, 72);
AT(ginrsGinExt, signals, 80);
AT(ginrsGinExt, counters, 84);
AT(ginrsGinExt, refusal, 88);
AT(ginrsGinExt, directQueues, 96);
AT(ginrsGinExt, directPis, 104);
AT(ginrsGinExt, directCis, 112);
AT(ginrsGinExt, awaited, 120);
static_assert(sizeof(ncclWindow_vidmem) == GINRS_WINDOW_EXT_OFFSET, "the extension begins right behind a window");
static_assert(GINRS_REFUSAL(1, 40, 32) == 0x0100000280000020ull, "refusals are {kind, id, count}");
static_assert(sizeof(ncclDevCommWindowTable) == GINRS_COMM_EXT_OFFSET, "the extension begins right behind a page");
static_assert(sizeof(ncclGinProxyGpuCtx_t) <= GINRS_GIN_EXT_OFFSET, "the extension lies behind the context");
static_assert(GINRS_HINT(-1, 5) == 0xffffffff00000005ull && GINRS_HINT(3, 0) == 0x300000000ull, "hints are {peer, end}");
#endif
int main() {}
