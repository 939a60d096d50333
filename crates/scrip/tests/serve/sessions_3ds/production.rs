//! A tenant of production with directory servers of its own, through the real program: certificates on
//! both sides, answers that can and cannot be believed, and who may tell a result.

use std::{fs, sync::Arc};

use rustls::ClientConfig;
use scrip_testing::{
    directory_server::{DirectoryServer, Manner, authority::Authority, ranges},
    process::harness::{ProcessHarness, Running, eventually},
    requests::payment,
};
use serde_json::{Value, json};

use crate::{
    operator::commands::json,
    sessions_3ds::{
        results::{post, request},
        schemes::{Connected, runtime},
    },
};

const VISA: &str = "4242424242424242";
const MASTERCARD: &str = "5555555555554444";
const OF_VISA: &[(&str, &str, &str)] = &[("4200000000000000", "4299999999999999", "A")];
const OF_MASTERCARD: &[(&str, &str, &str)] = &[("5500000000000000", "5599999999999999", "A")];
const VALUE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// The API key of a tenant of this kind that may use 3-D Secure.
fn tenant(house: &ProcessHarness, kind: &str) -> String {
    json(house, &["tenant", "create", kind, "--type", kind]);
    json(house, &["tenant", "quota", "set", kind, "threeds_access=true"]);
    let create = ["application", "create", "--tenant", kind, "--name", "A", "--type", "private"];
    let made = json(house, &[&create[..], &["--all"]].concat());
    made["key"].as_str().unwrap().to_owned()
}

fn ask(server: &Running, key: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let (agent, url) = (ureq::Agent::from(config), format!("{}{path}", server.url));
    let asked = match body {
        Some(body) => agent.post(url).header("BT-API-KEY", key).send_json(body),
        None => agent.get(url).header("BT-API-KEY", key).call(),
    };
    let mut reply = asked.unwrap();
    (reply.status().as_u16(), reply.body_mut().read_json().unwrap())
}

fn create(server: &Running, key: &str, number: &str) -> (u16, Value) {
    let data = json!({"number": number, "expiration_month": 12, "expiration_year": 2035});
    let body = json!({"type": "card", "data": data});
    let (status, intent) = ask(server, key, "/token-intents", Some(&body));
    assert_eq!(status, 201, "{intent}");
    let device = json!({
        "browser_accept_header": "*/*", "browser_ip": "198.51.100.7", "browser_color_depth": "24",
        "browser_javascript_enabled": true, "browser_java_enabled": false,
        "browser_language": "en-US", "browser_screen_height": "600", "browser_screen_width": "800",
        "browser_tz": "0", "browser_user_agent": "Browser/1.0",
    });
    let body = json!({"token_intent_id": intent["id"], "device_info": device});
    ask(server, key, "/3ds/sessions", Some(&body))
}

/// A shop of production, with Visa and Mastercard connected.
struct Shop {
    connected: Connected,
    server: Running,
    key: String,
}

impl Shop {
    fn open(prepare: impl FnOnce(ProcessHarness) -> ProcessHarness) -> Self {
        let mut connected = Connected::new();
        connected.house = prepare(connected.house);
        let key = tenant(&connected.house, "production");
        connected.schemes[0].1.set(&[Manner::Reply(ranges("one", OF_VISA))]);
        connected.schemes[1].1.set(&[Manner::Reply(ranges("one", OF_MASTERCARD))]);
        let server = connected.house.serve();
        connected.house.logged("card ranges of Visa: 1");
        connected.house.logged("card ranges of Mastercard: 1");
        Self { connected, server, key }
    }

    fn visa(&self) -> &DirectoryServer {
        &self.connected.schemes[0].1
    }

    fn session(&self, number: &str) -> String {
        let (status, session) = create(&self.server, &self.key, number);
        assert_eq!(status, 201, "{session}");
        session["id"].as_str().unwrap().to_owned()
    }

