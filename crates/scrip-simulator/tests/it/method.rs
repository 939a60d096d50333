//! The page of the method URL.

use scrip_threeds::encoding;
use serde_json::json;

use crate::harness::{SimulatorHarness, encode_message, new_id};

const PATH: &str = "/sim/acs/visa/method";

#[test]
fn method_page_posts_its_notification() {
    let harness = SimulatorHarness::start();
    let (id, url) = (new_id(), "https://vault.example/3ds/sessions/x/method-notification?a=1&b=2");
    let data = json!({ "threeDSServerTransID": id, "threeDSMethodNotificationURL": url });
    let page = harness.post_form(PATH, &[("threeDSMethodData", &encode_message(&data))]);
    assert_eq!((page.status, page.cache_control.as_str()), (200, "no-store"));
    assert!(page.text.contains(
        "action=\"https://vault.example/3ds/sessions/x/method-notification?a=1&amp;b=2\""
    ));
    assert!(page.policy.contains("form-action 'self' https://vault.example;"), "{}", page.policy);
    assert!(page.text.contains("document.forms[0].submit()"));
    assert_eq!(page.decode_field("threeDSMethodData"), json!({ "threeDSServerTransID": id }));
}

#[test]
fn invalid_method_data_is_rejected() {
    let harness = SimulatorHarness::start();
    let id = new_id();
    for data in [
        json!({}),
        json!({ "threeDSServerTransID": id }),
        json!({ "threeDSServerTransID": "<b>", "threeDSMethodNotificationURL": "https://a.example" }),
        json!({ "threeDSServerTransID": id, "threeDSMethodNotificationURL": "javascript:alert(1)" }),
        json!({ "threeDSServerTransID": id, "threeDSMethodNotificationURL": "https://a;b/" }),
    ] {
        let page = harness.post_form(PATH, &[("threeDSMethodData", &encode_message(&data))]);
        assert_eq!(page.status, 400, "{data}");
        assert!(!page.text.contains("<script"));
    }
    let right = encoding::encode(b"{}");
    assert_eq!(harness.post_form(PATH, &[]).status, 400);
    let twice = [("threeDSMethodData", right.as_str()), ("threeDSMethodData", right.as_str())];
    assert_eq!(harness.post_form(PATH, &twice).status, 400);
}

#[test]
fn hang_behavior_leaves_the_method_page_without_notification() {
    let harness = SimulatorHarness::start();
    harness.put_behavior("/sim/behavior/visa", &json!({ "method": "hang" }));
    let url = "https://vault.example/n";
    let data = json!({ "threeDSServerTransID": new_id(), "threeDSMethodNotificationURL": url });
    let page =
        |path| harness.post_form(path, &[("threeDSMethodData", &encode_message(&data))]).text;
    assert!(!page(PATH).contains("<form") && !page(PATH).contains("<script"));
    assert!(page("/sim/acs/jcb/method").contains("<script"));
}
