//! One tenant raises all types of events. No event contains data of a token.

use std::{collections::BTreeSet, time::Duration};

use scrip_core::{
    operations::tokens::expire_token::{erase_cvcs, expire_token},
    policy::Quotas,
    types::{EventType, time::Clock},
};
use scrip_testing::{
    destination::behavior::{CannedResponse, DestinationBehavior},
    process::harness::becomes_true,
};
use scrip_threeds::encoding::encode;
use serde_json::{Value, json};

use crate::{
    harness::server::{TenantApiKeys, TestServer, text_field, unique_card_number},
    proxy::harness::ProxyHarness,
    threeds_sessions::requests::{SESSIONS, browser_info, merchant_payment},
    webhooks::events::{create_webhook, load_events},
};

const HOUR: Duration = Duration::from_secs(60 * 60);
const CVC: &str = "8274";
/// Planted texts: data, mask, keys and contents of calls.
const SECRETS: [&str; 8] = [
    "planted-name",
    "planted-text",
    "planted-mask",
    "planted-configuration",
    "planted-query",
    "planted-request",
    "planted-header",
    "planted-answer",
];

/// A run of all operations that raise events. Collects what no event may contain.
struct FullRun<'a> {
    harness: &'a ProxyHarness,
    server: &'a TestServer,
    keys: TenantApiKeys,
    secrets: Vec<String>,
}

impl FullRun<'_> {
    fn card(&mut self) -> Value {
        let number = unique_card_number();
        let card = json!({
            "type": "card",
            "data": {
                "number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": CVC,
            },
            "mask": {"number": "{{ data.number | card_mask }}", "name": "planted-mask"},
            "metadata": {"order": "7"},
        });
        // The number, and the end of its mask.
        self.secrets.extend([number.clone(), format!("X{}", &number[12..])]);
        card
    }

    fn write_tokens(&mut self) {
        let (card, other_card) = (self.card(), self.card());
        let (server, key) = (self.server, &self.keys.private);
        let id = server.create_token_id(key, &card);
        let text = json!({
            "type": "token", "data": {"name": "planted-name", "text": "planted-text"},
            "mask": {"name": "planted-mask"}, "search_indexes": ["{{ data.name }}"],
        });
        let text = server.create_token_id(key, &text);
        let patch = json!({"data": other_card["data"]});
        server.patch_token(key, &id, &patch).expect_status(200);
        server.get_token(key, &id).expect_status(200);
        server.get_path(key, "/v2/tokens").expect_status(200);
        let body = json!([format!("{{{{ {id} }}}}"), format!("{{{{ {text} }}}}")]);
        server.post(key, "/detokenize", &body).expect_status(200);
        server.delete(key, &format!("/tokens/{text}")).expect_status(204);
        let intent = server.post(key, "/token-intents", &other_card).expect_status(201);
        let body = json!({"token_intent_id": intent["id"]});
        server.create_token(key, &body).expect_status(201);
        let intent = server.post(key, "/token-intents", &other_card).expect_status(201);
        let path = format!("/token-intents/{}", text_field(&intent, "id"));
        server.delete(key, &path).expect_status(204);
    }

    fn change_policy(&mut self) {
        let (server, key) = (self.server, &self.keys.management);
        let body = json!({"name": "Shop", "type": "private", "permissions": ["token:read"]});
        let created = server.post(key, "/applications", &body).expect_status(201);
        let path = format!("/applications/{}", text_field(&created, "id"));
        server.put(key, &path, &body).expect_status(200);
        server.delete(key, &path).expect_status(204);
        let body = json!({
            "name": "Charges", "destination_url": "https://api.example.com/v1?key=planted-query",
            "configuration": {"KEY": "planted-configuration"},
        });
        let proxy = server.post(key, "/proxies", &body).expect_status(201);
        let path = format!("/proxies/{}", text_field(&proxy, "id"));
        server.put(key, &path, &body).expect_status(200);
        server.delete(key, &path).expect_status(204);
        let session = server.post_empty(&self.keys.public, "/sessions").expect_status(201);
        let body = json!({"nonce": session["nonce"], "permissions": ["token:read"]});
        server.post(&self.keys.private, "/sessions/authorize", &body).expect_status(204);
        server.put(key, "/tenants/self", &json!({"name": "Acme"})).expect_status(200);
        let texts = [&created["key"], &proxy["key"], &session["session_key"], &session["nonce"]];
        self.secrets.extend(texts.map(|it| it.as_str().unwrap().to_owned()));
    }

    /// Sends a call with data of a token in its body, and secrets in its other parts.
    fn call_proxy(&mut self) {
        let answer = CannedResponse::new(200, "text/plain", "planted-answer")
            .with_header("X-Answer", "planted-header");
        let host = self.harness.destinations.host(&[DestinationBehavior::Respond(answer)]);
        let body = self.card();
        let number = text_field(&body["data"], "number");
        let card = self.server.create_token_id(&self.keys.private, &body);
        let url = host.url(&format!("/{number}?a=planted-query"));
        let request = self.harness.post_url_as(&self.keys.private, &url);
        let request = request.header("X-Request", "planted-header");
        let body = json!(["planted-request", format!("{{{{ {card} | json: '$.cvc' }}}}")]);
        let request = request.header(&format!("x-{number}"), "a").json(&body);
        request.send().expect_answer(200);
        assert!(host.single_request().text().contains(CVC));
    }

    fn run_sessions(&mut self) {
        let (card, server) = (self.card(), self.server);
        let (public, private) = (&self.keys.public, &self.keys.private);
        let create_intent = || {
            let intent = server.post(private, "/token-intents", &card).expect_status(201);
            text_field(&intent, "id")
        };
        let body = json!({"token_intent_id": create_intent(), "device_info": browser_info()});
        let session = server.create_session_id(public, &body);
        let data = encode(json!({"threeDSServerTransID": session}).to_string().as_bytes());
        let path = format!("{SESSIONS}/{session}/method-notification");
        assert_eq!(server.post_form(&path, &[("threeDSMethodData", &data)]).status, 200);
        server.authenticate_as(private, &session, "Challenged").expect_status(200);
        server.send_result(&session, "Y");
        let authentication = server.directory_servers.exchange(&session).unwrap().response;
        let result = json!({
            "messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": session,
            "acsTransID": authentication["acsTransID"], "challengeCompletionInd": "Y",
            "transStatus": "Y",
        });
        let result = encode(result.to_string().as_bytes());
        let path = format!("{SESSIONS}/{session}/challenge-notification");
        assert_eq!(server.post_form(&path, &[("cres", &result)]).status, 200);
        let result = server.get_challenge_result(private, &session).expect_status(200);
        self.secrets.push(text_field(&result, "authentication_value"));
        let body = json!({"token_intent_id": create_intent(), "type": "merchant"});
        let session = server.create_session_id(private, &body);
        let decoupled = merchant_payment("Decoupled");
        server.authenticate(private, &session, &decoupled).expect_status(200);
        server.send_result(&session, "Y");
    }

    fn expire_tokens(&mut self) {
        let (mut card, server) = (self.card(), self.server);
        card["expires_at"] = server.clock.now().plus(HOUR).to_string().into();
        server.create_token_ok(&self.keys.private, &card);
        server.clock.advance(HOUR + HOUR / 4);
        let directory = server.app.directory.load_full().unwrap();
        server.runtime.block_on(async {
            erase_cvcs(&server.app.vault, &directory).await.unwrap();
            expire_token(&server.app.vault, &directory).await.unwrap();
        });
    }

    fn delete_tenant(&self) {
        let (server, id) = (self.server, self.keys.tenant.id);
        let tenant = server.app.directory.load_full().unwrap().tenant(id).unwrap().clone();
        server.set_quotas(&tenant, |it| Quotas { deletion_grace_seconds: 3600, ..it });
        server.delete(&self.keys.management, "/tenants/self").expect_status(204);
    }
}

