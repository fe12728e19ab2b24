//! AdamW, fused: one call of libtorch for all parameters.
//!
//! I1. One update equals the formula below, element by element, to rounding. I2. Mismatched tensors are an error, and then
//! nothing is written.
//!
//! With g the gradient, t the number of the update and every operation element-wise:
//! `p -= lr * decay * p`; `m += (1 - beta1) * (g - m)`; `v = beta2 * v + (1 - beta2) * g^2`;
//! `p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)`.
//!
//! Source: Decoupled weight decay regularization (arXiv 1711.05101), algorithm 2, as in `torch.optim.AdamW`: the
//! decay is multiplied by the learning rate. Deviations: none.

// `foreign` is C++, which takes the tensors as pointers.
#![allow(unsafe_code)]

use std::num::NonZeroU64;

use tch::Tensor;
use thiserror::Error;

use crate::foreign::{ForeignParameter, ForeignSettings, clawrl_fused_adamw, take_text};

/// Why an update was not made.
#[derive(Debug, Error)]
#[error("fused AdamW: {0}")]
pub struct AdamwError(String);

/// One parameter with its gradient and moments: same shape, floating-point type and device, all contiguous.
///
/// The tensors are handles: all referenced memory except the gradient is written.
#[derive(Debug, Clone, Copy)]
pub struct AdamwParameter<'a> {
    /// The weights.
    pub param: &'a Tensor,
    /// Their gradient.
    pub grad: &'a Tensor,
    /// The running mean of gradients, the first moment.
    pub exp_avg: &'a Tensor,
    /// The running mean of squared gradients, the second moment.
    pub exp_avg_sq: &'a Tensor,
}

/// The hyperparameters of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamwSettings {
    /// Step size.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Decoupled weight decay, multiplied by the learning rate.
    pub weight_decay: f64,
    /// Added to the divisor.
    pub epsilon: f64,
}

