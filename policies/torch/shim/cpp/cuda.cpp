// What a GPU's pass needs and tch does not wrap. Nothing here is linked with libtorch's CUDA half: libtorch_cpu dispatches to it
// once it is loaded.
#include "shim.h"

#include <cstring>
#include <exception>
#include <tuple>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

namespace {

template <typename Work> char *in_words(Work work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const c10::Error &error) {
    return strdup(error.what_without_backtrace());
  } catch (const std::exception &error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("an exception without a description");
  }
}

c10::DeviceAllocator &allocator() {
  c10::Allocator *const found = c10::GetAllocator(c10::DeviceType::CUDA);
  auto *const caching = dynamic_cast<c10::DeviceAllocator *>(found);
  TORCH_CHECK(caching != nullptr && caching->initialized(), "no GPU was used yet");
  return *caching;
}

constexpr auto ALL_POOLS = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

} // namespace

char *clawrl_flash_attention(const at::Tensor *query, const at::Tensor *key, const at::Tensor *value,
                             const at::Tensor *starts, int64_t longest, at::Tensor **attended) noexcept {
  return in_words([&] {
    TORCH_CHECK(query->is_cuda() && key->is_cuda() && value->is_cuda() && starts->is_cuda(), "flash attention is for a GPU");
    auto found = at::_flash_attention_forward(*query, *key, *value, *starts, *starts, longest, longest,
                                              /*dropout_p=*/0.0, /*is_causal=*/true, /*return_debug_mask=*/false);
    *attended = new at::Tensor(std::get<0>(std::move(found)));
  });
}

void clawrl_allow_tf32(bool allow) noexcept { at::globalContext().setAllowTF32CuBLAS(allow); }

char *clawrl_gpu_memory(int8_t device, clawrl_gpu_bytes *bytes) noexcept {
  return in_words([&] {
    const auto stats = allocator().getDeviceStats(device);
    const auto &allocated = stats.allocated_bytes[ALL_POOLS];
    *bytes = {allocated.current, allocated.peak, stats.reserved_bytes[ALL_POOLS].current};
  });
}

char *clawrl_reset_gpu_peak(int8_t device) noexcept {
  return in_words([&] { allocator().resetPeakStats(device); });
}

char *clawrl_release_gpu_memory() noexcept {
  return in_words([&] { allocator().emptyCache(); });
}