#[test]
fn all_event_types_are_raised_and_no_event_contains_data_of_a_token() {
    let harness = ProxyHarness::start();
    let keys = harness.server.create_default_tenant();
    let all: Vec<_> = EventType::ALL.into_iter().map(EventType::as_str).collect();
    let webhook = create_webhook(&harness.server, &keys, &json!({"events": all}));
    let mut secrets: Vec<_> = SECRETS.map(str::to_owned).to_vec();
    secrets.push(format!("\"{CVC}\""));
    let mut run = FullRun { harness: &harness, server: &harness.server, keys, secrets };
    run.write_tokens();
    run.change_policy();
    run.call_proxy();
    run.run_sessions();
    run.expire_tokens();
    run.delete_tenant();

    let load = || load_events(run.server, &run.keys.tenant, webhook);
    let list_types =
        || load().iter().map(|it| text_field(it, "type")).collect::<BTreeSet<String>>();
    let raised: BTreeSet<_> = EventType::RAISED.iter().map(|it| it.as_str().to_owned()).collect();
    // The outcome of a proxied call is written after its response.
    assert!(becomes_true(|| list_types().contains("proxy.invoked")));
    assert_eq!(list_types(), raised);
    for event in load() {
        let text = event.to_string();
        for secret in &run.secrets {
            assert!(!text.contains(secret.as_str()), "{secret} in {text}");
        }
    }
}
