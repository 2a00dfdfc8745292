/* T027, T058: which instructions the device code comes to. One kernel each; the test looks for them by name. */
#include "../matrix/case.h"

using Cta = ncclCoopCta;
extern "C" __global__ void lsaReleaseAcquire(ncclDevComm d) {
  ncclLsaBarrierSession<Cta> bar{Cta(), d, ncclTeamTagLsa(), 0};
  bar.sync(Cta(), cuda::memory_order_acq_rel);
}
extern "C" __global__ void lsaRelaxed(ncclDevComm d) {
  ncclLsaBarrierSession<Cta> bar{Cta(), d, ncclTeamTagLsa(), 0};
  bar.sync(Cta(), cuda::memory_order_relaxed);
}
extern "C" __global__ void lsaMultimem(ncclDevComm d) {
  ncclLsaBarrierSession<Cta> bar{Cta(), d, ncclTeamTagLsa(), 0, true};
  bar.sync(Cta(), cuda::memory_order_acq_rel);
}
extern "C" __global__ void bcastThread(int* o) {
  if (threadIdx.x == 3) *o = ncclCoopBcast(ncclCoopThread(), *o, 0);
}
extern "C" __global__ void putFenced(ncclDevComm d, ncclWindow_t w) {
  ncclGin(d, 0).put(ncclTeamWorld(d), 1, w, 0, w, 0, 8);
}
extern "C" __global__ void putReleased(ncclDevComm d, ncclWindow_t w) {
  ncclGin(d, 0).put(ncclTeamWorld(d), 1, w, 0, w, 0, 8, ncclGin_None{}, ncclGin_None{}, ncclCoopThread{},
                    ncclGin_None{}, cuda::thread_scope_system, cuda::thread_scope_system);
}
extern "C" __global__ void putWithSignal(ncclDevComm d, ncclWindow_t w) {
  ncclGin(d, 0).put(ncclTeamWorld(d), 1, w, 0, w, 0, 8, ncclGin_SignalInc{0});
}
/* A put's fence by itself, of a window whatever its mark. */
extern "C" __global__ void fenceBeforeSignal(ncclWindow_t w) {
  using namespace ginrs::gin;
  releasePayload(releaseLeft(GINRS_FLAG_SAME_GPU, w, true, cuda::thread_scope_thread));
  releasePayload(releaseLeft(GINRS_FLAG_SAME_GPU, w, true, cuda::thread_scope_device));
}
extern "C" __global__ void fenceBeforeNone(ncclWindow_t w) {
  ginrs::gin::releasePayload(ginrs::gin::releaseLeft(GINRS_FLAG_SAME_GPU, w, false, cuda::thread_scope_thread));
}
extern "C" __global__ void putByBlock(ncclDevComm d, ncclWindow_t w, size_t bytes) {
  ncclGin net(d, 0);
  net.put(ncclTeamWorld(d), 1, w, 0, w, bytes, bytes, ncclGin_SignalInc{0}, ncclGin_CounterInc{0}, Cta());
  net.waitSignal(Cta(), 0, 1);
  net.flush(Cta());
}
