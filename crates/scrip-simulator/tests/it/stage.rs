//! A simulator, and a 3DS server that speaks with it.

use std::{sync::mpsc, time::Duration};

use axum::{Router, extract::State, routing::post};
use scrip_simulator::{Handle, Settings, Timers};
use scrip_threeds::encoding;
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime};

/// Far more than anything here takes: only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    pub(crate) simulator: Handle,
    pub(crate) server: String,
    results: mpsc::Receiver<Value>,
    agent: ureq::Agent,
    _runtime: Runtime,
}

/// Timers that do not end within a test.
pub(crate) fn patient() -> Settings {
    let long = Duration::from_secs(3600);
    let timers = Timers {
        first_creq: long,
        interaction: long,
        decoupled: Duration::from_millis(20),
        outgoing: PATIENCE,
        silence: long,
        ..Timers::default()
    };
    Settings { timers, ..Settings::default() }
}

impl Stage {
    pub(crate) fn set() -> Self {
        Self::with(patient())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let runtime = Runtime::new().unwrap();
        let (told, results) = mpsc::channel();
        let (simulator, server) = runtime.block_on(async {
            let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = server.local_addr().unwrap();
            let app = Router::new().route("/results/secret", post(receive)).with_state(told);
            tokio::spawn(async { axum::serve(server, app).await });
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let simulator = scrip_simulator::start(listener, settings).unwrap();
            (simulator, format!("http://{address}"))
        });
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        Self { simulator, server, results, agent: agent.into(), _runtime: runtime }
    }

    /// The next result that the 3DS server gets.
    pub(crate) fn result(&self) -> Value {
        self.results.recv_timeout(PATIENCE).expect("a result")
    }

    /// A result that has come already.
    pub(crate) fn result_now(&self) -> Option<Value> {
        self.results.try_recv().ok()
    }

    pub(crate) fn post(&self, path: &str, kind: &str, body: &[u8]) -> Answer {
        let url = format!("{}{path}", self.simulator.base_url());
        let sent = self.agent.post(&url).header("content-type", kind).send(body).unwrap();
        let (parts, mut body) = sent.into_parts();
        Answer {
            status: parts.status.as_u16(),
            policy: header(&parts.headers, "content-security-policy"),
            caching: header(&parts.headers, "cache-control"),
            kind: header(&parts.headers, "content-type"),
            text: body.read_to_string().unwrap(),
        }
    }

