//! Tokens from files and logins, and their renewal.

use std::{
    fs,
    path::{Path, PathBuf},
};

use scrip_testing::process::unlock_sources::transit_server::{
    FakeServer, JWT, ROLE_ID, ROOT_TOKEN, SECRET_ID,
};
use scrip_unlock::{Transit, TransitAuth, TransitSettings};

use super::{settings, unwrap, wrap};
use crate::support::{assert_error, assert_round_trip, describe};

/// A login with the secret in a file.
type Login = fn(PathBuf) -> TransitAuth;

fn app_role(secret_id_file: PathBuf) -> TransitAuth {
    TransitAuth::AppRole {
        mount: "approle".to_owned(),
        role_id: ROLE_ID.to_owned(),
        secret_id_file,
    }
}

fn kubernetes(jwt_file: PathBuf) -> TransitAuth {
    TransitAuth::Kubernetes {
        mount: "kubernetes".to_owned(),
        role: "vault-role".to_owned(),
        jwt_file,
    }
}

fn source_with(server: &FakeServer, auth: TransitAuth) -> Transit {
    Transit::new(TransitSettings { auth, ..settings(&server.url()) }).unwrap()
}

fn write_secret(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("secret");
    fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn logins_provide_a_token_that_is_used_until_it_expires() {
    let folder = tempfile::tempdir().unwrap();
    let logins: [(&str, Login); 2] = [(SECRET_ID, app_role), (JWT, kubernetes)];
    for (secret, auth) in logins {
        let server = FakeServer::start().await;
        let source = source_with(&server, auth(write_secret(folder.path(), secret)));
        assert_round_trip(&source, Transit::KIND).await;
        assert_round_trip(&source, Transit::KIND).await;
        assert_eq!(server.change(|it| it.login_count), 1);
        // A lifetime below the margin: each request needs a login.
        let server = FakeServer::start().await;
        server.change(|it| it.lease_duration = 20);
        let source = source_with(&server, auth(write_secret(folder.path(), secret)));
        assert_round_trip(&source, Transit::KIND).await;
        // Encryption, the check of associated data, and decryption.
        assert_eq!(server.change(|it| it.login_count), 3);
    }
}

#[tokio::test]
async fn revoked_login_token_is_replaced_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = FakeServer::start().await;
    let source = source_with(&server, app_role(write_secret(folder.path(), SECRET_ID)));
    let wrapped = assert_round_trip(&source, Transit::KIND).await;
    server.change(|it| it.tokens.clear());
    assert!(unwrap(&source, &wrapped).await.is_ok());
    assert_eq!(server.change(|it| it.login_count), 2);
}

#[tokio::test]
async fn login_with_a_wrong_secret_is_denied_without_showing_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let server = FakeServer::start().await;
    let logins: [Login; 2] = [app_role, kubernetes];
    for auth in logins {
        let file = write_secret(folder.path(), "wrong-secret-value");
        let (variant, text) = describe(wrap(&source_with(&server, auth(file))).await);
        assert_eq!(variant, "Denied");
        assert!(text.contains("renew the secret in") && !text.contains("wrong-secret"), "{text}");
    }
    let wrong_mount = TransitAuth::AppRole {
        mount: "missing".to_owned(),
        role_id: ROLE_ID.to_owned(),
        secret_id_file: write_secret(folder.path(), SECRET_ID),
    };
    let source = source_with(&server, wrong_mount);
    assert_error(wrap(&source).await, "Denied", &["auth/missing/login"]);
}

#[tokio::test]
async fn login_at_a_sealed_server_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let server = FakeServer::start().await;
    server.change(|it| it.fixed_reply = Some((503, r#"{"errors":["Vault is sealed"]}"#.into())));
    let source = source_with(&server, app_role(write_secret(folder.path(), SECRET_ID)));
    assert_error(wrap(&source).await, "Unavailable", &["unseal it"]);
    server.change(|it| it.fixed_reply = Some((200, "{}".to_owned())));
    assert_error(wrap(&source).await, "Unavailable", &["has no token"]);
}

#[tokio::test]
async fn token_file_is_read_for_each_operation() {
    let folder = tempfile::tempdir().unwrap();
    let server = FakeServer::start().await;
    let path = folder.path().join("secret");
    let source = source_with(&server, TransitAuth::TokenFile(path.clone()));
    assert_error(wrap(&source).await, "Unavailable", &["does not exist"]);
    fs::write(&path, "\n").unwrap();
    assert_error(wrap(&source).await, "Unavailable", &["is empty"]);
    fs::write(&path, "hvs.expired").unwrap();
    assert_error(wrap(&source).await, "Denied", &["renew the token"]);
    fs::write(&path, format!("{ROOT_TOKEN}\n")).unwrap();
    assert!(wrap(&source).await.is_ok());
    fs::write(&path, "x".repeat(70_000)).unwrap();
    assert_error(wrap(&source).await, "Settings", &["more than 65536 bytes"]);
}
