//! Hardening of the process before it reads a secret: no core dumps, no debugging, no swap, no root
//! rights.

use anyhow::{Context, bail};
use nix::{
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::{Uid, User},
};

use crate::config::{LockMemory, ServerSettings};

/// Whether memory is locked; decides how the database is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryState {
    Locked,
    Unlocked,
}

/// Performs all steps below in the required order. Call it after binding the listener, which may
/// require root, and before there are other threads, files or keys.
///
/// Errors: a setting requires something that this process is not permitted to do.
pub fn confine(server: &ServerSettings) -> anyhow::Result<MemoryState> {
    disable_core_dumps()?;
    raise_limits(server);
    if let Some(name) = &server.user {
        become_user(name)?;
    }
    // Changing the user resets this flag.
    set_undumpable()?;
    lock_memory(server.lock_memory)
}

/// The steps for a command that opens the store and exits: files that it writes must be accessible
/// to the server.
/// Errors: as [`confine`].
pub fn confine_command(server: &ServerSettings) -> anyhow::Result<()> {
    disable_core_dumps()?;
    if let Some(name) = &server.user {
        become_user(name)?;
    }
    set_undumpable()
}

/// The steps for a command that only uses a socket of the server. Root switches to the user of the
/// server, so that root has no second identity; another user stays who they are.
///
/// Errors: as [`confine`].
pub fn confine_socket_command(server: &ServerSettings) -> anyhow::Result<()> {
    if Uid::effective().is_root() {
        return confine_command(server);
    }
    disable_core_dumps()
}

/// Disables core files and debugging by other users than root.
fn disable_core_dumps() -> anyhow::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).context("disabling core dumps failed")?;
    set_undumpable()
}

#[cfg(target_os = "linux")]
fn set_undumpable() -> anyhow::Result<()> {
    nix::sys::prctl::set_dumpable(false).context("making the process undumpable failed")
}

#[cfg(not(target_os = "linux"))]
fn set_undumpable() -> anyhow::Result<()> {
    Ok(())
}

/// Raises the limit of open files, because every connection is one, and the limit of locked memory,
/// which only root may raise past the hard limit.
fn raise_limits(server: &ServerSettings) {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::debug!(%error, "raising the limit of open files failed");
    }
    if server.lock_memory != LockMemory::Off {
        raise_locked_limit();
    }
}

/// Open files other than client connections: the database, directory servers, other listeners.
const OTHER_OPEN_FILES_MAX: u64 = 256;

/// Number of client connections that the limit of open files allows.
pub(crate) fn open_file_connections_max() -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    connections_for_limit(limit)
}

/// Reserves some files for other uses; of a small limit, half is for connections.
fn connections_for_limit(limit: u64) -> usize {
    let connections = limit.saturating_sub(OTHER_OPEN_FILES_MAX.min(limit / 2));
    usize::try_from(connections).unwrap_or(usize::MAX).max(1)
}

#[cfg(not(target_os = "linux"))]
fn raise_locked_limit() {}

#[cfg(target_os = "linux")]
fn raise_locked_limit() {
    use nix::sys::resource::RLIM_INFINITY;
    let unlimited = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
    if let (Err(_), Ok((_, hard))) = (unlimited, getrlimit(Resource::RLIMIT_MEMLOCK))
        && let Err(error) = setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard)
    {
        tracing::debug!(%error, "raising the limit of locked memory failed");
    }
}

/// Gives up root permanently.
fn become_user(name: &str) -> anyhow::Result<()> {
    let user = find_user(name)?;
    if Uid::effective() == user.uid && Uid::current() == user.uid {
        return Ok(());
    }
    if !Uid::effective().is_root() {
        bail!("server.user: only root can switch to {name}; start as root or as {name}");
    }
    set_identity(&user).with_context(|| format!("server.user: switching to {name} failed"))?;
    let has_regained_root = nix::unistd::setuid(Uid::from_raw(0)).is_ok();
    if has_regained_root || Uid::current() != user.uid || Uid::effective() != user.uid {
        bail!("server.user: giving up the rights of root failed");
    }
    Ok(())
}

pub fn find_user(name: &str) -> anyhow::Result<User> {
    let user = User::from_name(name).context("server.user: looking up users failed")?;
    let user = user.with_context(|| format!("server.user: user {name} does not exist"))?;
    if user.uid.is_root() {
        bail!("server.user: must not be root");
    }
    Ok(user)
}

/// Sets groups before the user, which ends the right to set them.
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
    bail!("groups cannot be dropped on this system; start as that user instead")
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

/// Locks all present and future memory. With a limit, an allocation beyond it would fail later,
/// under load. So locked memory must be unlimited.
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
    // MCL_ONFAULT: reserved pages that are never used stay unused.
    let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
    let flags = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | on_fault;
    mlockall(flags).context("mlockall failed")
}

#[cfg(not(target_os = "linux"))]
fn try_lock() -> anyhow::Result<()> {
    bail!("this system cannot lock future allocations")
}

/// Returns whether the process has `CAP_IPC_LOCK`, which exempts it from the limit.
#[cfg(target_os = "linux")]
fn has_ipc_lock_capability() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|it| it.strip_prefix("CapEff:"));
    let capabilities =
        capabilities.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or(0);
    capabilities >> CAP_IPC_LOCK & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::connections_for_limit;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        for (limit, connections) in
            [(0, 1), (1, 1), (64, 32), (512, 256), (1024, 768), (20_000, 19_744)]
        {
            assert_eq!(connections_for_limit(limit), connections, "limit of open files: {limit}");
        }
        assert!(connections_for_limit(u64::MAX) > 1_000_000);
    }
}
