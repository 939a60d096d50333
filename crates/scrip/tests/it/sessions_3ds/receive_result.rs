//! Receive Result.

use scrip_core::policy::{Settings, TenantKind};
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SHARED, Server},
    sessions_3ds::requests::SESSIONS,
};

fn post(path: &str, message: &Value) -> Value {
    let reply = SHARED.ask("POST", path).json(message).send();
    assert_eq!(reply.headers["content-type"], "application/json; charset=utf-8");
    reply.is(200)
}

#[test]
fn a_result_is_received_with_a_message() {
    let session = SHARED.challenged_session(&ACME);
    let answer = SHARED.tell_result(&session, "Y");
    assert_eq!((&answer["messageType"], &answer["resultsStatus"]), (&json!("RRes"), &json!("01")));
    assert_eq!(answer["threeDSServerTransID"], json!(session));
}

/// Wrong secret, wrong session and wrong transaction are one and the same to whoever posts.
#[test]
fn nobody_learns_which_part_was_wrong() {
    let (session, other) = (SHARED.challenged_session(&ACME), SHARED.challenged_session(&ACME));
    let result = SHARED.scripted.result(&session, "Y");
    let path = SHARED.scripted.results_path(&session);
    let wrong_secret = format!("{}0", &path[..path.len() - 1]);
    let wrong_secret =
        if wrong_secret == path { format!("{}1", &path[..path.len() - 1]) } else { wrong_secret };
    let unknown = path.replace(&session, "8a880dc0-d2d2-4067-bcb1-b08d1690b26e");
    let paths =
        [wrong_secret, unknown, path.replace(&session, "nobodys"), path.replace(&session, &other)];
    for path in paths {
        let answer = post(&path, &result);
        assert_eq!(
            (&answer["messageType"], &answer["errorCode"]),
            (&json!("Erro"), &json!("301")),
            "{path}"
        );
    }
    SHARED.challenge_result(&ACME.private, &session).is(404);
}

#[test]
fn whatever_is_no_result_is_answered_with_an_error_message() {
    let session = SHARED.challenged_session(&ACME);
    let path = SHARED.scripted.results_path(&session);
    let mut broken = SHARED.scripted.result(&session, "Y");
    broken.as_object_mut().unwrap().remove("acsTransID");
    assert_eq!(post(&path, &broken)["errorCode"], "201");
    let reply = SHARED.ask("POST", &path).text("application/json", "{4242424242424242").send();
    assert_eq!(reply.is(200)["errorCode"], "101");
    assert!(!reply.text.contains("4242"), "{}", reply.text);
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(262_144));
    SHARED.ask("POST", &path).text("application/json", &large).send().is(413);
    SHARED.ask("POST", &path).text("text/plain", "{}").send().is(415);
    SHARED.challenge_result(&ACME.private, &session).is(404);
}

/// In production, results come by a certificate or not at all.
#[test]
fn a_production_tenant_takes_no_result_through_this_door() {
    let keys = SHARED.tenant_of(TenantKind::Production, Settings::default());
    allow_threeds(&SHARED, &keys);
    let session = SHARED.challenged_session(&keys);
    let answer = SHARED.tell_result(&session, "Y");
    assert_eq!(answer["errorCode"], "301");
    SHARED.challenge_result(&keys.private, &session).is(404);
}

fn allow_threeds(server: &Server, keys: &crate::harness::server::Keys) {
    use scrip_core::{
        operations::tenants::update_tenant::set_tenant_quotas,
        policy::{Mandate, Quotas},
    };
    let edit = |quotas| Quotas { threeds_access: true, ..quotas };
    let mandate = Mandate::of_operator(std::sync::Arc::clone(&keys.tenant));
    server.runtime.block_on(async {
        set_tenant_quotas(&server.app.vault, mandate, Box::new(edit)).await.unwrap();
        server.app.reload().await.unwrap();
    });
}

/// Only the directory server was told the secret, and nothing of ours tells it on.
#[test]
fn the_secret_is_in_no_answer() {
    let session = SHARED.challenged_session(&ACME);
    let path = SHARED.scripted.results_path(&session);
    let secret = path.rsplit('/').next().unwrap().to_owned();
    assert_eq!(secret.len(), 64);
    SHARED.tell_result(&session, "Y");
    let seen = [
        SHARED.fetch(&ACME.private, &format!("{SESSIONS}/{session}")).text,
        SHARED.challenge_result(&ACME.private, &session).text,
        SHARED.fetch(&ACME.management, "/logs").text,
    ];
    for text in seen {
        assert!(!text.contains(&secret), "{text}");
    }
}
