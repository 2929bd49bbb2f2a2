//! Whether the process that holds a claim still runs (ST-16), as far as `/proc` can tell.

use std::fs;
use std::io::ErrorKind;
use std::sync::OnceLock;

use plica_ports::store::ProcessIdentity;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// What tells this process from every other that ever ran on this host; `None` where the
/// system does not say, or where `/proc` shows another namespace than ours.
pub fn process_identity() -> Option<ProcessIdentity> {
    static SELF: OnceLock<Option<ProcessIdentity>> = OnceLock::new();
    SELF.get_or_init(discover).clone()
}

fn discover() -> Option<ProcessIdentity> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_string();
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_string();
    let pid = std::process::id();
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // A /proc of another namespace shows this process under another number.
    if stat.split(' ').next()?.parse() != Ok(pid) {
        return None;
    }
    Some(ProcessIdentity { boot, namespace, pid, started: Stat::parse(&stat)?.started })
}

/// Whether a process is known to be gone; any doubt, as about one of another boot or pid
/// namespace, is `false`.
pub fn is_process_gone(process: &ProcessIdentity) -> bool {
    process_identity().is_some_and(|own| {
        own.boot == process.boot
            && own.namespace == process.namespace
            && own != *process
            && is_gone(process.pid, process.started)
    })
}

/// Whether the process of this number and start time, of our own boot and pid namespace, is
/// known to be gone. Any doubt is `false`: then the lease decides.
pub(crate) fn is_gone(pid: u32, started: u64) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => Stat::parse(&text).is_some_and(|stat| stat.is_dead || stat.started != started),
        // `hidepid` hides the processes of others, so absence here has to be confirmed.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
            number.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
        }
        Err(_) => false,
    }
}

/// The members of `/proc/<pid>/stat` that count here (proc_pid_stat(5)).
struct Stat {
    is_dead: bool,
    started: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the command in parentheses and may hold both blanks and
        // parentheses; the third is the state, the 22nd the start time.
        let mut rest = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = rest.next()?;
        Some(Self { is_dead: matches!(state, "Z" | "X" | "x"), started: rest.nth(18)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_16_a_stat_line_is_read_whatever_the_command_is_called() {
        let fields: Vec<String> = (4..=52).map(|n| n.to_string()).collect();
        let stat = Stat::parse(&format!("7 (a) Z (b) S {}\n", fields.join(" "))).expect("a whole line");
        assert!(!stat.is_dead);
        assert_eq!(stat.started, 22);
        assert!(Stat::parse("7 (x) Z 1 2").is_none());
        assert!(Stat::parse("").is_none());
    }

    #[test]
    fn st_16_a_process_is_gone_when_absent_ended_or_another() {
        let own = process_identity().expect("tests run where /proc tells");
        assert_eq!(own.pid, std::process::id());
        assert!(!is_gone(own.pid, own.started));
        assert!(is_gone(own.pid, own.started + 1), "the number was given to another process");

        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep runs");
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("a child is visible");
        let started = Stat::parse(&stat).expect("a whole line").started;
        assert!(!is_gone(child.id(), started));
        child.kill().expect("own children can be killed");
        // Not waited for yet, so it stays behind as a zombie once the kernel has ended it.
        rustix::process::waitid(
            rustix::process::WaitId::Pid(Pid::from_child(&child)),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .expect("the child ends");
        assert!(is_gone(child.id(), started), "a zombie");
        child.wait().expect("the child is reaped");
        assert!(is_gone(child.id(), started), "absent");
    }
}
