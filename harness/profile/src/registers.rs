//! The registers that unwinding begins with.

use framehop::UnwindRegsNative;

/// Of an interrupted thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Registers {
    /// Address of the instruction.
    pub(crate) pc: u64,
    /// Stack pointer.
    pub(crate) sp: u64,
    /// Frame pointer, where the code has one.
    pub(crate) fp: u64,
    /// Return address.
    #[cfg(target_arch = "aarch64")]
    pub(crate) lr: u64,
}

impl Registers {
    /// What the kernel saved when it interrupted a thread.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn saved(context: &libc::ucontext_t) -> Self {
        let of = |register: libc::c_int| context.uc_mcontext.gregs[register as usize].cast_unsigned();
        Self { pc: of(libc::REG_RIP), sp: of(libc::REG_RSP), fp: of(libc::REG_RBP) }
    }

    /// What the kernel saved when it interrupted a thread.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn saved(context: &libc::ucontext_t) -> Self {
        let saved = &context.uc_mcontext;
        Self { pc: saved.pc, sp: saved.sp, fp: saved.regs[29], lr: saved.regs[30] }
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn to_unwind(self) -> UnwindRegsNative {
        UnwindRegsNative::new(self.pc, self.sp, self.fp)
    }

    #[cfg(target_arch = "aarch64")]
    pub(crate) fn to_unwind(self) -> UnwindRegsNative {
        UnwindRegsNative::new(self.lr, self.sp, self.fp)
    }
}
