//! The method page.

use scrip_threeds::encoding;
use serde_json::json;

use crate::stage::{Stage, creq_of, new_id};

const PATH: &str = "/sim/acs/visa/method";

#[test]
fn it_tells_that_it_has_run() {
    let stage = Stage::set();
    let (id, url) = (new_id(), "https://vault.example/3ds/sessions/x/method-notification?a=1&b=2");
    let data = json!({ "threeDSServerTransID": id, "threeDSMethodNotificationURL": url });
    let page = stage.form(PATH, &[("threeDSMethodData", &creq_of(&data))]);
    assert_eq!((page.status, page.caching.as_str()), (200, "no-store"));
    assert!(page.text.contains(
        "action=\"https://vault.example/3ds/sessions/x/method-notification?a=1&amp;b=2\""
    ));
    assert!(page.policy.contains("form-action 'self' https://vault.example;"), "{}", page.policy);
    assert!(page.text.contains("document.forms[0].submit()"));
    assert_eq!(page.brings("threeDSMethodData"), json!({ "threeDSServerTransID": id }));
}

#[test]
fn what_it_cannot_read() {
    let stage = Stage::set();
    let id = new_id();
    for data in [
        json!({}),
        json!({ "threeDSServerTransID": id }),
        json!({ "threeDSServerTransID": "<b>", "threeDSMethodNotificationURL": "https://a.example" }),
        json!({ "threeDSServerTransID": id, "threeDSMethodNotificationURL": "javascript:alert(1)" }),
        json!({ "threeDSServerTransID": id, "threeDSMethodNotificationURL": "https://a;b/" }),
    ] {
        let page = stage.form(PATH, &[("threeDSMethodData", &creq_of(&data))]);
        assert_eq!(page.status, 400, "{data}");
        assert!(!page.text.contains("<script"));
    }
    let right = encoding::encode(b"{}");
    assert_eq!(stage.form(PATH, &[]).status, 400);
    let twice = [("threeDSMethodData", right.as_str()), ("threeDSMethodData", right.as_str())];
    assert_eq!(stage.form(PATH, &twice).status, 400);
}

#[test]
fn it_can_be_made_to_hang() {
    let stage = Stage::set();
    stage.turn("/sim/knobs/visa", &json!({ "method": "hang" }));
    let url = "https://vault.example/n";
    let data = json!({ "threeDSServerTransID": new_id(), "threeDSMethodNotificationURL": url });
    let page = |path| stage.form(path, &[("threeDSMethodData", &creq_of(&data))]).text;
    assert!(!page(PATH).contains("<form") && !page(PATH).contains("<script"));
    assert!(page("/sim/acs/jcb/method").contains("<script"));
}