    fn authenticate(&self, id: &str) -> (u16, Value) {
        let mut body = payment("Ada");
        body["requestor_info"]["id"] = "1".into();
        let path = format!("/3ds/sessions/{id}/authenticate");
        ask(&self.server, &self.key, &path, Some(&body))
    }

    fn get(&self, path: &str) -> (u16, Value) {
        ask(&self.server, &self.key, path, None)
    }

    fn result(&self, id: &str) -> (u16, Value) {
        self.get(&format!("/3ds/sessions/{id}/challenge-result"))
    }

    /// What a directory server of that scheme shows when it comes with a result.
    fn sender(&self, scheme: usize) -> Arc<ClientConfig> {
        let (authority, _) = &self.connected.schemes[scheme];
        self.connected.ours.client(Some(&authority.issue("sender", &["ds.example"])))
    }

    #[track_caller]
    fn tell(&self, sender: &Arc<ClientConfig>, path: &str, message: &[u8]) -> Value {
        let request = request("POST", path, message.to_vec());
        let answer = post(&self.connected, &self.server, Arc::clone(sender), request);
        let answer = answer.expect("it is let in");
        assert_eq!(answer.status, 200);
        answer.body
    }

    /// A session with a challenge, of which the ids begin with this digit.
    fn challenged(&self, digit: char) -> Challenged {
        let ids = ids(digit);
        self.visa().set(&[Manner::Reply(challenge(&ids))]);
        let id = self.session(VISA);
        let (status, told) = self.authenticate(&id);
        let told_status = &told["authentication_status"];
        assert_eq!((status, told_status), (200, &json!("challenge")), "{told}");
        let url = self.visa().seen().last().unwrap().json()["threeDSServerURL"].clone();
        let path = url.as_str().unwrap().strip_prefix("https://results.example").unwrap();
        assert!(path.starts_with(&format!("/3ds/sessions/{id}/results/")), "{path}");
        Challenged { path: path.to_owned(), id, ids }
    }
}

struct Challenged {
    id: String,
    /// With the secret.
    path: String,
    ids: [String; 2],
}

impl Challenged {
    fn result(&self) -> Value {
        json!({
            "messageType": "RReq", "messageVersion": "2.2.0", "messageCategory": "01",
            "threeDSServerTransID": self.id, "acsTransID": self.ids[0], "dsTransID": self.ids[1],
            "transStatus": "Y", "authenticationValue": VALUE, "eci": "05",
            "authenticationMethod": "02", "authenticationType": "01", "interactionCounter": "01",
        })
    }

    fn result_with(&self, name: &str, value: Value) -> Vec<u8> {
        let mut result = self.result();
        result[name] = value;
        result.to_string().into_bytes()
    }
}

