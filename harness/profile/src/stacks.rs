//! From copies of stacks to addresses.
//!
//! I1. Memory is read in the copy alone: what lies beyond it ends the stack. I2. A stack has at most [`FRAMES`]
//! addresses, however its tables loop.

use framehop::{CacheNative, FrameAddress, Unwinder, UnwinderNative};

use crate::modules::{self, Loaded};
use crate::signal::Copy;

/// Frames that are kept of a stack, the newest.
const FRAMES: usize = 512;
/// How often modules are looked for anew, because of code that is in none of them.
const LOOKS: u32 = 8;

/// Unwinds stacks of this process.
pub(crate) struct Stacks {
    unwinder: UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
    modules: Vec<Loaded>,
    looks: u32,
}

impl Stacks {
    /// Of the modules that are there now.
    pub(crate) fn new() -> Self {
        let mut stacks = Self {
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new(),
            modules: Vec::new(),
            looks: 0,
        };
        stacks.look();
        stacks
    }

    pub(crate) fn modules(&self) -> &[Loaded] {
        &self.modules
    }

    /// Adds the modules that were loaded since.
    fn look(&mut self) {
        self.looks += 1;
        for mapped in modules::mapped() {
            let known = self.modules.iter().any(|module| module.path == mapped.path);
            if !known && let Some((loaded, unwound)) = mapped.load() {
                self.modules.push(loaded);
                self.unwinder.add_module(unwound);
            }
        }
    }

    /// Addresses of the interrupted instruction and of those that called, the newest first.
    pub(crate) fn unwind(&mut self, copy: &Copy<'_>) -> Vec<u64> {
        let pc = copy.registers.pc;
        let known = self.modules.iter().any(|module| module.addresses.contains(&pc));
        if !known && self.looks < LOOKS {
            self.look();
        }
        let start = copy.registers.sp;
        let mut read = |address: u64| {
            let at = usize::try_from(address.checked_sub(start).ok_or(())?).map_err(|_| ())?;
            let bytes = copy.stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| ())?))
        };
        let registers = copy.registers.to_unwind();
        let mut frames = self.unwinder.iter_frames(pc, registers, &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        // An error is the end of what can be told.
        while addresses.len() < FRAMES
            && let Ok(Some(frame)) = frames.next()
        {
            addresses.push(looked_up(frame));
        }
        addresses
    }
}

/// An address inside the call, not behind it: what follows a call may be another function's.
fn looked_up(frame: FrameAddress) -> u64 {
    frame.address_for_lookup()
}
