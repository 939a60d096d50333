//! A simulator, and a 3DS server that exchanges messages with it.

use std::{sync::mpsc, time::Duration};

use axum::{Router, extract::State, routing::post};
use scrip_simulator::{SimulatorHandle, SimulatorSettings, Timers};
use scrip_testing::requests::http_client::{BlockingClient, ClientRequest};
use scrip_threeds::encoding;
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime};

/// Far longer than any test needs: only a failing test waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct SimulatorHarness {
    pub(crate) simulator: SimulatorHandle,
    pub(crate) server_url: String,
    received_results: mpsc::Receiver<Value>,
    client: BlockingClient,
    _runtime: Runtime,
}

/// Timers that do not expire within a test.
pub(crate) fn settings_with_long_timers() -> SimulatorSettings {
    let long_time = Duration::from_secs(3600);
    let timers = Timers {
        first_creq: long_time,
        interaction: long_time,
        decoupled: Duration::from_millis(20),
        outgoing_timeout: TIMEOUT,
        silence: long_time,
        ..Timers::default()
    };
    SimulatorSettings { timers, ..SimulatorSettings::default() }
}

impl SimulatorHarness {
    pub(crate) fn start() -> Self {
        Self::with_settings(settings_with_long_timers())
    }

    pub(crate) fn with_settings(settings: SimulatorSettings) -> Self {
        let runtime = Runtime::new().unwrap();
        let (result_sender, results) = mpsc::channel();
        let (simulator, server) = runtime.block_on(async {
            let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = server.local_addr().unwrap();
            let app = Router::new()
                .route("/results/secret", post(receive_result))
                .with_state(result_sender);
            tokio::spawn(async { axum::serve(server, app).await });
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let simulator = scrip_simulator::start(listener, settings).unwrap();
            (simulator, format!("http://{address}"))
        });
        Self {
            simulator,
            server_url: server,
            received_results: results,
            client: BlockingClient::with_timeout(TIMEOUT),
            _runtime: runtime,
        }
    }

    /// Waits for the next result that the 3DS server receives.
    pub(crate) fn next_result(&self) -> Value {
        self.received_results.recv_timeout(TIMEOUT).expect("a result")
    }

    /// A result that has already arrived.
    pub(crate) fn try_next_result(&self) -> Option<Value> {
        self.received_results.try_recv().ok()
    }

    fn request(&self, method: &str, path: &str) -> ClientRequest {
        self.client.request(method, format!("{}{path}", self.simulator.base_url()))
    }

    pub(crate) fn post(&self, path: &str, content_type: &str, body: &[u8]) -> PageResponse {
        let request = self.request("POST", path).header("content-type", content_type);
        let response = request.body(body.to_vec()).send();
        let header = |name| response.header(name).unwrap_or_default().to_owned();
        PageResponse {
            status: response.status,
            policy: header("content-security-policy"),
            cache_control: header("cache-control"),
            content_type: header("content-type"),
            text: response.text(),
        }
    }

    pub(crate) fn post_form(&self, path: &str, fields: &[(&str, &str)]) -> PageResponse {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.post(path, "application/x-www-form-urlencoded", body.as_bytes())
    }

    /// Sends a message to a directory server and returns the response.
    pub(crate) fn send_message(&self, scheme: &str, message: &Value) -> Value {
        let response =
            self.post(&format!("/sim/ds/{scheme}"), JSON, message.to_string().as_bytes());
        assert_eq!((response.status, response.content_type.as_str()), (200, JSON));
        serde_json::from_str(&response.text).unwrap()
    }

    pub(crate) fn put_behavior(&self, path: &str, behavior: &Value) -> (u16, String) {
        let response = self.request("PUT", path).body(behavior.to_string()).send();
        (response.status, response.text())
    }

    pub(crate) fn get_behavior(&self, path: &str) -> Value {
        self.request("GET", path).send().json()
    }

    pub(crate) fn reset_behavior(&self, path: &str) -> Value {
        self.request("DELETE", path).send().json()
    }

