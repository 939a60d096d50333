//! A tenant of production with directory servers of its own, through the real program: certificates on
//! both sides, answers that can and cannot be believed, and who may tell a result.

use std::{fs, sync::Arc};

use rustls::ClientConfig;
use scrip_testing::{
    directory_server::{
        DirectoryServer, ServerBehavior, authority::CertificateAuthority, card_ranges_response,
    },
    process::harness::{ProcessHarness, RunningServer, becomes_true},
    requests::payment,
};
use serde_json::{Value, json};

use crate::{
    operator::commands::run_json,
    threeds_sessions::{
        results::{build_request, post_result},
        schemes::{SchemesHarness, runtime},
    },
};

const VISA: &str = "4242424242424242";
const MASTERCARD: &str = "5555555555554444";
const VISA_RANGES: &[(&str, &str, &str)] = &[("4200000000000000", "4299999999999999", "A")];
const MASTERCARD_RANGES: &[(&str, &str, &str)] = &[("5500000000000000", "5599999999999999", "A")];
const AUTHENTICATION_VALUE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// The API key of a tenant of this kind that may use 3-D Secure.
fn create_tenant_key(process: &ProcessHarness, kind: &str) -> String {
    run_json(process, &["tenant", "create", kind, "--type", kind]);
    run_json(process, &["tenant", "quota", "set", kind, "threeds_access=true"]);
    let create = ["application", "create", "--tenant", kind, "--name", "A", "--type", "private"];
    let created = run_json(process, &[&create[..], &["--all"]].concat());
    created["key"].as_str().unwrap().to_owned()
}

fn send_request(
    server: &RunningServer,
    key: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let (agent, url) = (ureq::Agent::from(config), format!("{}{path}", server.url));
    let request = match body {
        Some(body) => agent.post(url).header("BT-API-KEY", key).send_json(body),
        None => agent.get(url).header("BT-API-KEY", key).call(),
    };
    let mut reply = request.unwrap();
    (reply.status().as_u16(), reply.body_mut().read_json().unwrap())
}

fn create_session(server: &RunningServer, key: &str, number: &str) -> (u16, Value) {
    let data = json!({"number": number, "expiration_month": 12, "expiration_year": 2035});
    let body = json!({"type": "card", "data": data});
    let (status, intent) = send_request(server, key, "/token-intents", Some(&body));
    assert_eq!(status, 201, "{intent}");
    let device = json!({
        "browser_accept_header": "*/*", "browser_ip": "198.51.100.7", "browser_color_depth": "24",
        "browser_javascript_enabled": true, "browser_java_enabled": false,
        "browser_language": "en-US", "browser_screen_height": "600", "browser_screen_width": "800",
        "browser_tz": "0", "browser_user_agent": "Browser/1.0",
    });
    let body = json!({"token_intent_id": intent["id"], "device_info": device});
    send_request(server, key, "/3ds/sessions", Some(&body))
}

/// A shop of production, with Visa and Mastercard connected.
struct ProductionShop {
    harness: SchemesHarness,
    server: RunningServer,
    key: String,
}

impl ProductionShop {
    fn open(prepare: impl FnOnce(ProcessHarness) -> ProcessHarness) -> Self {
        let mut connected = SchemesHarness::new();
        connected.process = prepare(connected.process);
        let key = create_tenant_key(&connected.process, "production");
        connected.schemes[0].1.set_behaviors(&[ServerBehavior::JsonWithTransactionId(
            card_ranges_response("one", VISA_RANGES),
        )]);
        connected.schemes[1].1.set_behaviors(&[ServerBehavior::JsonWithTransactionId(
            card_ranges_response("one", MASTERCARD_RANGES),
        )]);
        let server = connected.process.serve();
        connected.process.wait_for_log("card ranges of Visa: 1");
        connected.process.wait_for_log("card ranges of Mastercard: 1");
        Self { harness: connected, server, key }
    }

    fn visa(&self) -> &DirectoryServer {
        &self.harness.schemes[0].1
    }

    fn session(&self, number: &str) -> String {
        let (status, session) = create_session(&self.server, &self.key, number);
        assert_eq!(status, 201, "{session}");
        session["id"].as_str().unwrap().to_owned()
    }

    fn authenticate(&self, id: &str) -> (u16, Value) {
        let mut body = payment("Ada");
        body["requestor_info"]["id"] = "1".into();
        let path = format!("/3ds/sessions/{id}/authenticate");
        send_request(&self.server, &self.key, &path, Some(&body))
    }

    fn get(&self, path: &str) -> (u16, Value) {
        send_request(&self.server, &self.key, path, None)
    }

