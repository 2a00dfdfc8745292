/* DOCA's device verbs, by the names and layouts that kernels for NVIDIA's GDAKI backend use; the bodies are ginrs' own
 * (ginrs_device/gin/gdaki_*.cuh). A TU that has included a copy of DOCA's own headers before keeps that copy. */
#ifndef DOCA_GPUNETIO_DEVICE_H
#define DOCA_GPUNETIO_DEVICE_H
#include "common/doca_gpunetio_verbs_def.h"
#include "common/doca_gpunetio_verbs_dev.h"
#include "device/doca_gpunetio_dev_verbs_common.cuh"
#include "device/doca_gpunetio_dev_verbs_cq.cuh"
#include "device/doca_gpunetio_dev_verbs_qp.cuh"
#include "device/doca_gpunetio_dev_verbs_onesided.cuh"
#include "device/doca_gpunetio_dev_verbs_counter.cuh"
#endif
