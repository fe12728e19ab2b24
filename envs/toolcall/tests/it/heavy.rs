//! Code that uses all resources it can get.

use clawrl_core::ToolKind;

use crate::support::{code, sandboxed, shown, tool, with_env, within};

#[test]
fn memory_hog_is_reported_and_episode_continues() {
    with_env(sandboxed(vec![tool("python", ToolKind::Python)]), async |env| {
        let told =
            shown(env, &[code("hog = [b'x' * 1_000_000]\nwhile True: hog.append(hog[-1] + b'x')")]).await;
        let is_told =
            told.contains("MemoryError") || told.contains("[the interpreter has ended: killed by signal 9");
        assert!(is_told, "{told}");
        let next = shown(env, &[code("hog = None\n1 + 1")]).await;
        assert!(next.ends_with('2'), "{next}");
    });
}

#[test]
fn a_fork_bomb_ends_with_its_interpreter() {
    with_env(sandboxed(vec![within(2_000, tool("python", ToolKind::Python))]), async |env| {
        // Ignores interrupts.
        let bomb = "import os, signal, time\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\nwhile True:\n    try:\n        \
                    os.fork()\n        time.sleep(0.01)\n    except OSError:\n        pass";
        let told = shown(env, &[code(bomb)]).await;
        assert!(told.contains("[the interpreter was killed after 2 s;"), "{told}");
        let next = shown(env, &[code("1 + 1")]).await;
        assert_eq!(next, "[python]\n[the interpreter was restarted; variables are lost]\n2");
    });
}