    fn result(&self, id: &str) -> (u16, Value) {
        self.get(&format!("/3ds/sessions/{id}/challenge-result"))
    }

    /// What a directory server of that scheme shows when it comes with a result.
    fn sender_config(&self, scheme: usize) -> Arc<ClientConfig> {
        let (authority, _) = &self.harness.schemes[scheme];
        self.harness.own_authority.client_config(Some(&authority.issue("sender", &["ds.example"])))
    }

    #[track_caller]
    fn send_result(&self, sender: &Arc<ClientConfig>, path: &str, message: &[u8]) -> Value {
        let request = build_request("POST", path, message.to_vec());
        let response = post_result(&self.harness, &self.server, Arc::clone(sender), request);
        let response = response.expect("it is let in");
        assert_eq!(response.status, 200);
        response.body
    }

    /// A session with a challenge, of which the ids begin with this digit.
    fn create_challenged_session(&self, digit: char) -> ChallengedSession {
        let ids = transaction_ids(digit);
        self.visa().set_behaviors(&[ServerBehavior::JsonWithTransactionId(challenge(&ids))]);
        let id = self.session(VISA);
        let (status, told) = self.authenticate(&id);
        let told_status = &told["authentication_status"];
        assert_eq!((status, told_status), (200, &json!("challenge")), "{told}");
        let url =
            self.visa().received_requests().last().unwrap().json()["threeDSServerURL"].clone();
        let path = url.as_str().unwrap().strip_prefix("https://results.example").unwrap();
        assert!(path.starts_with(&format!("/3ds/sessions/{id}/results/")), "{path}");
        ChallengedSession { path: path.to_owned(), id, transaction_ids: ids }
    }
}

struct ChallengedSession {
    id: String,
    /// With the secret.
    path: String,
    transaction_ids: [String; 2],
}

impl ChallengedSession {
    fn result(&self) -> Value {
        json!({
            "messageType": "RReq", "messageVersion": "2.2.0", "messageCategory": "01",
            "threeDSServerTransID": self.id, "acsTransID": self.transaction_ids[0], "dsTransID": self.transaction_ids[1],
            "transStatus": "Y", "authenticationValue": AUTHENTICATION_VALUE, "eci": "05",
            "authenticationMethod": "02", "authenticationType": "01", "interactionCounter": "01",
        })
    }

    fn result_with(&self, name: &str, value: Value) -> Vec<u8> {
        let mut result = self.result();
        result[name] = value;
        result.to_string().into_bytes()
    }
}

fn transaction_ids(digit: char) -> [String; 2] {
    ["1", "2"].map(|it| format!("{digit}fa459ea-ee8a-4ca4-894e-db77e160355{it}"))
}

fn ares(ids: &[String; 2], status: &str) -> Value {
    json!({
        "messageType": "ARes", "messageVersion": "2.2.0", "acsTransID": ids[0],
        "acsReferenceNumber": "acs", "dsTransID": ids[1], "dsReferenceNumber": "ds",
        "transStatus": status,
    })
}

fn frictionless() -> Value {
    let mut ares = ares(&transaction_ids('6'), "Y");
    ares["authenticationValue"] = AUTHENTICATION_VALUE.into();
    ares["eci"] = "05".into();
    ares
}

fn challenge(ids: &[String; 2]) -> Value {
    let mut ares = ares(ids, "C");
    ares["acsChallengeMandated"] = "N".into();
    ares["authenticationType"] = "01".into();
    ares["acsURL"] = "https://acs.example/challenge".into();
    ares
}

/// The status and the body of an answer.
type StatusAndBody = (u16, Value);

#[track_caller]
fn assert_failed(response: &StatusAndBody, service_status: &str) {
    let (status, told) = response;
    assert_eq!((*status, &told["title"]), (424, &json!("3DS Service Error")), "{told}");
    assert_eq!(told["error"]["service_status"], service_status, "{told}");
}

#[track_caller]
fn assert_erro(response: &Value, code: &str) {
    let told = (&response["messageType"], &response["errorCode"]);
    assert_eq!(told, (&json!("Erro"), &json!(code)), "{response}");
}

/// Nothing is known of how it ended, and nobody may try again.
#[track_caller]
fn assert_session_spent(shop: &ProductionShop, id: &str) {
    let request = shop.visa().received_requests().len();
    assert_eq!(shop.authenticate(id).0, 409);
    assert_eq!(shop.visa().received_requests().len(), request, "it was asked again");
    let (status, session) = shop.get(&format!("/3ds/sessions/{id}"));
    assert_eq!((status, session.get("authentication")), (200, None), "{session}");
    assert_eq!(shop.result(id).0, 404);
}