    pub(crate) fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.post(path, "application/x-www-form-urlencoded", body.as_bytes())
    }

    /// A message to a directory server, and its answer.
    pub(crate) fn ask(&self, scheme: &str, message: &Value) -> Value {
        let answer = self.post(&format!("/sim/ds/{scheme}"), JSON, message.to_string().as_bytes());
        assert_eq!((answer.status, answer.kind.as_str()), (200, JSON));
        serde_json::from_str(&answer.text).unwrap()
    }

    pub(crate) fn turn(&self, path: &str, knobs: &Value) -> (u16, String) {
        let url = format!("{}{path}", self.simulator.base_url());
        let mut sent = self.agent.put(&url).send(knobs.to_string()).unwrap();
        (sent.status().as_u16(), sent.body_mut().read_to_string().unwrap())
    }

    pub(crate) fn look(&self, path: &str) -> Value {
        let url = format!("{}{path}", self.simulator.base_url());
        self.agent.get(&url).call().unwrap().body_mut().read_json().unwrap()
    }

    pub(crate) fn reset(&self, path: &str) -> Value {
        let url = format!("{}{path}", self.simulator.base_url());
        self.agent.delete(&url).call().unwrap().body_mut().read_json().unwrap()
    }

    /// An `AReq` of a browser for this card, as a 3DS server sends it.
    pub(crate) fn areq(&self, number: &str) -> Value {
        with(
            self.bare_areq("02", number),
            &json!({
                "threeDSCompInd": "U", "threeDSRequestorAuthenticationInd": "01",
                "notificationURL": format!("{}/notification", self.server),
                "browserAcceptHeader": "*/*", "browserJavascriptEnabled": true,
                "browserJavaEnabled": false, "browserLanguage": "en", "browserColorDepth": "24",
                "browserScreenHeight": "600", "browserScreenWidth": "800", "browserTZ": "0",
                "browserUserAgent": "test",
            }),
        )
    }

    /// One of a merchant alone.
    pub(crate) fn merchant_areq(&self, number: &str) -> Value {
        with(
            self.bare_areq("03", number),
            &json!({
                "threeRIInd": "11", "threeDSRequestorDecReqInd": "Y",
                "threeDSRequestorDecMaxTime": "00005",
            }),
        )
    }

    pub(crate) fn bare_areq(&self, channel: &str, number: &str) -> Value {
        json!({
            "messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": channel,
            "messageCategory": "01", "threeDSServerTransID": new_id(),
            "threeDSServerRefNumber": "ref", "threeDSServerURL": format!("{}/results/secret", self.server),
            "threeDSRequestorID": "id", "threeDSRequestorName": "name",
            "threeDSRequestorURL": "https://shop.example", "acctNumber": number,
            "acquirerBIN": "123456", "acquirerMerchantID": "mid", "merchantName": "Little Shop",
            "merchantCountryCode": "840", "mcc": "5411", "purchaseAmount": "123456",
            "purchaseCurrency": "840", "purchaseExponent": "2", "purchaseDate": "20261115120000",
        })
    }

    /// Brings a card to its challenge: the answer to the `AReq`, and the first page.
    pub(crate) fn challenged(&self, scheme: &str, number: &str) -> (Value, Answer) {
        let answer = self.ask(scheme, &self.areq(number));
        assert_eq!(answer["transStatus"], "C", "{answer}");
        let page = self.form(&acs_path(&answer), &[("creq", &creq(&answer))]);
        (answer, page)
    }

    /// Presses a button of a challenge.
    pub(crate) fn press(&self, answer: &Value, fields: &[(&str, &str)]) -> Answer {
        let id = answer["acsTransID"].as_str().unwrap();
        self.form(&format!("/sim/acs/challenge/{id}"), fields)
    }
}

pub(crate) const JSON: &str = "application/json; charset=utf-8";

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) policy: String,
    pub(crate) caching: String,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Answer {
    /// A hidden field of the page.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let (_, rest) = self.text.split_once(&format!("name=\"{name}\" value=\""))?;
        rest.split('"').next().map(str::to_owned)
    }

    /// What the browser takes home in this field.
    pub(crate) fn brings(&self, name: &str) -> Value {
        let field = self.field(name).unwrap_or_else(|| panic!("{name} in {}", self.text));
        serde_json::from_slice(&encoding::decode(&field).unwrap()).unwrap()
    }
}

fn header(headers: &axum::http::HeaderMap, name: &str) -> String {
    headers.get(name).map(|it| it.to_str().unwrap().to_owned()).unwrap_or_default()
}

pub(crate) fn with(mut object: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        object[name] = value.clone();
    }
    object
}

pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// The page's path, of an address that must be the simulator's own.
pub(crate) fn acs_path(answer: &Value) -> String {
    let url = answer["acsURL"].as_str().unwrap();
    format!("/{}", url.splitn(4, '/').nth(3).unwrap())
}

pub(crate) fn creq(answer: &Value) -> String {
    creq_of(&creq_json(answer))
}

pub(crate) fn creq_json(answer: &Value) -> Value {
    json!({
        "messageType": "CReq", "messageVersion": answer["messageVersion"],
        "threeDSServerTransID": answer["threeDSServerTransID"],
        "acsTransID": answer["acsTransID"], "challengeWindowSize": "03",
    })
}

pub(crate) fn creq_of(json: &Value) -> String {
    encoding::encode(json.to_string().as_bytes())
}

/// A 3DS server's end of a result. What is no JSON is told as null.
async fn receive(State(told): State<mpsc::Sender<Value>>, body: String) -> String {
    let result: Value = serde_json::from_str(&body).unwrap_or_default();
    let answer = json!({
        "messageType": "RRes", "messageVersion": result["messageVersion"],
        "threeDSServerTransID": result["threeDSServerTransID"], "acsTransID": result["acsTransID"],
        "dsTransID": result["dsTransID"], "resultsStatus": "01",
    });
    drop(told.send(result));
    answer.to_string()
}
