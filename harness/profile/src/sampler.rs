//! Sampling from its start to its end.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::drain::{Drained, drain};
use crate::error::SamplerError;
use crate::flame;
use crate::signal;
use crate::tree::Tree;

/// Processor time of the process between two samples. The kernel looks at its clock a few hundred times a second, so
/// less than this would come out as this.
pub const PERIOD: Duration = Duration::from_millis(5);

/// A process that is being sampled. Dropping it ends that, too.
#[derive(Debug)]
pub struct Sampler {
    /// Its end is what the thread waits for. One message at most.
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<Drained>>,
}

/// What sampling came to.
#[derive(Debug)]
pub struct Sampled {
    /// Samples that were taken.
    pub samples: u64,
    /// Samples that there was no room for.
    pub lost: u64,
    tree: Tree,
}

impl Sampler {
    /// Samples every thread of this process from now on. Once in a process; threads that block SIGPROF are left out.
    ///
    /// # Errors
    /// [`SamplerError`]: it cannot be done here, and nothing is sampled.
    pub fn start() -> Result<Self, SamplerError> {
        let reader = signal::start(PERIOD)?;
        let (stop, stopped) = sync_channel(1);
        let body = move || drain(reader, &stopped);
        let thread = Builder::new().name("clawrl-profile".to_owned()).spawn(body);
        Ok(Self { stop: Some(stop), thread: Some(thread.map_err(SamplerError::Thread)?) })
    }

    /// Ends sampling, and gives addresses their names: seconds, where programs are large.
    ///
    /// # Errors
    /// [`SamplerError::Broken`].
    pub fn stop(mut self) -> Result<Sampled, SamplerError> {
        self.stop = None;
        let drained = self.thread.take().and_then(|thread| thread.join().ok());
        let Drained { tree, lost } = drained.ok_or(SamplerError::Broken)?;
        Ok(Sampled { samples: tree.samples, lost, tree })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // Whoever drops it does not want what it has.
            let _ = thread.join();
        }
    }
}

impl Sampled {
    /// The flame graph, as one SVG file. A click on a frame enlarges it.
    #[must_use]
    pub fn flame_graph(&self, title: &str) -> String {
        flame::render(&self.tree, title)
    }

    /// Whether a function or thread was seen whose name is one that is wanted.
    #[must_use]
    pub fn names(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.tree.names(&wanted)
    }
}