    /// The `AReq` of a 3DS server for this card and a browser.
    pub(crate) fn areq(&self, number: &str) -> Value {
        merge(
            self.bare_areq("02", number),
            &json!({
                "threeDSCompInd": "U", "threeDSRequestorAuthenticationInd": "01",
                "notificationURL": format!("{}/notification", self.server_url),
                "browserAcceptHeader": "*/*", "browserJavascriptEnabled": true,
                "browserJavaEnabled": false, "browserLanguage": "en", "browserColorDepth": "24",
                "browserScreenHeight": "600", "browserScreenWidth": "800", "browserTZ": "0",
                "browserUserAgent": "test",
            }),
        )
    }

    /// The `AReq` of a merchant-initiated authentication.
    pub(crate) fn merchant_areq(&self, number: &str) -> Value {
        merge(
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
            "threeDSServerRefNumber": "ref", "threeDSServerURL": format!("{}/results/secret", self.server_url),
            "threeDSRequestorID": "id", "threeDSRequestorName": "name",
            "threeDSRequestorURL": "https://shop.example", "acctNumber": number,
            "acquirerBIN": "123456", "acquirerMerchantID": "mid", "merchantName": "Little Shop",
            "merchantCountryCode": "840", "mcc": "5411", "purchaseAmount": "123456",
            "purchaseCurrency": "840", "purchaseExponent": "2", "purchaseDate": "20261115120000",
        })
    }

    /// Starts a challenge and returns the `ARes` and the first page.
    pub(crate) fn start_challenge(&self, scheme: &str, number: &str) -> (Value, PageResponse) {
        let ares = self.send_message(scheme, &self.areq(number));
        assert_eq!(ares["transStatus"], "C", "{ares}");
        let page = self.post_form(&acs_path(&ares), &[("creq", &creq(&ares))]);
        (ares, page)
    }

    /// Presses a button on a challenge page.
    pub(crate) fn press_button(&self, ares: &Value, fields: &[(&str, &str)]) -> PageResponse {
        let id = ares["acsTransID"].as_str().unwrap();
        self.post_form(&format!("/sim/acs/challenge/{id}"), fields)
    }
}

pub(crate) const JSON: &str = "application/json; charset=utf-8";

#[derive(Debug)]
pub(crate) struct PageResponse {
    pub(crate) status: u16,
    pub(crate) policy: String,
    pub(crate) cache_control: String,
    pub(crate) content_type: String,
    pub(crate) text: String,
}

impl PageResponse {
    /// The value of a hidden field of the page.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let (_, rest) = self.text.split_once(&format!("name=\"{name}\" value=\""))?;
        rest.split('"').next().map(str::to_owned)
    }

    /// The decoded message that the browser returns in this field.
    pub(crate) fn decode_field(&self, name: &str) -> Value {
        let field = self.field(name).unwrap_or_else(|| panic!("{name} in {}", self.text));
        serde_json::from_slice(&encoding::decode(&field).unwrap()).unwrap()
    }
}

pub(crate) fn merge(mut object: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        object[name] = value.clone();
    }
    object
}

pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// The path of the ACS URL. Panics if the URL does not belong to the simulator.
pub(crate) fn acs_path(ares: &Value) -> String {
    let url = ares["acsURL"].as_str().unwrap();
    format!("/{}", url.splitn(4, '/').nth(3).unwrap())
}

pub(crate) fn creq(ares: &Value) -> String {
    encode_message(&creq_json(ares))
}

pub(crate) fn creq_json(ares: &Value) -> Value {
    json!({
        "messageType": "CReq", "messageVersion": ares["messageVersion"],
        "threeDSServerTransID": ares["threeDSServerTransID"],
        "acsTransID": ares["acsTransID"], "challengeWindowSize": "03",
    })
}

pub(crate) fn encode_message(json: &Value) -> String {
    encoding::encode(json.to_string().as_bytes())
}

/// The result endpoint of the 3DS server. A body that is not JSON is recorded as null.
async fn receive_result(State(result_sender): State<mpsc::Sender<Value>>, body: String) -> String {
    let result: Value = serde_json::from_str(&body).unwrap_or_default();
    let response = json!({
        "messageType": "RRes", "messageVersion": result["messageVersion"],
        "threeDSServerTransID": result["threeDSServerTransID"], "acsTransID": result["acsTransID"],
        "dsTransID": result["dsTransID"], "resultsStatus": "01",
    });
    drop(result_sender.send(result));
    response.to_string()
}
