//! Receive Result.

use scrip_core::{
    policy::{Quotas, TenantSettings},
    types::TenantKind,
};
use scrip_testing::requests::assert_members;
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER};

fn post_result(path: &str, message: &Value) -> Value {
    let response = SERVER.request("POST", path).json(message).send();
    assert_eq!(response.headers["content-type"], "application/json; charset=utf-8");
    response.expect_status(200)
}

#[test]
fn valid_result_is_acknowledged_with_rres() {
    let session = SERVER.create_challenged_session(&ACME);
    let response = SERVER.send_result(&session, "Y");
    assert_members(&response, &json!({"messageType": "RRes", "resultsStatus": "01"}));
    assert_eq!(response["threeDSServerTransID"], json!(session));
}

/// The sender cannot distinguish a wrong secret, a wrong session and a wrong transaction.
#[test]
fn wrong_secret_session_and_transaction_get_the_same_error() {
    let (session, other_session) =
        (SERVER.create_challenged_session(&ACME), SERVER.create_challenged_session(&ACME));
    let result = SERVER.directory_servers.result(&session, "Y");
    let path = SERVER.directory_servers.results_path(&session);
    let wrong_secret = format!("{}0", &path[..path.len() - 1]);
    let wrong_secret =
        if wrong_secret == path { format!("{}1", &path[..path.len() - 1]) } else { wrong_secret };
    let unknown_path = path.replace(&session, "8a880dc0-d2d2-4067-bcb1-b08d1690b26e");
    let paths = [
        wrong_secret,
        unknown_path,
        path.replace(&session, "nobodys"),
        path.replace(&session, &other_session),
    ];
    for path in paths {
        let response = post_result(&path, &result);
        let shown = ["messageType", "errorCode"].map(|it| response[it].clone());
        assert_eq!(shown, ["Erro", "301"], "{path}");
    }
    SERVER.get_challenge_result(&ACME.private, &session).expect_status(404);
}

#[test]
fn invalid_result_gets_an_erro_response() {
    let session = SERVER.create_challenged_session(&ACME);
    let path = SERVER.directory_servers.results_path(&session);
    let mut broken_message = SERVER.directory_servers.result(&session, "Y");
    broken_message.as_object_mut().unwrap().remove("acsTransID");
    assert_eq!(post_result(&path, &broken_message)["errorCode"], "201");
    let response =
        SERVER.request("POST", &path).body("application/json", "{4242424242424242").send();
    assert_eq!(response.expect_status(200)["errorCode"], "101");
    assert!(!response.text.contains("4242"), "{}", response.text);
    let large_message = format!("{{\"a\":\"{}\"}}", "x".repeat(262_144));
    let request = || SERVER.request("POST", &path);
    request().body("application/json", &large_message).send().expect_status(413);
    request().body("text/plain", "{}").send().expect_status(415);
    SERVER.get_challenge_result(&ACME.private, &session).expect_status(404);
}

/// A production tenant accepts results only with a client certificate.
#[test]
fn production_tenant_rejects_results_without_client_certificate() {
    let keys = SERVER.create_tenant_of_kind(TenantKind::Production, TenantSettings::default());
    SERVER.set_quotas(&keys.tenant, |it| Quotas { threeds_access: true, ..it });
    let session = SERVER.create_challenged_session(&keys);
    let response = SERVER.send_result(&session, "Y");
    assert_eq!(response["errorCode"], "301");
    SERVER.get_challenge_result(&keys.private, &session).expect_status(404);
}

/// Only the message to the directory server contains the secret.
#[test]
fn results_secret_is_in_no_response() {
    let session = SERVER.create_challenged_session(&ACME);
    let path = SERVER.directory_servers.results_path(&session);
    let secret = path.rsplit('/').next().unwrap().to_owned();
    assert_eq!(secret.len(), 64);
    SERVER.send_result(&session, "Y");
    let responses = [
        SERVER.get_session(&ACME.private, &session).text,
        SERVER.get_challenge_result(&ACME.private, &session).text,
        SERVER.get_path(&ACME.management, "/logs").text,
    ];
    for text in responses {
        assert!(!text.contains(&secret), "{text}");
    }
}