fn ids(digit: char) -> [String; 2] {
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
    let mut ares = ares(&ids('6'), "Y");
    ares["authenticationValue"] = VALUE.into();
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
type Answered = (u16, Value);

#[track_caller]
fn assert_failed(answer: &Answered, service_status: &str) {
    let (status, told) = answer;
    assert_eq!((*status, &told["title"]), (424, &json!("3DS Service Error")), "{told}");
    assert_eq!(told["error"]["service_status"], service_status, "{told}");
}

#[track_caller]
fn assert_erro(answer: &Value, code: &str) {
    let told = (&answer["messageType"], &answer["errorCode"]);
    assert_eq!(told, (&json!("Erro"), &json!(code)), "{answer}");
}

/// Nothing is known of how it ended, and nobody may try again.
#[track_caller]
fn assert_spent(shop: &Shop, id: &str) {
    let asked = shop.visa().seen().len();
    assert_eq!(shop.authenticate(id).0, 409);
    assert_eq!(shop.visa().seen().len(), asked, "it was asked again");
    let (status, session) = shop.get(&format!("/3ds/sessions/{id}"));
    assert_eq!((status, session.get("authentication")), (200, None), "{session}");
    assert_eq!(shop.result(id).0, 404);
}

#[test]
fn each_scheme_is_asked_by_its_own_certificate_and_no_other_hears_of_it() {
    let shop = Shop::open(|it| it);
    for (at, number) in [VISA, MASTERCARD].into_iter().enumerate() {
        for (_, server) in &shop.connected.schemes {
            server.set(&[Manner::Reply(frictionless())]);
        }
        let before: Vec<_> = shop.connected.schemes.iter().map(|it| it.1.seen().len()).collect();
        let id = shop.session(number);
        let (status, told) = shop.authenticate(&id);
        let told_status = &told["authentication_status"];
        assert_eq!((status, told_status), (200, &json!("successful")), "{told}");
        assert_eq!(told["authentication_value"], VALUE);
        let after: Vec<_> = shop.connected.schemes.iter().map(|it| it.1.seen()).collect();
        assert_eq!(after[at].len(), before[at] + 1);
        assert_eq!(after[1 - at].len(), before[1 - at]);
        let asked = after[at].last().unwrap().json();
        assert_eq!((&asked["messageType"], &asked["acctNumber"]), (&"AReq".into(), &number.into()));
        assert_eq!(asked["threeDSServerTransID"], *id);
        assert_eq!(asked["threeDSServerRefNumber"], "reference");
        let (_, session) = shop.get(&format!("/3ds/sessions/{id}"));
        assert_eq!(session["authentication"]["authentication_status"], "successful", "{session}");
        assert_eq!(shop.authenticate(&id).0, 409);
    }
}

#[test]
fn a_result_is_told_by_the_schemes_certificate_with_the_secret_and_all_ids() {
    let shop = Shop::open(|it| it);
    let (one, other) = (shop.challenged('1'), shop.challenged('2'));
    let (visa, mastercard) = (shop.sender(0), shop.sender(1));
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
    assert_erro(&shop.tell(&mastercard, &one.path, &good), "301");
    none("by another scheme");
    assert_erro(&shop.tell(&visa, &wrong_secret, &good), "301");
    none("with a wrong secret");
    assert_erro(&shop.tell(&visa, &other.path, &good), "301");
    for name in ["threeDSServerTransID", "acsTransID", "dsTransID"] {
        let message = one.result_with(name, other.result()[name].clone());
        assert_erro(&shop.tell(&visa, &one.path, &message), "301");
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
        assert_erro(&shop.tell(&visa, &one.path, &message), code);
        none(code);
    }

    let answer = shop.tell(&visa, &one.path, &good);
    assert_eq!((&answer["messageType"], &answer["resultsStatus"]), (&"RRes".into(), &"01".into()));
    assert_eq!(
        (&answer["acsTransID"], &answer["dsTransID"]),
        (&one.ids[0].clone().into(), &one.ids[1].clone().into())
    );
    let (status, result) = shop.result(&one.id);
    assert_eq!((status, &result["authentication_status"]), (200, &json!("successful")), "{result}");
    assert_eq!((&result["eci"], &result["authentication_value"]), (&"05".into(), &VALUE.into()));
    assert_eq!(shop.result(&other.id).0, 404);

    // A challenge has one result, whatever comes later.
    let second = one.result_with("transStatus", "A".into());
    for message in [good, second] {
        assert_erro(&shop.tell(&visa, &one.path, &message), "301");
        assert_eq!(shop.result(&one.id), (200, result.clone()));
    }
}

#[test]
fn a_certificate_that_the_scheme_does_not_know_leaves_the_session_as_it_is_told() {
    let shop = Shop::open(|it| it.set("SCRIP_TLS_RELOAD_SECONDS", "1"));
    let (house, folder) = (&shop.connected.house, shop.connected.house.path(""));
    let id = shop.session(VISA);
    let asked = shop.visa().seen().len();
    shop.visa().set(&[Manner::Reply(frictionless())]);
    let stranger = Authority::new(&folder, "stranger").issue("client", &["vault.example"]);
    fs::copy(stranger.key, house.path("visa-client-key.pem")).unwrap();
    fs::copy(stranger.certificate, house.path("visa-client-certificate.pem")).unwrap();
    let taken = || {
        let log = house.log();
        let mut lines = log.lines().filter(|it| it.contains("the certificate was read again"));
        lines.any(|it| it.contains("threeds.production.visa"))
    };
    assert!(eventually(taken), "{}", house.log());
    // With TLS 1.3 the scheme's alert may arrive when the message has left already, and each request
    // meets this race anew: 503 leaves the session usable, 502 spends it.
    for _ in 0..2 {
        let failed = shop.authenticate(&id);
        assert_eq!(shop.visa().seen().len(), asked, "it was let in");
        if failed.1["error"]["service_status"] == "503" {
            assert_failed(&failed, "503");
        } else {
            assert_failed(&failed, "502");
            assert_spent(&shop, &id);
            break;
        }
    }
}

#[test]
fn after_silence_the_session_is_spent() {
    let shop = Shop::open(|it| it.set("SCRIP_THREEDS_ANSWER_DEADLINE_MS", "2000"));
    let id = shop.session(VISA);
    shop.visa().set(&[Manner::Silent]);
    assert_failed(&shop.authenticate(&id), "504");
    shop.visa().set(&[Manner::Reply(frictionless())]);
    assert_spent(&shop, &id);
}

#[test]
fn an_answer_that_cannot_be_believed_spends_the_session() {
    let shop = Shop::open(|it| it);
    let mut of_another = frictionless();
    of_another["threeDSServerTransID"] = ids('9')[0].clone().into();
    let mut unproven = frictionless();
    unproven.as_object_mut().unwrap().remove("authenticationValue");
    let mut of_another_type = frictionless();
    of_another_type["messageType"] = "RRes".into();
    let manners = [
        Manner::Bytes(b"not JSON".to_vec()),
        Manner::Bytes(Vec::new()),
        Manner::Answer(of_another),
        Manner::Reply(unproven),
        Manner::Reply(of_another_type),
        Manner::Reply(ares(&ids('6'), "C")),
        Manner::Status(500),
        Manner::HangUp,
    ];
    for manner in manners {
        let id = shop.session(VISA);
        shop.visa().set(std::slice::from_ref(&manner));
        let failed = shop.authenticate(&id);
        assert_failed(&failed, "502");
        assert!(!failed.1.to_string().contains(VISA), "{manner:?}");
        shop.visa().set(&[Manner::Reply(frictionless())]);
        assert_spent(&shop, &id);
    }
}

#[test]
fn production_never_reaches_the_simulator() {
    let runtime = runtime();
    let reply = [Manner::Reply(ranges("one", OF_VISA))];
    let simulator = DirectoryServer::start(runtime.handle(), None, &reply);
    let url = format!("http://{}", simulator.address);
    let house = ProcessHarness::founded(crate::SCRIP).set("SCRIP_THREEDS_SIMULATOR_URL", &url);
    let house = house.set("SCRIP_THREEDS_PUBLIC_URL", "https://vault.example");
    let [production, test] = ["production", "test"].map(|it| tenant(&house, it));
    let server = house.serve();
    house.logged("card ranges of Visa: 1");
    let refused = create(&server, &production, VISA);
    assert_failed(&refused, "503");
    let message = "No directory server is connected for this tenant";
    assert_eq!(refused.1["error"]["message"], message);
    // The negative control: a test tenant is served by it.
    let (status, session) = create(&server, &test, VISA);
    assert_eq!(status, 201, "{session}");
    let kinds: Vec<_> =
        simulator.seen().iter().map(|it| it.json()["messageType"].clone()).collect();
    assert!(kinds.iter().all(|it| it == "PReq"), "{kinds:?}");
}
