//! Threads that take pieces, and the order in which their gradients are added.
//!
//! I1. Gradients are added in the order of the pieces, whichever thread is done first: a thread that is ahead leaves
//! its sum with the others and takes the next piece. So the bits do not depend on threads.
//!
//! The threads live as long as the call: the scope that starts them joins them, and a failure of one lets the others
//! end after the piece they have.

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

/// Parameters of the largest model: every thread has gradients of its own, 64 MiB of them.
const MOST_PARAMETERS: i64 = 16 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Crew {
    angles: Arc<Angles>,
    activations: Activations,
    /// Turns with an engine that shares the cores: a piece is a segment.
    pub(crate) turns: Turns,
    /// Room that no thread is using.
    passes: Mutex<Vec<Pass>>,
    /// Gradients that no thread is using, all 0.
    buffers: Mutex<Vec<Params>>,
}

/// Gradients of pieces, summed up to the first that is not there.
struct Sum<'a> {
    total: Params,
    next: usize,
    ahead: BTreeMap<usize, Params>,
    free: &'a Mutex<Vec<Params>>,
}

impl Crew {
    /// A crew for a small model on the CPU; `None` for any other.
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

    /// What there is to score of every piece.
    pub(crate) fn score(&self, params: &Params, pieces: &[Piece<'_>]) -> Result<Vec<Scores>, TorchError> {
        self.work(params, pieces, |pass, weights, index| {
            Ok(pieces[index].scores(&pass.predict(weights, &pieces[index])?))
        })
    }

    /// The `most` most probable tokens at each position, by piece and sample (T rows; none where nothing is trained).
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

    /// Forward, the loss's derivatives by each log-probability from `derive`, backward: adds to `gradients`. `derive`
    /// gets a piece and its scores, gives the derivatives of each sample, and something to return for it.
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

    /// Calls `each` with the index of every piece, on as many threads as libtorch would take here; results are in the
    /// order of the pieces.
    fn work<T: Send>(
        &self,
        params: &Params,
        pieces: &[Piece<'_>],
        each: impl Fn(&mut Pass, &Weights, usize) -> Result<T, TorchError> + Sync,
    ) -> Result<Vec<T>, TorchError> {
        let threads = usize::try_from(tch::get_num_threads()).unwrap_or(1).clamp(1, pieces.len().max(1));
        let next = AtomicUsize::new(0);
        let work = |params: &Params| -> Result<Vec<(usize, T)>, TorchError> {
            // One thread takes one piece: no operation is shared between threads.
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

/// What a mutex holds is whole between two statements, so a thread that panicked has left nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
