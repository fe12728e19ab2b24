// AdamW over at::_fused_adamw_, which tch does not wrap.
#include "shim.h"

#include <cstring>
#include <exception>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

namespace {

// libtorch's CPU kernel walks raw memory by the parameter's element count, so whatever does not fit has to be
// refused before it gets there.
void check_against(const at::Tensor &param, const at::Tensor &other, const char *name, size_t index) {
  TORCH_CHECK(other.defined(), name, " of parameter ", index, " is undefined");
  TORCH_CHECK(other.sizes() == param.sizes(), name, " of parameter ", index, " has shape ", other.sizes(),
              ", the parameter ", param.sizes());
  TORCH_CHECK(other.scalar_type() == param.scalar_type(), name, " of parameter ", index, " is ", other.scalar_type(),
              ", the parameter ", param.scalar_type());
  TORCH_CHECK(other.device() == param.device(), name, " of parameter ", index, " is on ", other.device(),
              ", the parameter on ", param.device());
  TORCH_CHECK(other.is_contiguous(), name, " of parameter ", index, " is not contiguous");
}

void check(const clawrl_adamw_parameter &parameter, const at::Device &device, size_t index) {
  const at::Tensor &param = *parameter.param;
  TORCH_CHECK(param.defined(), "parameter ", index, " is undefined");
  TORCH_CHECK(at::isFloatingType(param.scalar_type()), "parameter ", index, " is ", param.scalar_type(),
              ", which is no floating-point type");
  TORCH_CHECK(param.device() == device, "parameter ", index, " is on ", param.device(), ", the first one on ", device);
  TORCH_CHECK(param.is_contiguous(), "parameter ", index, " is not contiguous");
  check_against(param, *parameter.grad, "the gradient", index);
  check_against(param, *parameter.exp_avg, "the first moment", index);
  check_against(param, *parameter.exp_avg_sq, "the second moment", index);
}

void fused_adamw(const clawrl_adamw_parameter *parameters, size_t count, uint64_t update,
                 const clawrl_adamw_settings &settings) {
  if (count == 0) {
    return;
  }
  TORCH_CHECK(parameters[0].param->defined(), "parameter 0 is undefined");
  const at::Device device = parameters[0].param->device();
  std::vector<at::Tensor> params, grads, exp_avgs, exp_avg_sqs;
  for (size_t index = 0; index < count; ++index) {
    check(parameters[index], device, index);
    params.push_back(*parameters[index].param);
    grads.push_back(*parameters[index].grad);
    exp_avgs.push_back(*parameters[index].exp_avg);
    exp_avg_sqs.push_back(*parameters[index].exp_avg_sq);
  }
  // Parameters are leaves that require gradients, and this writes to them.
  const at::NoGradGuard no_grad;
  // The kernel reads the count from one fp32 scalar a parameter; it only reads, so all share one.
  const at::Tensor step = at::full({}, static_cast<double>(update), at::TensorOptions().dtype(at::kFloat).device(device));
  const std::vector<at::Tensor> steps(count, step);
  at::_fused_adamw_(params, grads, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps, settings.learning_rate,
                    settings.beta1, settings.beta2, settings.weight_decay, settings.epsilon, /*amsgrad=*/false,
                    /*maximize=*/false);
}

} // namespace

char *clawrl_fused_adamw(const clawrl_adamw_parameter *parameters, size_t count, uint64_t update,
                         const clawrl_adamw_settings *settings) noexcept {
  try {
    fused_adamw(parameters, count, update, *settings);
    return nullptr;
  } catch (const c10::Error &error) {
    return strdup(error.what_without_backtrace());
  } catch (const std::exception &error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("an exception without a description");
  }
}
