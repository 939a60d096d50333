//! A production tenant with its own directory servers, through the real program: mutual TLS, valid
//! and invalid responses, and senders of results.

use std::{fs, sync::Arc};

use rustls::ClientConfig;
use scrip_testing::{
    directory_server::{
        DirectoryServer, ServerBehavior, authority::CertificateAuthority, card_ranges_response,
    },
    process::harness::{ProcessHarness, RunningServer, becomes_true},
    requests::{assert_members, payment},
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

/// Creates a tenant of this kind that may use 3-D Secure. Returns its API key.
fn create_tenant_key(process: &ProcessHarness, kind: &str) -> String {
    run_json(process, &["tenant", "create", kind, "--type", kind]);
    run_json(process, &["tenant", "quota", "set", kind, "threeds_access=true"]);
    let create_command =
        ["application", "create", "--tenant", kind, "--name", "A", "--type", "private"];
    let created = run_json(process, &[&create_command[..], &["--all"]].concat());
    created["key"].as_str().unwrap().to_owned()
}

fn send_request(
    server: &RunningServer,
    key: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    let request = match body {
        Some(body) => server.request("POST", path).json(body),
        None => server.request("GET", path),
    };
    let response = request.api_key(key).send();
    (response.status, response.json())
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

/// A production shop with Visa and Mastercard connected.
struct ProductionShop {
    harness: SchemesHarness,
    server: RunningServer,
    key: String,
}

impl ProductionShop {
    fn open(configure: impl FnOnce(ProcessHarness) -> ProcessHarness) -> Self {
        let mut harness = SchemesHarness::new();
        harness.process = configure(harness.process);
        let key = create_tenant_key(&harness.process, "production");
        harness.schemes[0].1.set_behaviors(&[ServerBehavior::JsonWithTransactionId(
            card_ranges_response("one", VISA_RANGES),
        )]);
        harness.schemes[1].1.set_behaviors(&[ServerBehavior::JsonWithTransactionId(
            card_ranges_response("one", MASTERCARD_RANGES),
        )]);
        let server = harness.process.serve();
        harness.process.wait_for_log("the vault is open");
        harness.process.wait_for_log("fetched 1 card range of Visa");
        harness.process.wait_for_log("fetched 1 card range of Mastercard");
        Self { harness, server, key }
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

    /// Returns the TLS configuration with which a directory server of this scheme sends a result.
    fn sender_config(&self, scheme: usize) -> Arc<ClientConfig> {
        let (authority, _) = &self.harness.schemes[scheme];
        self.harness.own_authority.client_config(Some(&authority.issue("sender", &["ds.example"])))
    }

    #[track_caller]
    fn send_result(&self, sender: &Arc<ClientConfig>, path: &str, message: &[u8]) -> Value {
        let request = build_request("POST", path, message.to_vec());
        let response = post_result(&self.harness, &self.server, Arc::clone(sender), request);
        let response = response.expect("the connection is accepted");
        assert_eq!(response.status, 200);
        response.body
    }

    /// Creates a challenged session. Its ids begin with this digit.
    fn create_challenged_session(&self, digit: char) -> ChallengedSession {
        let ids = transaction_ids(digit);
        self.visa().set_behaviors(&[ServerBehavior::JsonWithTransactionId(challenge(&ids))]);
        let id = self.session(VISA);
        let (status, body) = self.authenticate(&id);
        let authentication_status = &body["authentication_status"];
        assert_eq!((status, authentication_status), (200, &json!("challenge")), "{body}");
        let url =
            self.visa().received_requests().last().unwrap().json()["threeDSServerURL"].clone();
        let path = url.as_str().unwrap().strip_prefix("https://results.example").unwrap();
        assert!(path.starts_with(&format!("/3ds/sessions/{id}/results/")), "{path}");
        ChallengedSession { path: path.to_owned(), id, transaction_ids: ids }
    }
}

struct ChallengedSession {
    id: String,
    /// The path with the secret.
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

/// The status and the body of a response.
type StatusAndBody = (u16, Value);

#[track_caller]
fn assert_failed(response: &StatusAndBody, service_status: &str) {
    let (status, body) = response;
    assert_eq!((*status, &body["title"]), (424, &json!("3DS Service Error")), "{body}");
    assert_eq!(body["error"]["service_status"], service_status, "{body}");
}

#[track_caller]
fn assert_erro(response: &Value, code: &str) {
    let body = (&response["messageType"], &response["errorCode"]);
    assert_eq!(body, (&json!("Erro"), &json!(code)), "{response}");
}

/// Expects that the session has no outcome and cannot be authenticated again.
#[track_caller]
fn assert_session_unusable(shop: &ProductionShop, id: &str) {
    let request_count = shop.visa().received_requests().len();
    assert_eq!(shop.authenticate(id).0, 409);
    assert_eq!(shop.visa().received_requests().len(), request_count, "the message was sent again");
    let (status, session) = shop.get(&format!("/3ds/sessions/{id}"));
    assert_eq!((status, session.get("authentication")), (200, None), "{session}");
    assert_eq!(shop.result(id).0, 404);
}

#[test]
fn each_scheme_gets_only_its_own_messages_with_its_own_certificate() {
    let shop = ProductionShop::open(|it| it);
    for (index, number) in [VISA, MASTERCARD].into_iter().enumerate() {
        for (_, server) in &shop.harness.schemes {
            server.set_behaviors(&[ServerBehavior::JsonWithTransactionId(frictionless())]);
        }
        let counts_before: Vec<_> =
            shop.harness.schemes.iter().map(|it| it.1.received_requests().len()).collect();
        let id = shop.session(number);
        let (status, body) = shop.authenticate(&id);
        let authentication_status = &body["authentication_status"];
        assert_eq!((status, authentication_status), (200, &json!("successful")), "{body}");
        assert_eq!(body["authentication_value"], AUTHENTICATION_VALUE);
        let requests_after: Vec<_> =
            shop.harness.schemes.iter().map(|it| it.1.received_requests()).collect();
        assert_eq!(requests_after[index].len(), counts_before[index] + 1);
        assert_eq!(requests_after[1 - index].len(), counts_before[1 - index]);
        let request = requests_after[index].last().unwrap().json();
        assert_members(&request, &json!({"messageType": "AReq", "acctNumber": number}));
        assert_eq!(request["threeDSServerTransID"], *id);
        assert_eq!(request["threeDSServerRefNumber"], "reference");
        let (_, session) = shop.get(&format!("/3ds/sessions/{id}"));
        assert_eq!(session["authentication"]["authentication_status"], "successful", "{session}");
        assert_eq!(shop.authenticate(&id).0, 409);
    }
}

#[test]
fn threeds_result_needs_scheme_certificate_secret_and_all_ids() {
    let shop = ProductionShop::open(|it| it);
    let (challenged, other_challenged) =
        (shop.create_challenged_session('1'), shop.create_challenged_session('2'));
    let (visa, mastercard) = (shop.sender_config(0), shop.sender_config(1));
    let valid_result = challenged.result().to_string().into_bytes();
    let wrong_secret = format!("/3ds/sessions/{}/results/secret", challenged.id);
    let expect_no_result =
        |sender: &str| assert_eq!(shop.result(&challenged.id).0, 404, "{sender}");

    let request = shop.server.request("POST", &challenged.path);
    let main_response = request.json(&challenged.result()).send();
    assert_erro(&main_response.expect_status(200).json(), "301");
    expect_no_result("at the main listener");
    assert_erro(&shop.send_result(&mastercard, &challenged.path, &valid_result), "301");
    expect_no_result("by another scheme");
    assert_erro(&shop.send_result(&visa, &wrong_secret, &valid_result), "301");
    expect_no_result("with a wrong secret");
    assert_erro(&shop.send_result(&visa, &other_challenged.path, &valid_result), "301");
    for name in ["threeDSServerTransID", "acsTransID", "dsTransID"] {
        let message = challenged.result_with(name, other_challenged.result()[name].clone());
        assert_erro(&shop.send_result(&visa, &challenged.path, &message), "301");
        expect_no_result(name);
    }
    let mut result_without_status = challenged.result();
    result_without_status.as_object_mut().unwrap().remove("transStatus");
    let malformed_results = [
        (b"not JSON".to_vec(), "101"),
        (challenged.result_with("messageType", "CRes".into()), "101"),
        (result_without_status.to_string().into_bytes(), "201"),
        (challenged.result_with("transStatus", "Q".into()), "203"),
        (challenged.result_with("transStatus", "C".into()), "203"),
    ];
    for (message, code) in malformed_results {
        assert_erro(&shop.send_result(&visa, &challenged.path, &message), code);
        expect_no_result(code);
    }

    let response = shop.send_result(&visa, &challenged.path, &valid_result);
    let [acs_id, ds_id] = &challenged.transaction_ids;
    let expected = json!({"messageType": "RRes", "resultsStatus": "01", "acsTransID": acs_id,
        "dsTransID": ds_id});
    assert_members(&response, &expected);
    let (status, result) = shop.result(&challenged.id);
    assert_eq!((status, &result["authentication_status"]), (200, &json!("successful")), "{result}");
    assert_members(&result, &json!({"eci": "05", "authentication_value": AUTHENTICATION_VALUE}));
    assert_eq!(shop.result(&other_challenged.id).0, 404);

    // A challenge has one result. Later results are rejected.
    let second_result = challenged.result_with("transStatus", "A".into());
    for message in [valid_result, second_result] {
        assert_erro(&shop.send_result(&visa, &challenged.path, &message), "301");
        assert_eq!(shop.result(&challenged.id), (200, result.clone()));
    }
}

#[test]
fn client_certificate_unknown_to_the_scheme_is_a_service_failure() {
    let shop = ProductionShop::open(|it| it.with_variable("SCRIP_TLS_RELOAD_SECONDS", "1"));
    let (process, folder) = (&shop.harness.process, shop.harness.process.path(""));
    let id = shop.session(VISA);
    let request_count = shop.visa().received_requests().len();
    shop.visa().set_behaviors(&[ServerBehavior::JsonWithTransactionId(frictionless())]);
    let untrusted_certificate =
        CertificateAuthority::new(&folder, "stranger").issue("client", &["vault.example"]);
    fs::copy(untrusted_certificate.key, process.path("visa-client-key.pem")).unwrap();
    fs::copy(untrusted_certificate.certificate, process.path("visa-client-certificate.pem"))
        .unwrap();
    let is_reloaded = || {
        let log = process.log();
        let mut lines = log.lines().filter(|it| it.contains("reloaded the certificate"));
        lines.any(|it| it.contains("threeds.production.visa"))
    };
    assert!(becomes_true(is_reloaded), "{}", process.log());
    // With TLS 1.3 the alert of the scheme may arrive after the message was sent, and each request
    // has this race: 503 leaves the session usable, 502 does not.
    for _ in 0..2 {
        let failure = shop.authenticate(&id);
        let received = shop.visa().received_requests().len();
        assert_eq!(received, request_count, "the message was accepted");
        if failure.1["error"]["service_status"] == "503" {
            assert_failed(&failure, "503");
        } else {
            assert_failed(&failure, "502");
            assert_session_unusable(&shop, &id);
            break;
        }
    }
}

#[test]
fn session_cannot_be_authenticated_again_after_a_timeout() {
    let shop =
        ProductionShop::open(|it| it.with_variable("SCRIP_THREEDS_RESPONSE_DEADLINE_MS", "2000"));
    let id = shop.session(VISA);
    shop.visa().set_behaviors(&[ServerBehavior::Silent]);
    assert_failed(&shop.authenticate(&id), "504");
    shop.visa().set_behaviors(&[ServerBehavior::JsonWithTransactionId(frictionless())]);
    assert_session_unusable(&shop, &id);
}

#[test]
fn session_cannot_be_authenticated_again_after_an_invalid_response() {
    let shop = ProductionShop::open(|it| it);
    let mut of_another = frictionless();
    of_another["threeDSServerTransID"] = transaction_ids('9')[0].clone().into();
    let mut response_without_proof = frictionless();
    response_without_proof.as_object_mut().unwrap().remove("authenticationValue");
    let mut of_another_type = frictionless();
    of_another_type["messageType"] = "RRes".into();
    let behaviors = [
        ServerBehavior::Bytes(b"not JSON".to_vec()),
        ServerBehavior::Bytes(Vec::new()),
        ServerBehavior::Json(of_another),
        ServerBehavior::JsonWithTransactionId(response_without_proof),
        ServerBehavior::JsonWithTransactionId(of_another_type),
        ServerBehavior::JsonWithTransactionId(ares(&transaction_ids('6'), "C")),
        ServerBehavior::Status(500),
        ServerBehavior::HangUp,
    ];
    for behavior in behaviors {
        let id = shop.session(VISA);
        shop.visa().set_behaviors(std::slice::from_ref(&behavior));
        let failure = shop.authenticate(&id);
        assert_failed(&failure, "502");
        assert!(!failure.1.to_string().contains(VISA), "{behavior:?}");
        shop.visa().set_behaviors(&[ServerBehavior::JsonWithTransactionId(frictionless())]);
        assert_session_unusable(&shop, &id);
    }
}

#[test]
fn production_tenant_never_uses_the_simulator() {
    let runtime = runtime();
    let behaviors =
        [ServerBehavior::JsonWithTransactionId(card_ranges_response("one", VISA_RANGES))];
    let simulator = DirectoryServer::start(runtime.handle(), None, &behaviors);
    let url = format!("http://{}", simulator.address);
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_THREEDS_SIMULATOR_URL", &url);
    let process = process.with_variable("SCRIP_THREEDS_PUBLIC_URL", "https://vault.example");
    let [production, test] = ["production", "test"].map(|it| create_tenant_key(&process, it));
    let server = process.serve();
    // Card ranges may arrive earlier.
    process.wait_for_log("the vault is open");
    process.wait_for_log("fetched 1 card range of Visa");
    let rejected_session = create_session(&server, &production, VISA);
    assert_failed(&rejected_session, "503");
    let message = "No directory server is connected for this tenant";
    assert_eq!(rejected_session.1["error"]["message"], message);
    // Negative control: a test tenant uses the simulator.
    let (status, session) = create_session(&server, &test, VISA);
    assert_eq!(status, 201, "{session}");
    let kinds: Vec<_> =
        simulator.received_requests().iter().map(|it| it.json()["messageType"].clone()).collect();
    assert!(kinds.iter().all(|it| it == "PReq"), "{kinds:?}");
}
