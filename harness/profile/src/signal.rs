//! The signal, its handler, and the places where the handler leaves its copies.
//!
//! The one place with foreign calls. I1. The handler reads the clock of nobody, allocates nothing and locks nothing: it
//! takes a free place by one atomic exchange, or counts a loss. I2. A stack is copied by the kernel, which stops where
//! no memory is mapped, so that no stack pointer, however odd, is an access of ours. I3. `errno` is what it was. I4. The
//! places are never freed and the handler stays: a signal that was on its way when the timer was stopped finds both.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use libc::{c_int, c_ulong, c_void, iovec, itimerval, pid_t, sigaction, siginfo_t, timeval, ucontext_t};

use crate::error::SamplerError;
use crate::registers::Registers;

/// Copies that may wait to be read: what sixty cores leave in the time between two looks at them.
const PLACES: usize = 256;
/// The newest part of a stack, which is all of it but for deep recursion. Only what was ever copied takes memory.
const STACK_BYTES: usize = 64 << 10;
/// A stack is copied in pieces of this size, because the kernel copies a piece whole or not at all.
const PIECE_BYTES: u64 = 4096;
const PIECES: usize = STACK_BYTES / PIECE_BYTES as usize + 1;

const FREE: u8 = 0;
const BEING_WRITTEN: u8 = 1;
const WRITTEN: u8 = 2;

static PLACES_OF_PROCESS: OnceLock<Places> = OnceLock::new();

/// One sample, as the handler took it.
pub(crate) struct Copy<'a> {
    pub(crate) thread: pid_t,
    pub(crate) registers: Registers,
    /// From the stack pointer on.
    pub(crate) stack: &'a [u8],
}

/// Where copies are left and found.
pub(crate) struct Places {
    heads: Box<[Place]>,
    /// `PLACES` times `STACK_BYTES`, never freed.
    stacks: *mut u8,
    next: AtomicUsize,
    lost: AtomicU64,
    open: AtomicBool,
    process: pid_t,
}

struct Place {
    state: AtomicU8,
    head: UnsafeCell<Head>,
}

#[derive(Clone, Copy, Default)]
struct Head {
    thread: pid_t,
    registers: Registers,
    stack_bytes: usize,
}

// SAFETY: a place and its part of `stacks` are touched only by whoever moved its state from FREE to BEING_WRITTEN, up to
// the store of WRITTEN, and then by the one reader up to the store of FREE; `take` needs `&mut` of what there is one of.
unsafe impl Sync for Places {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Places {}

/// The right to read copies. There is one.
pub(crate) struct Reader {
    places: &'static Places,
}

/// Starts the timer: from now on every thread of this process is sampled.
///
/// # Errors
/// [`SamplerError`]; nothing is left behind but a handler that does nothing.
pub(crate) fn start(period: Duration) -> Result<Reader, SamplerError> {
    check_free()?;
    // SAFETY: it has no condition.
    let process = unsafe { libc::getpid() };
    check_copying(process)?;
    let mut fresh = false;
    let places = PLACES_OF_PROCESS.get_or_init(|| {
        fresh = true;
        Places::new(process)
    });
    if !fresh {
        return Err(SamplerError::Taken);
    }
    install().map_err(SamplerError::Timer)?;
    set_timer(period).map_err(SamplerError::Timer)?;
    Ok(Reader { places })
}

impl Reader {
    /// Stops the timer. What was left before can still be read.
    pub(crate) fn stop(&self) {
        // It was accepted with an interval, so it is with none; and a signal more does no harm (I4).
        let _ = set_timer(Duration::ZERO);
        self.places.open.store(false, Ordering::Release);
    }

    /// Samples that found no free place.
    pub(crate) fn lost(&self) -> u64 {
        self.places.lost.load(Ordering::Relaxed)
    }

    /// Reads everything that was left, and frees its places.
    pub(crate) fn take(&mut self, mut read: impl FnMut(Copy<'_>)) {
        for (at, place) in self.places.heads.iter().enumerate() {
            if place.state.load(Ordering::Acquire) != WRITTEN {
                continue;
            }
            // SAFETY: a written place is nobody's but the reader's, and there is one reader, borrowed mutably here. The
            // handler wrote `stack_bytes` bytes there, at most as many as the place has.
            let (head, stack) = unsafe {
                let head = *place.head.get();
                (head, std::slice::from_raw_parts(self.places.stack(at), head.stack_bytes))
            };
            read(Copy { thread: head.thread, registers: head.registers, stack });
            place.state.store(FREE, Ordering::Release);
        }
    }
}

impl Places {
    fn new(process: pid_t) -> Self {
        let head = || Place { state: AtomicU8::new(FREE), head: UnsafeCell::default() };
        Self {
            heads: (0..PLACES).map(|_| head()).collect(),
            stacks: Box::leak(vec![0; PLACES * STACK_BYTES].into_boxed_slice()).as_mut_ptr(),
            next: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            open: AtomicBool::new(true),
            process,
        }
    }

