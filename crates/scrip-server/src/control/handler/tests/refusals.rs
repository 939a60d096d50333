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
        let error = it.handler.check_local_key(&request, "keys add", ALICE).await.unwrap_err();
        texts.insert(error.to_string());
    }
    is_done.store(true, Ordering::Relaxed);
    other_user.join().unwrap();
    assert!(!texts.is_empty());
    for text in texts {
        assert!(text.contains("belongs to user 1001") || text.contains("its log has"), "{text}");
    }
}

#[tokio::test]
async fn refused_key_file_is_recorded_once_in_a_minute() {
    let it = ControlHarness::on().await;
    let folder = tempfile::tempdir().unwrap();
    for uid in [SERVER, ALICE, ALICE] {
        let request = add_file(&folder.path().join("missing"));
        it.expect_error(request, uid, "the server cannot use this key").await;
    }
    let records =
        it.harness.vault.store.list_records(LogKind::Read, TenantId::VAULT, 0, 100).await.unwrap();
    let refused: Vec<_> = records.iter().filter(|it| it.outcome == "refused").collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].entity.starts_with("keys add {"), "{}", refused[0].entity);
}

#[tokio::test]
async fn requests_of_an_operator_have_a_rate_and_those_of_the_server_user_have_none() {
    let it = ControlHarness::on().await;
    let mut refused = 0;
    for _ in 0..300 {
        let response = it.handler.handle(ControlRequest::ListMethods {}, ALICE).await;
        match response {
            ControlResponse::Error(text) => {
                assert!(text.starts_with("too many requests of this user"), "{text}");
                refused += 1;
            }
            ControlResponse::Result(_) => (),
            ControlResponse::Waiting(_) | ControlResponse::Unable(_) => panic!("{response:?}"),
        }
    }
    assert!(refused > 0);
    it.expect(ControlRequest::ListMethods {}, BOB).await;
    for uid in [0, SERVER] {
        for _ in 0..100 {
            it.expect(ControlRequest::ListMethods {}, uid).await;
        }
    }
}
