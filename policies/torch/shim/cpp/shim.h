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

void clawrl_free_text(char *text) noexcept;
}
