// What Rust calls. Every function is `noexcept`: a C++ exception ends here, as text.
//
// A returned `char *` is an error in words, or nullptr when all went well; unless said otherwise. The caller gives
// it back to clawrl_free_text.
#pragma once

#include <cstddef>
#include <cstdint>

namespace at {
class Tensor;
}

extern "C" {

struct clawrl_adamw_parameter {
  const at::Tensor *param;
  const at::Tensor *grad;
  const at::Tensor *exp_avg;
  const at::Tensor *exp_avg_sq;
};

struct clawrl_adamw_settings {
  double learning_rate;
  double beta1;
  double beta2;
  double weight_decay;
  double epsilon;
};

// One update in place; `update` counts from 1.
char *clawrl_fused_adamw(const clawrl_adamw_parameter *parameters, size_t count, uint64_t update,
                         const clawrl_adamw_settings *settings) noexcept;

// The version of the loaded libtorch: major, minor and patch in the three highest bytes.
uint64_t clawrl_libtorch_version() noexcept;

// Where the loaded libtorch_cpu.so is; nullptr when the loader does not know it under this name.
char *clawrl_libtorch_path() noexcept;

// Loads a shared library for the whole process, for good.
char *clawrl_load_library(const char *path) noexcept;

struct clawrl_gpu_bytes {
  int64_t allocated;
  int64_t peak;
  int64_t reserved;
};

// Causal attention within each of several segments, on a GPU, with a graph where inputs have one: query (R x H x E), key and value
// (R x K x E), all fp16 or bf16; `starts` (B + 1), i32, from 0 to R; none is longer than `longest`. Gives (R x H x E), which the
// caller owns.
char *clawrl_flash_attention(const at::Tensor *query, const at::Tensor *key, const at::Tensor *value,
                             const at::Tensor *starts, int64_t longest, at::Tensor **attended) noexcept;

// Whether a GPU multiplies fp32 matrices with factors rounded to 10 bits.
void clawrl_allow_tf32(bool allow) noexcept;

// What the process has of a GPU's memory.
char *clawrl_gpu_memory(int8_t device, clawrl_gpu_bytes *bytes) noexcept;
char *clawrl_reset_gpu_peak(int8_t device) noexcept;

// Gives what is cached and not used back to the driver.
char *clawrl_release_gpu_memory() noexcept;

void clawrl_free_text(char *text) noexcept;
}