    fn stack(&self, at: usize) -> *mut u8 {
        // SAFETY: `at` is a position in `heads`, of which there are as many as parts of the allocation.
        unsafe { self.stacks.add(at * STACK_BYTES) }
    }

    /// Leaves a copy. Called by the handler.
    fn leave(&self, context: &ucontext_t) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % PLACES;
        let place = &self.heads[at];
        let taken = place.state.compare_exchange(FREE, BEING_WRITTEN, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let registers = Registers::saved(context);
        // SAFETY: the place is ours until it is stored as written, its part of `stacks` is STACK_BYTES long, and gettid
        // has no condition.
        unsafe {
            let stack_bytes = copied(self.process, registers.sp, self.stack(at)).unwrap_or(0);
            let thread = libc::syscall(libc::SYS_gettid) as pid_t;
            *place.head.get() = Head { thread, registers, stack_bytes };
        }
        place.state.store(WRITTEN, Ordering::Release);
    }
}

/// The handler.
extern "C" fn on_signal(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    let Some(places) = PLACES_OF_PROCESS.get() else { return };
    if !places.open.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: errno is the thread's own, and the kernel hands a handler that asked for it (SA_SIGINFO) a context that
    // lives until it returns.
    unsafe {
        let errno = *libc::__errno_location();
        places.leave(&*context.cast::<ucontext_t>());
        *libc::__errno_location() = errno;
    }
}

/// Copies up to `STACK_BYTES` of this process's memory, as far as it is mapped. Safe in a handler.
///
/// # Safety
/// `to` has room for `STACK_BYTES`.
unsafe fn copied(process: pid_t, from: u64, to: *mut u8) -> Option<usize> {
    let end = from.checked_add(STACK_BYTES as u64)?;
    let mut pieces = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; PIECES];
    let (mut count, mut at) = (0, from);
    while at < end {
        let next = ((at / PIECE_BYTES + 1) * PIECE_BYTES).min(end);
        pieces[count] = iovec { iov_base: at as *mut c_void, iov_len: (next - at) as usize };
        (count, at) = (count + 1, next);
    }
    let room = iovec { iov_base: to.cast(), iov_len: STACK_BYTES };
    // SAFETY: `room` is as long as it says; the kernel checks the pieces, and writes nowhere else.
    let bytes = unsafe { libc::process_vm_readv(process, &room, 1, pieces.as_ptr(), count as c_ulong, 0) };
    usize::try_from(bytes).ok()
}

/// Whether a stack can be copied here, where an error has somebody to hear of it.
fn check_copying(process: pid_t) -> Result<(), SamplerError> {
    let mut room = vec![0u8; STACK_BYTES];
    let here = ptr::from_ref(&room).addr() as u64;
    // SAFETY: `room` is STACK_BYTES long.
    match unsafe { copied(process, here, room.as_mut_ptr()) } {
        Some(1..) => Ok(()),
        Some(0) | None => Err(SamplerError::Memory(io::Error::last_os_error())),
    }
}

/// That nobody else handles the signal.
fn check_free() -> Result<(), SamplerError> {
    let mut before = MaybeUninit::<sigaction>::zeroed();
    // SAFETY: without a new action this only writes the old one, which is valid as zeros, too.
    let before = unsafe {
        if libc::sigaction(libc::SIGPROF, ptr::null(), before.as_mut_ptr()) != 0 {
            return Err(SamplerError::Timer(io::Error::last_os_error()));
        }
        before.assume_init()
    };
    let free = [libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction);
    if free { Ok(()) } else { Err(SamplerError::Taken) }
}

/// Installs the handler, and lets the signal through: threads that start from now on inherit that.
fn install() -> io::Result<()> {
    // SAFETY: both structures are valid as zeros and initialised by sigemptyset; the handler is one for SA_SIGINFO.
    unsafe {
        let mut action = MaybeUninit::<sigaction>::zeroed().assume_init();
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_signal;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        let mut ours = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        if libc::sigemptyset(&mut action.sa_mask) != 0
            || libc::sigaction(libc::SIGPROF, &action, ptr::null_mut()) != 0
            || libc::sigemptyset(&mut ours) != 0
            || libc::sigaddset(&mut ours, libc::SIGPROF) != 0
            || libc::pthread_sigmask(libc::SIG_UNBLOCK, &ours, ptr::null_mut()) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A signal after each such stretch of the whole process's processor time; zero stops it. It is this timer, not a
/// newer kind, because its signal goes to the running thread on every kernel.
fn set_timer(period: Duration) -> io::Result<()> {
    let every = timeval {
        tv_sec: period.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_usec: period.subsec_micros().into(),
    };
    let timer = itimerval { it_interval: every, it_value: every };
    // SAFETY: the timer is valid for the call.
    let set = unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, ptr::null_mut()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