#[test]
fn each_scheme_gets_only_its_own_messages_with_its_own_certificate() {
    let shop = ProductionShop::open(|it| it);
    for (at, number) in [VISA, MASTERCARD].into_iter().enumerate() {
        for (_, server) in &shop.harness.schemes {
            server.set_behaviors(&[ServerBehavior::JsonWithTransactionId(frictionless())]);
        }
        let before: Vec<_> =
            shop.harness.schemes.iter().map(|it| it.1.received_requests().len()).collect();
        let id = shop.session(number);
        let (status, told) = shop.authenticate(&id);
        let told_status = &told["authentication_status"];
        assert_eq!((status, told_status), (200, &json!("successful")), "{told}");
        assert_eq!(told["authentication_value"], AUTHENTICATION_VALUE);
        let after: Vec<_> =
            shop.harness.schemes.iter().map(|it| it.1.received_requests()).collect();
        assert_eq!(after[at].len(), before[at] + 1);
        assert_eq!(after[1 - at].len(), before[1 - at]);
        let request = after[at].last().unwrap().json();
        assert_eq!(
            (&request["messageType"], &request["acctNumber"]),
            (&"AReq".into(), &number.into())
        );
        assert_eq!(request["threeDSServerTransID"], *id);
        assert_eq!(request["threeDSServerRefNumber"], "reference");
        let (_, session) = shop.get(&format!("/3ds/sessions/{id}"));
        assert_eq!(session["authentication"]["authentication_status"], "successful", "{session}");
        assert_eq!(shop.authenticate(&id).0, 409);
    }
}

#[test]
fn result_needs_the_scheme_certificate_the_secret_and_all_ids() {
    let shop = ProductionShop::open(|it| it);
    let (one, other) = (shop.create_challenged_session('1'), shop.create_challenged_session('2'));
    let (visa, mastercard) = (shop.sender_config(0), shop.sender_config(1));
    let good = one.result().to_string().into_bytes();
    let wrong_secret = format!("/3ds/sessions/{}/results/secret", one.id);
    let none = |what: &str| assert_eq!(shop.result(&one.id).0, 404, "{what}");

    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let main = ureq::Agent::from(config).post(format!("{}{}", shop.server.url, one.path));
    let main = main.content_type("application/json");
    let mut reply = main.send(&good[..]).unwrap();
    assert_eq!(reply.status(), 200);
    assert_erro(&reply.body_mut().read_json().unwrap(), "301");
    none("at the main listener");
    assert_erro(&shop.send_result(&mastercard, &one.path, &good), "301");
    none("by another scheme");
    assert_erro(&shop.send_result(&visa, &wrong_secret, &good), "301");
    none("with a wrong secret");
    assert_erro(&shop.send_result(&visa, &other.path, &good), "301");
    for name in ["threeDSServerTransID", "acsTransID", "dsTransID"] {
        let message = one.result_with(name, other.result()[name].clone());
        assert_erro(&shop.send_result(&visa, &one.path, &message), "301");
        none(name);
    }
    let mut unfinished = one.result();
    unfinished.as_object_mut().unwrap().remove("transStatus");
    let malformed = [
        (b"not JSON".to_vec(), "101"),
        (one.result_with("messageType", "CRes".into()), "101"),
        (unfinished.to_string().into_bytes(), "201"),
        (one.result_with("transStatus", "Q".into()), "203"),
        (one.result_with("transStatus", "C".into()), "203"),
    ];
    for (message, code) in malformed {
        assert_erro(&shop.send_result(&visa, &one.path, &message), code);
        none(code);
    }

    let response = shop.send_result(&visa, &one.path, &good);
    assert_eq!(
        (&response["messageType"], &response["resultsStatus"]),
        (&"RRes".into(), &"01".into())
    );
    assert_eq!(
        (&response["acsTransID"], &response["dsTransID"]),
        (&one.transaction_ids[0].clone().into(), &one.transaction_ids[1].clone().into())
    );
    let (status, result) = shop.result(&one.id);
    assert_eq!((status, &result["authentication_status"]), (200, &json!("successful")), "{result}");
    assert_eq!(
        (&result["eci"], &result["authentication_value"]),
        (&"05".into(), &AUTHENTICATION_VALUE.into())
    );
    assert_eq!(shop.result(&other.id).0, 404);

    // A challenge has one result, whatever comes later.
    let second = one.result_with("transStatus", "A".into());
    for message in [good, second] {
        assert_erro(&shop.send_result(&visa, &one.path, &message), "301");
        assert_eq!(shop.result(&one.id), (200, result.clone()));
    }
}

