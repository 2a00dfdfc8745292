/* See cuda_runtime.h. */
#pragma once
namespace cooperative_groups {
struct thread_block {};
}  // namespace cooperative_groups
