//! A file system that is so small that a test can fill it.

use std::{
    env, fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process::Command,
};

use scrip_testing::process::harness::ProcessHarness;

/// Set in a test process that already runs in a namespace of its own.
const IN_NAMESPACE: &str = "SCRIP_TEST_IN_NAMESPACE";

/// A small tmpfs, which is unmounted on drop.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Moves the data directory of a vault to a tmpfs of this size. `None` if this process may not
    /// mount.
    pub(crate) fn mount(process: &ProcessHarness, size: &str) -> Option<Self> {
        let (data, moved_data) = (process.data(), process.path("moved"));
        fs::rename(&data, &moved_data).unwrap();
        fs::create_dir(&data).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "none"]).arg(&data);
        if !mount.output().is_ok_and(|it| it.status.success()) {
            return None;
        }
        let disk = Self(data.clone());
        let copy = Command::new("cp").arg("-a").arg(moved_data.join(".")).arg(&data).status();
        assert!(copy.unwrap().success());
        Some(disk)
    }

    /// Writes a file until no space is left.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = fs::File::create(&path).unwrap();
        for size in [64 * 1024, 4096] {
            let error = loop {
                if let Err(error) = file.write_all(&vec![7; size]) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// Runs one test of this binary again in a user namespace, where every user may mount a tmpfs.
///
/// # Panics
/// If this process is already in such a namespace, or the test fails there.
pub(crate) fn run_in_namespace(test: &str) {
    assert!(env::var_os(IN_NAMESPACE).is_none(), "cannot mount a tmpfs, not even in a namespace");
    let program = env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "--"])
        .arg(Path::new(&program))
        .args([test, "--exact", "--nocapture"])
        .env(IN_NAMESPACE, "1")
        .output()
        .expect("run the test as root, or install unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{error}");
}
