//! What the process gives up before it sees a secret: core dumps, being looked into, swap, and
//! the rights of root.

pub mod clock;

use anyhow::{Context, bail};
use nix::{
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::{Uid, User},
};

use crate::config::{LockMemory, ServerSettings};

/// Whether memory is locked, which decides how the database is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryState {
    Locked,
    Unlocked,
}

/// Everything below, in the one order that works. Call it after binding the listener, which may
/// take root, and before there are other threads, files or keys.
///
/// # Errors
/// A setting asks for what this process may not do.
pub fn confine(server: &ServerSettings) -> anyhow::Result<MemoryState> {
    disable_core_dumps()?;
    raise_limits(server);
    if let Some(name) = &server.user {
        become_user(name)?;
    }
    // Changing the user puts this back to what the system prefers.
    set_undumpable()?;
    lock_memory(server.lock_memory)
}

/// The part of it that fits a command which opens the store and ends: what it writes must be the
/// server's to use.
///
/// # Errors
/// As [`confine`].
pub fn confine_command(server: &ServerSettings) -> anyhow::Result<()> {
    disable_core_dumps()?;
    if let Some(name) = &server.user {
        become_user(name)?;
    }
    set_undumpable()
}

/// No core file, and nobody but root looks into memory.
fn disable_core_dumps() -> anyhow::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).context("core dumps cannot be turned off")?;
    set_undumpable()
}

#[cfg(target_os = "linux")]
fn set_undumpable() -> anyhow::Result<()> {
    nix::sys::prctl::set_dumpable(false).context("the process cannot be made undumpable")
}

#[cfg(not(target_os = "linux"))]
fn not_dumpable() -> anyhow::Result<()> {
    Ok(())
}

/// As many files as are allowed, since every connection is one; and memory to lock, which only root
/// may raise past the hard limit.
fn raise_limits(server: &ServerSettings) {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::debug!(%error, "the limit of open files stays");
    }
    if server.lock_memory != LockMemory::Off {
        raise_locked_limit();
    }
}

/// Open files that are not connections of clients: the database, directory servers, other listeners.
const OTHER_DESCRIPTORS: u64 = 256;

/// How many connections of clients the limit of open files allows.
pub(crate) fn descriptor_slots() -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    slots_for_limit(limit)
}

/// Of a small limit, half.
fn slots_for_limit(limit: u64) -> usize {
    let slots = limit.saturating_sub(OTHER_DESCRIPTORS.min(limit / 2));
    usize::try_from(slots).unwrap_or(usize::MAX).max(1)
}

#[cfg(not(target_os = "linux"))]
fn raise_locked_limit() {}

#[cfg(target_os = "linux")]
fn raise_locked_limit() {
    use nix::sys::resource::RLIM_INFINITY;
    let everything = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
    if let (Err(_), Ok((_, hard))) = (everything, getrlimit(Resource::RLIMIT_MEMLOCK))
        && let Err(error) = setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard)
    {
        tracing::debug!(%error, "the limit of locked memory stays");
    }
}

/// Gives up root for good.
fn become_user(name: &str) -> anyhow::Result<()> {
    let user = find_user(name)?;
    if Uid::effective() == user.uid && Uid::current() == user.uid {
        return Ok(());
    }
    if !Uid::effective().is_root() {
        bail!("server.user: only root can become {name}; start as root or as {name}");
    }
    set_identity(&user).with_context(|| format!("server.user: cannot become {name}"))?;
    let regained = nix::unistd::setuid(Uid::from_raw(0)).is_ok();
    if regained || Uid::current() != user.uid || Uid::effective() != user.uid {
        bail!("server.user: the rights of root could not be given up");
    }
    Ok(())
}

pub fn find_user(name: &str) -> anyhow::Result<User> {
    let found = User::from_name(name).context("server.user: users cannot be looked up")?;
    let user = found.with_context(|| format!("server.user: there is no user {name}"))?;
    if user.uid.is_root() {
        bail!("server.user: must not be root");
    }
    Ok(user)
}

/// Groups while we still may, the user last.
#[cfg(target_os = "linux")]
fn set_identity(user: &User) -> anyhow::Result<()> {
    use nix::unistd::{initgroups, setresgid, setresuid};
    let name = std::ffi::CString::new(user.name.as_str())?;
    initgroups(&name, user.gid)?;
    setresgid(user.gid, user.gid, user.gid)?;
    setresuid(user.uid, user.uid, user.uid)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_identity(_: &User) -> anyhow::Result<()> {
    bail!("this system's groups cannot be given up; start as that user instead")
}

fn lock_memory(mode: LockMemory) -> anyhow::Result<MemoryState> {
    if mode == LockMemory::Off {
        return Ok(MemoryState::Unlocked);
    }
    match try_lock() {
        Ok(()) => {
            tracing::info!("memory is locked: it is never written to swap");
            Ok(MemoryState::Locked)
        }
        Err(cause) if mode == LockMemory::On => {
            Err(cause.context("server.lock_memory: memory cannot be locked"))
        }
        Err(cause) => {
            let cause = format!("{cause:#}");
            tracing::info!(cause, "memory is not locked: it may be written to swap");
            Ok(MemoryState::Unlocked)
        }
    }
}

/// Under a limit, an allocation past it would end the process later, when it is busiest: so all or
/// nothing.
#[cfg(target_os = "linux")]
fn try_lock() -> anyhow::Result<()> {
    use nix::{
        libc,
        sys::{
            mman::{MlockAllFlags, mlockall},
            resource::RLIM_INFINITY,
        },
    };
    let (limit, _) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    if limit != RLIM_INFINITY && !has_ipc_lock_capability() {
        bail!("the limit of locked memory is {limit} bytes; it must be unlimited");
    }
    // On fault: pages that were reserved and never used stay unused.
    let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
    let all = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | on_fault;
    mlockall(all).context("the system refused")
}

#[cfg(not(target_os = "linux"))]
fn try_lock() -> anyhow::Result<()> {
    bail!("this system cannot lock memory that is yet to be allocated")
}

/// Whether the process holds `CAP_IPC_LOCK`, for which the limit does not count.
#[cfg(target_os = "linux")]
fn has_ipc_lock_capability() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|it| it.strip_prefix("CapEff:"));
    let held = held.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or(0);
    held >> CAP_IPC_LOCK & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::slots_for_limit;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        for (limit, slots) in [(0, 1), (1, 1), (64, 32), (512, 256), (1024, 768), (20_000, 19_744)]
        {
            assert_eq!(slots_for_limit(limit), slots, "{limit}");
        }
        assert!(slots_for_limit(u64::MAX) > 1_000_000);
    }
}
