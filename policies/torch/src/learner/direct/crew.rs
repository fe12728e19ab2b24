//! A pool of threads that process pieces, with a fixed order for adding their gradients.
//!
//! I1. Gradients are added in the order of the pieces, regardless of which thread finishes first: a thread that is ahead
//! stores its sum and takes the next piece. So the bits do not depend on the threads.
//!
//! The threads live during one call: the scope that starts them joins them. If one fails, the others end after their
//! current piece.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use tch::{Device, Kind};

use super::pass::{Angles, Pass, Weights};
use super::piece::Piece;
use crate::configure_threads;
use crate::engine::kernels::LANES;
use crate::error::TorchError;
use crate::learner::backward::{Activations, Gradients};
use crate::learner::micro_batch::{Derivatives, Scores};
use crate::model::{Params, Rope};
use crate::turns::Turns;

/// Maximum number of parameters: every thread has its own gradients, up to 64 MiB.
const MOST_PARAMETERS: i64 = 16 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Crew {
    angles: Arc<Angles>,
    activations: Activations,
    /// Arbiter between the learner and an engine on the same cores: a piece is one segment.
    pub(crate) turns: Turns,
    /// Passes that no thread is using.
    passes: Mutex<Vec<Pass>>,
    /// Gradient buffers that no thread is using, all 0.
    buffers: Mutex<Vec<Params>>,
}

/// Sum of the gradients of all pieces before the first unfinished one.
struct Sum<'a> {
    total: Params,
    next: usize,
    ahead: BTreeMap<usize, Params>,
    free: &'a Mutex<Vec<Params>>,
}

impl Crew {
    /// A thread pool for a small model on the CPU; `None` for any other model.
    pub(crate) fn of(
        params: &Params,
        rope: &Rope,
        activations: Activations,
    ) -> Result<Option<Self>, TorchError> {
        let layout = params.layout();
        let fits = params.flat().device() == Device::Cpu
            && params.flat().kind() == Kind::Float
            && layout.numel() <= MOST_PARAMETERS
            && layout.config().head_dim % LANES as i64 == 0;
        if !fits {
            return Ok(None);
        }
        Ok(Some(Self {
            angles: Arc::new(Angles::of(layout.config(), rope)?),
            activations,
            turns: Turns::default(),
            passes: Mutex::default(),
            buffers: Mutex::default(),
        }))
    }

    /// Scores every piece.
    pub(crate) fn score(&self, params: &Params, pieces: &[Piece<'_>]) -> Result<Vec<Scores>, TorchError> {
        self.work(params, pieces, |pass, weights, index| {
            Ok(pieces[index].scores(&pass.predict(weights, &pieces[index])?))
        })
    }

    /// The `most` most probable tokens at each position, by piece and sample (T rows; none without trained tokens).
    pub(crate) fn most_probable(
        &self,
        params: &Params,
        pieces: &[Piece<'_>],
        most: usize,
    ) -> Result<Vec<Vec<Vec<Vec<u32>>>>, TorchError> {
        self.work(params, pieces, |pass, weights, index| {
            Ok(pieces[index].spread(&pass.most_probable(weights, &pieces[index], most)?))
        })
    }

    /// Runs forward, calls `derive` for the derivatives of the loss with respect to each log-probability, runs backward and
    /// adds to `gradients`. `derive` takes a piece and its scores, and returns the derivatives of each sample and a value
    /// that is passed on to the caller.
    pub(crate) fn descend<T: Send>(
        &self,
        params: &Params,
        pieces: &[Piece<'_>],
        gradients: &Gradients,
        derive: impl Fn(&Piece<'_>, Scores) -> (Vec<Derivatives>, T) + Sync,
    ) -> Result<Vec<T>, TorchError> {
        let sum = Mutex::new(Sum {
            total: gradients.params.share(),
            next: 0,
            ahead: BTreeMap::new(),
            free: &self.buffers,
        });
        let layout = params.layout();
        self.work(params, pieces, |pass, weights, index| {
            let piece = &pieces[index];
            let (by_sample, result) = derive(piece, piece.scores(&pass.predict(weights, piece)?));
            let free = locked(&self.buffers).pop();
            let buffer = match free {
                Some(buffer) => buffer,
                None => Params::zeros(Arc::clone(layout), Device::Cpu)?,
            };
            pass.back(weights, piece, &piece.derivatives(&by_sample), &buffer)?;
            locked(&sum).add(index, buffer)?;
            Ok(result)
        })
    }

    /// Calls `each` with the index of every piece, on as many threads as libtorch would use here; results are in the order
    /// of the pieces.
    fn work<T: Send>(
        &self,
        params: &Params,
        pieces: &[Piece<'_>],
        each: impl Fn(&mut Pass, &Weights, usize) -> Result<T, TorchError> + Sync,
    ) -> Result<Vec<T>, TorchError> {
        let threads = usize::try_from(tch::get_num_threads()).unwrap_or(1).clamp(1, pieces.len().max(1));
        let next = AtomicUsize::new(0);
        let work = |params: &Params| -> Result<Vec<(usize, T)>, TorchError> {
            // Each thread processes its own piece, so no operation uses several threads.
            configure_threads(NonZeroUsize::MIN)?;
            let _guard = tch::no_grad_guard();
            let weights = Weights::of(params)?;
            let free = locked(&self.passes).pop();
            let mut pass = match free {
                Some(pass) => pass,
                None => Pass::new(params.layout().config(), Arc::clone(&self.angles), self.activations)?,
            };
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= pieces.len() {
                    break;
                }
                let _turn = self.turns.learn();
                done.push((index, each(&mut pass, &weights, index)?));
            }
            locked(&self.passes).push(pass);
            Ok(done)
        };
        let done = thread::scope(|scope| {
            let mut workers = Vec::with_capacity(threads);
            for _ in 0..threads {
                let (params, work, next) = (params.share(), &work, &next);
                let worker = move || {
                    let done = work(&params);
                    if done.is_err() {
                        next.store(usize::MAX / 2, Ordering::Relaxed);
                    }
                    done
                };
                let started = thread::Builder::new().name("learner".to_owned()).spawn_scoped(scope, worker);
                workers.push(
                    started.map_err(|error| TorchError::Model(format!("cannot start a thread: {error}")))?,
                );
            }
            let mut all = Vec::with_capacity(pieces.len());
            for worker in workers {
                all.extend(worker.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            Ok::<_, TorchError>(all)
        });
        let mut done = done?;
        done.sort_unstable_by_key(|&(index, _)| index);
        Ok(done.into_iter().map(|(_, result)| result).collect())
    }
}

impl Sum<'_> {
    fn add(&mut self, index: usize, gradients: Params) -> Result<(), TorchError> {
        self.ahead.insert(index, gradients);
        while let Some(gradients) = self.ahead.remove(&self.next) {
            let _ = self.total.flat().shallow_clone().f_add_(gradients.flat())?;
            let _ = gradients.flat().shallow_clone().f_zero_()?;
            locked(self.free).push(gradients);
            self.next += 1;
        }
        Ok(())
    }
}

/// The content of these mutexes is consistent between two statements, so a panicked thread leaves no partial state.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
