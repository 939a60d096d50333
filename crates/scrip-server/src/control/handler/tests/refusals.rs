//! What other users learn from refused requests, and how many they may send.

use std::{
    os::unix::fs::chown,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use nix::{
    fcntl::{AT_FDCWD, RenameFlags, renameat2},
    unistd::Uid,
};

use super::*;

/// Only root can give a file to another user.
#[tokio::test]
async fn cause_is_of_the_own_file_that_was_opened() {
    if !Uid::effective().is_root() {
        return;
    }
    let it = ControlHarness::on().await;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, owner) in [("own", ALICE), ("server", 0)] {
        fs::create_dir(at(name)).unwrap();
        let file = at(name).join("k");
        fs::write(&file, "no key").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(owner), None).unwrap();
    }
    it.expect_error(add_file(&at("own/k")), ALICE, "belongs to user 1001").await;
    it.expect_error(add_file(&at("own/k")), BOB, "its log has the cause").await;
    it.expect_error(add_file(&at("server/k")), ALICE, "its log has the cause").await;
    // Another thread exchanges both directories.
    let request = add_file(&at("own/k"));
    let is_done = Arc::new(AtomicBool::new(false));
    let (one, other, is_stopped) = (at("own"), at("server"), Arc::clone(&is_done));
    let exchange = move || {
        while !is_stopped.load(Ordering::Relaxed) {
            let flags = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, &one, AT_FDCWD, &other, flags).unwrap();
        }
    };
    let other_user = thread::Builder::new().name("other user".to_owned()).spawn(exchange).unwrap();
    let mut texts = BTreeSet::new();
    for _ in 0..4000 {
        let error = it.handler.check_local_key(&request, ALICE).await.unwrap_err();
        texts.insert(error.to_string());
    }
    is_done.store(true, Ordering::Relaxed);
    other_user.join().unwrap();
    assert!(!texts.is_empty());
    for text in texts {
        assert!(text.contains("belongs to user 1001") || text.contains("its log has"), "{text}");
    }
}
