//! Values that would like to be something else.

use serde_json::json;

use crate::stage::{Stage, acs_path, creq, with};

const CARD: &str = "4200000000000004";
const SCRIPT: &str = "\"><script>alert(1)</script>'&";

#[test]
fn a_merchants_name_is_only_a_name() {
    let stage = Stage::set();
    let request = with(stage.areq(CARD), &json!({ "merchantName": SCRIPT }));
    let answer = stage.ask("visa", &request);
    let page = stage.form(&acs_path(&answer), &[("creq", &creq(&answer))]);
    assert!(page.text.contains("&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&#39;&amp;"));
    assert!(!page.text.contains("<script"));
}

#[test]
fn an_address_is_only_an_address() {
    let stage = Stage::set();
    let url = "https://vault.example/'onload='x'?a=1&b=</form>";
    let refused = stage.ask("visa", &with(stage.areq(CARD), &json!({ "notificationURL": url })));
    assert_eq!(refused["errorDetail"], "notificationURL");
    let url = "https://vault.example/'onload='x'?a=1&b=2";
    let answer = stage.ask("visa", &with(stage.areq(CARD), &json!({ "notificationURL": url })));
    stage.form(&acs_path(&answer), &[("creq", &creq(&answer))]);
    let last = stage.press(&answer, &[("action", "cancel")]);
    let action = "action=\"https://vault.example/&#39;onload=&#39;x&#39;?a=1&amp;b=2\"";
    assert!(last.text.contains(action));
    assert!(last.policy.contains("form-action 'self' https://vault.example;"));
}

#[test]
fn what_comes_with_a_button_is_not_shown() {
    let stage = Stage::set();
    let (answer, _) = stage.challenged("visa", CARD);
    for fields in [[("action", "submit"), ("code", SCRIPT)], [("action", SCRIPT), ("code", "1")]] {
        let page = stage.press(&answer, &fields);
        assert!(page.status == 200 && !page.text.contains("alert(1)"));
    }
    for id in ["%3Cscript%3E", "x", "..%2f", "%ff"] {
        let page = stage.form(&format!("/sim/acs/challenge/{id}"), &[("action", "cancel")]);
        assert!(page.status == 400 && !page.text.to_lowercase().contains("<script"), "{id}");
    }
}

#[test]
fn no_answer_repeats_what_it_refuses() {
    let stage = Stage::set();
    let wrong = json!({ "acctNumber": "4242424242424242x", "messageVersion": "2.2.0" });
    let told = stage.ask("visa", &with(stage.areq(CARD), &wrong)).to_string();
    assert!(!told.contains("42424242"), "{told}");
}

/// A page elsewhere may post a text without asking before.
#[test]
fn a_message_is_json() {
    let stage = Stage::set();
    let request = stage.areq(CARD).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "text/plain; application/json"]
    {
        assert_eq!(stage.post("/sim/ds/visa", kind, request.as_bytes()).status, 415, "{kind}");
    }
    let kind = "Application/JSON; charset=utf-8";
    assert_eq!(stage.post("/sim/ds/visa", kind, request.as_bytes()).status, 200);
}

/// A page can make its own name lead here; its name is then what its browser asks for.
#[test]
fn only_names_of_this_machine_lead_here() {
    let stage = Stage::set();
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    for path in ["/sim/knobs", "/sim/knobs/visa", "/sim/acs/root.pem"] {
        let url = format!("{}{path}", stage.simulator.base_url());
        for (host, expected) in [("localhost:1", 200), ("evil.example", 421)] {
            let reply = agent.get(&url).header("host", host).call().unwrap();
            assert_eq!(reply.status().as_u16(), expected, "{path} {host}");
        }
    }
    let url = format!("{}/sim/acs/challenge", stage.simulator.base_url());
    let reply = agent.post(&url).header("host", "evil.example").send("").unwrap();
    assert_eq!(reply.status().as_u16(), 421);
}
