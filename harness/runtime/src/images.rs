//! Retention of container images on this machine, from its settings and a plan's needs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use clawrl_container::{EvictedImages, ImageRetention};
use clawrl_core::{EnvSpec, ImageSource, ImageSpec, RunPlan, SandboxKind, TaskSpec};

use crate::environment::Variable;
use crate::error::RuntimeError;
use crate::progress::Progress;

/// Path of the ledger of images in the user's cache folder.
const LEDGER: &str = "clawrl/images.json";

/// Settings for every plan.
#[derive(Debug)]
pub(super) struct ImageSettings {
    ledger: PathBuf,
    budget: Option<u64>,
    evicted: Arc<EvictedImages>,
}

impl ImageSettings {
    /// Reads the settings from the environment. `None` without a cache folder and a budget.
    ///
    /// # Errors
    /// [`RuntimeError::Refused`] for an invalid budget; [`RuntimeError::Unavailable`] for a budget without a cache folder.
    pub(super) fn of_environment() -> Result<Option<Self>, RuntimeError> {
        let budget = Variable::ImageBudget.value().map(|text| bytes(&text)).transpose()?;
        let of_home = || Variable::Home.path().map(|home| home.join(".cache"));
        let cache = Variable::CacheHome.path().or_else(of_home);
        let Some(cache) = cache.filter(|cache| cache.is_absolute()) else {
            return match budget {
                None => Ok(None),
                Some(_) => Err(RuntimeError::unavailable(
                    "a budget for images needs a folder for the list of those that are ours",
                )
                .with_help(
                    "set HOME or XDG_CACHE_HOME to an absolute path, or unset CLAWRL_IMAGE_BUDGET_GIB",
                )),
            };
        };
        Ok(Some(Self { ledger: cache.join(LEDGER), budget, evicted: Arc::default() }))
    }

    /// The retention of a backend that runs a plan.
    pub(super) fn keeping(&self, plan: &RunPlan) -> ImageRetention {
        ImageRetention {
            ledger: self.ledger.clone(),
            budget: self.budget,
            to_come: to_come(plan),
            evicted: Arc::clone(&self.evicted),
        }
    }

    /// Reports images that were removed since the last report.
    pub(super) fn tell(&self, progress: &dyn Progress) {
        let (images, bytes) = self.evicted.take();
        if images > 0 {
            let gib = bytes as f64 / f64::from(1 << 30);
            progress.note(format_args!(
                "images removed for CLAWRL_IMAGE_BUDGET_GIB, least recently used first: {images} ({gib:.2} GiB)"
            ));
        }
    }
}

fn bytes(text: &str) -> Result<u64, RuntimeError> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1e9).contains(number));
    let refused = || {
        let message = format!("CLAWRL_IMAGE_BUDGET_GIB is `{text}`, which is no size");
        RuntimeError::refused(message).with_help("say how many GiB, such as 100 or 0.5")
    };
    // The number is not negative and far below the maximum of a u64.
    Ok((number.ok_or_else(refused)? * f64::from(1 << 30)) as u64)
}

/// Number of containers of each image that the slots of a plan need.
fn to_come(plan: &RunPlan) -> HashMap<ImageSource, u32> {
    let mut to_come = HashMap::new();
    for slot in &plan.slots {
        for image in images(&plan.tasks[slot.task.0 as usize]) {
            *to_come.entry(image.source.clone()).or_insert(0) += 1;
        }
    }
    to_come
}

/// The images of the agent and of a separate verifier.
fn images(task: &TaskSpec) -> impl Iterator<Item = &ImageSpec> {
    let (kind, image) = match &task.env {
        EnvSpec::Terminal(terminal) => (terminal.sandbox, terminal.image.as_ref()),
        EnvSpec::Toolcall(toolcall) => toolcall
            .workspace
            .as_ref()
            .map_or((SandboxKind::None, None), |own| (own.sandbox, own.image.as_ref())),
        EnvSpec::Custom(custom) => {
            custom.workspace().map_or((SandboxKind::None, None), |own| (own.sandbox, own.image.as_ref()))
        }
        EnvSpec::Swe(swe) => (swe.workspace.sandbox, swe.workspace.image.as_ref()),
        _ => (SandboxKind::None, None),
    };
    let apart = task.verifier.as_ref().and_then(|verifier| verifier.apart.as_ref());
    let apart = apart.and_then(|apart| apart.image.as_ref().or(image));
    [image, apart].into_iter().flatten().filter(move |_| kind == SandboxKind::Container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_number_of_gib() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        };
        check("100", Some(100 << 30));
        check("0.5", Some(1 << 29));
        check("0", Some(0));
        check("-1", None);
        check("100G", None);
        check("NaN", None);
        check("inf", None);
    }
}