#[test]
fn client_certificate_unknown_to_the_scheme_is_a_service_failure() {
    let shop = ProductionShop::open(|it| it.with_variable("SCRIP_TLS_RELOAD_SECONDS", "1"));
    let (process, folder) = (&shop.harness.process, shop.harness.process.path(""));
    let id = shop.session(VISA);
    let request = shop.visa().received_requests().len();
    shop.visa().set_behaviors(&[ServerBehavior::JsonWithTransactionId(frictionless())]);
    let stranger =
        CertificateAuthority::new(&folder, "stranger").issue("client", &["vault.example"]);
    fs::copy(stranger.key, process.path("visa-client-key.pem")).unwrap();
    fs::copy(stranger.certificate, process.path("visa-client-certificate.pem")).unwrap();
    let taken = || {
        let log = process.log();
        let mut lines = log.lines().filter(|it| it.contains("the certificate was read again"));
        lines.any(|it| it.contains("threeds.production.visa"))
    };
    assert!(becomes_true(taken), "{}", process.log());
    // With TLS 1.3 the scheme's alert may arrive when the message has left already, and each request
    // meets this race anew: 503 leaves the session usable, 502 spends it.
    for _ in 0..2 {
        let failed = shop.authenticate(&id);
        assert_eq!(shop.visa().received_requests().len(), request, "it was let in");
        if failed.1["error"]["service_status"] == "503" {
            assert_failed(&failed, "503");
        } else {
            assert_failed(&failed, "502");
            assert_session_spent(&shop, &id);
            break;
        }
    }
}

#[test]
fn timed_out_authentication_spends_the_session() {
    let shop =
        ProductionShop::open(|it| it.with_variable("SCRIP_THREEDS_ANSWER_DEADLINE_MS", "2000"));
    let id = shop.session(VISA);
    shop.visa().set_behaviors(&[ServerBehavior::Silent]);
    assert_failed(&shop.authenticate(&id), "504");
    shop.visa().set_behaviors(&[ServerBehavior::JsonWithTransactionId(frictionless())]);
    assert_session_spent(&shop, &id);
}

#[test]
fn invalid_authentication_response_spends_the_session() {
    let shop = ProductionShop::open(|it| it);
    let mut of_another = frictionless();
    of_another["threeDSServerTransID"] = transaction_ids('9')[0].clone().into();
    let mut unproven = frictionless();
    unproven.as_object_mut().unwrap().remove("authenticationValue");
    let mut of_another_type = frictionless();
    of_another_type["messageType"] = "RRes".into();
    let manners = [
        ServerBehavior::Bytes(b"not JSON".to_vec()),
        ServerBehavior::Bytes(Vec::new()),
        ServerBehavior::Json(of_another),
        ServerBehavior::JsonWithTransactionId(unproven),
        ServerBehavior::JsonWithTransactionId(of_another_type),
        ServerBehavior::JsonWithTransactionId(ares(&transaction_ids('6'), "C")),
        ServerBehavior::Status(500),
        ServerBehavior::HangUp,
    ];
    for manner in manners {
        let id = shop.session(VISA);
        shop.visa().set_behaviors(std::slice::from_ref(&manner));
        let failed = shop.authenticate(&id);
        assert_failed(&failed, "502");
        assert!(!failed.1.to_string().contains(VISA), "{manner:?}");
        shop.visa().set_behaviors(&[ServerBehavior::JsonWithTransactionId(frictionless())]);
        assert_session_spent(&shop, &id);
    }
}

#[test]
fn production_tenant_never_uses_the_simulator() {
    let runtime = runtime();
    let reply = [ServerBehavior::JsonWithTransactionId(card_ranges_response("one", VISA_RANGES))];
    let simulator = DirectoryServer::start(runtime.handle(), None, &reply);
    let url = format!("http://{}", simulator.address);
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_THREEDS_SIMULATOR_URL", &url);
    let process = process.with_variable("SCRIP_THREEDS_PUBLIC_URL", "https://vault.example");
    let [production, test] = ["production", "test"].map(|it| create_tenant_key(&process, it));
    let server = process.serve();
    process.wait_for_log("card ranges of Visa: 1");
    let rejected = create_session(&server, &production, VISA);
    assert_failed(&rejected, "503");
    let message = "No directory server is connected for this tenant";
    assert_eq!(rejected.1["error"]["message"], message);
    // The negative control: a test tenant is served by it.
    let (status, session) = create_session(&server, &test, VISA);
    assert_eq!(status, 201, "{session}");
    let kinds: Vec<_> =
        simulator.received_requests().iter().map(|it| it.json()["messageType"].clone()).collect();
    assert!(kinds.iter().all(|it| it == "PReq"), "{kinds:?}");
}