/// Makes update number `update`, counted from 1, of all `parameters` in place. All are on one device.
///
/// The number enters the bias correction as fp32, which is exact for the first 16 million updates.
pub fn fused_adamw(
    parameters: &[AdamwParameter<'_>],
    update: NonZeroU64,
    settings: &AdamwSettings,
) -> Result<(), AdamwError> {
    let foreign: Vec<ForeignParameter> = parameters
        .iter()
        .map(|parameter| ForeignParameter {
            param: parameter.param.as_ptr(),
            grad: parameter.grad.as_ptr(),
            exp_avg: parameter.exp_avg.as_ptr(),
            exp_avg_sq: parameter.exp_avg_sq.as_ptr(),
        })
        .collect();
    let AdamwSettings { learning_rate, beta1, beta2, weight_decay, epsilon } = *settings;
    let settings = ForeignSettings { learning_rate, beta1, beta2, weight_decay, epsilon };
    // SAFETY: the pointers are those of live tensors, borrowed for the call, and `torch::Tensor *` on the other side,
    // which checks shapes, types, devices and layout before it writes, and catches every exception.
    let error =
        unsafe { clawrl_fused_adamw(foreign.as_ptr(), foreign.len(), update.get(), &raw const settings) };
    // SAFETY: it has just been returned and is taken once.
    match unsafe { take_text(error) } {
        None => Ok(()),
        Some(reason) => Err(AdamwError(reason)),
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    const SETTINGS: AdamwSettings =
        AdamwSettings { learning_rate: 0.05, beta1: 0.9, beta2: 0.98, weight_decay: 0.1, epsilon: 1e-8 };

    /// A parameter's four tensors, owned.
    struct Owned {
        param: Tensor,
        grad: Tensor,
        exp_avg: Tensor,
        exp_avg_sq: Tensor,
    }

    impl Owned {
        fn zeros(shape: &[i64], kind: Kind, device: Device) -> Self {
            let tensor = || Tensor::f_zeros(shape, (kind, device)).unwrap();
            Self { param: tensor(), grad: tensor(), exp_avg: tensor(), exp_avg_sq: tensor() }
        }

        fn borrowed(&self) -> AdamwParameter<'_> {
            AdamwParameter {
                param: &self.param,
                grad: &self.grad,
                exp_avg: &self.exp_avg,
                exp_avg_sq: &self.exp_avg_sq,
            }
        }
    }

    fn number(update: u64) -> NonZeroU64 {
        NonZeroU64::new(update).unwrap()
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        let plain = tensor.f_detach().unwrap().f_to_device(Device::Cpu).unwrap();
        Vec::try_from(plain.f_to_kind(Kind::Double).unwrap().f_view([-1]).unwrap()).unwrap()
    }

    /// The formula of the header for one number; returns parameter and moments.
    fn scalar_adamw([p, m, v]: [f64; 3], g: f64, update: i32, settings: &AdamwSettings) -> [f64; 3] {
        let AdamwSettings { learning_rate, beta1, beta2, weight_decay, epsilon } = *settings;
        let p = p - learning_rate * weight_decay * p;
        let m = m + (1.0 - beta1) * (g - m);
        let v = beta2 * v + (1.0 - beta2) * g * g;
        let denominator = v.sqrt() / (1.0 - beta2.powi(update)).sqrt() + epsilon;
        [p - learning_rate / (1.0 - beta1.powi(update)) * m / denominator, m, v]
    }

    /// The CPU, and a GPU if libtorch sees one.
    fn devices() -> Vec<Device> {
        let _cuda = crate::load_cuda();
        if tch::Cuda::is_available() { vec![Device::Cpu, Device::Cuda(0)] } else { vec![Device::Cpu] }
    }

    /// I1, over eight updates of two parameters at once, against the scalar formula in f64.
    fn check_updates(kind: Kind, settings: &AdamwSettings, tolerance: f64) {
        for device in devices() {
            check_updates_on(device, kind, settings, tolerance);
        }
    }

    fn check_updates_on(device: Device, kind: Kind, settings: &AdamwSettings, tolerance: f64) {
        let shapes: [&[i64]; 2] = [&[3, 5], &[7]];
        let owned: Vec<Owned> = shapes.iter().map(|shape| Owned::zeros(shape, kind, device)).collect();
        let mut expected: Vec<Vec<[f64; 3]>> = Vec::new();
        for (index, Owned { param, .. }) in owned.iter().enumerate() {
            let start: Vec<f64> = (0..param.numel()).map(|i| (i as f64 + index as f64).sin()).collect();
            param.shallow_clone().f_copy_(&Tensor::from_slice(&start).f_view_as(param).unwrap()).unwrap();
            let _ = param.f_set_requires_grad(true).unwrap();
            expected.push(values(param).iter().map(|&p| [p, 0.0, 0.0]).collect());
        }
        for update in 1..=8 {
            for (Owned { grad, .. }, expected) in owned.iter().zip(&mut expected) {
                let wave: Vec<f64> = (0..grad.numel()).map(|i| ((i as i32 * update) as f64).cos()).collect();
                grad.shallow_clone().f_copy_(&Tensor::from_slice(&wave).f_view_as(grad).unwrap()).unwrap();
                for (state, g) in expected.iter_mut().zip(values(grad)) {
                    *state = scalar_adamw(*state, g, update, settings);
                }
            }
            let borrowed: Vec<AdamwParameter<'_>> = owned.iter().map(Owned::borrowed).collect();
            fused_adamw(&borrowed, number(update as u64), settings).unwrap();
            for (Owned { param, exp_avg, exp_avg_sq, .. }, expected) in owned.iter().zip(&expected) {
                for (column, tensor) in [param, exp_avg, exp_avg_sq].into_iter().enumerate() {
                    for (found, state) in values(tensor).into_iter().zip(expected) {
                        let error = (found - state[column]).abs();
                        assert!(
                            error <= tolerance,
                            "{kind:?} on {device:?}, update {update}: {found} is not {state:?}[{column}]"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn an_update_is_the_formula() {
        check_updates(Kind::Double, &SETTINGS, 1e-12);
        check_updates(Kind::Float, &SETTINGS, 1e-5);
        check_updates(Kind::Double, &AdamwSettings { weight_decay: 0.0, ..SETTINGS }, 1e-12);
        check_updates(Kind::Double, &AdamwSettings { beta1: 0.0, beta2: 0.5, ..SETTINGS }, 1e-12);
    }

    #[test]
    fn nothing_to_update_is_fine() {
        fused_adamw(&[], number(1), &SETTINGS).unwrap();
        let empty = Owned::zeros(&[0, 4], Kind::Float, Device::Cpu);
        fused_adamw(&[empty.borrowed()], number(1), &SETTINGS).unwrap();
    }

    /// I2: `spoil` makes the second of two parameters invalid; the first does not change.
    fn check_refused(spoil: impl FnOnce(&mut Owned), expected: &str) {
        let mut owned = [(); 2].map(|()| Owned::zeros(&[2, 3], Kind::Float, Device::Cpu));
        let _ = owned[0].param.f_fill_(1.0).unwrap();
        let _ = owned[0].grad.f_fill_(1.0).unwrap();
        spoil(&mut owned[1]);
        let borrowed: Vec<AdamwParameter<'_>> = owned.iter().map(Owned::borrowed).collect();
        let error = fused_adamw(&borrowed, number(1), &SETTINGS).unwrap_err();
        assert_eq!(error.to_string(), format!("fused AdamW: {expected}"));
        assert_eq!(values(&owned[0].param), [1.0; 6]);
        assert_eq!(values(&owned[0].exp_avg), [0.0; 6]);
    }

    #[test]
    fn tensors_that_do_not_fit_are_refused() {
        let zeros = |shape: &[i64], kind| Tensor::f_zeros(shape, (kind, Device::Cpu)).unwrap();
        check_refused(
            |owned| owned.grad = zeros(&[3, 2], Kind::Float),
            "the gradient of parameter 1 has shape [3, 2], the parameter [2, 3]",
        );
        check_refused(
            |owned| owned.exp_avg = zeros(&[1], Kind::Float),
            "the first moment of parameter 1 has shape [1], the parameter [2, 3]",
        );
        check_refused(
            |owned| owned.exp_avg_sq = zeros(&[2, 3], Kind::Double),
            "the second moment of parameter 1 is Double, the parameter Float",
        );
        check_refused(
            |owned| owned.grad = zeros(&[3, 2], Kind::Float).f_transpose(0, 1).unwrap(),
            "the gradient of parameter 1 is not contiguous",
        );
        check_refused(|owned| owned.grad = Tensor::new(), "the gradient of parameter 1 is undefined");
        check_refused(|owned| owned.param = Tensor::new(), "parameter 1 is undefined");
        check_refused(
            |owned| *owned = Owned::zeros(&[2], Kind::Int64, Device::Cpu),
            "parameter 1 is Long, which is no floating-point type",
        );
    }
}
