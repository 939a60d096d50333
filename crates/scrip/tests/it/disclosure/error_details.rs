//! Errors must not repeat submitted values.

use serde_json::json;

use crate::harness::server::{ACME, SERVER, unique_card_number};

#[test]
fn no_error_repeats_a_submitted_value() {
    let number = unique_card_number();
    let bad_number = format!("{}{}", &number[..15], (number.as_bytes()[15] - b'0' + 1) % 10);
    let bodies = [
        format!(r#"{{"type":"card","data":{{"number":"{bad_number}"}}}}"#),
        format!(r#"{{"type":"card","data":{{"number":{bad_number}}}}}"#),
        format!(r#"{{"type":"card","data":{{"number":"{bad_number}"}}"#),
        format!(r#"{{"type":"card","data":{{"number":"{bad_number}","number":"{bad_number}"}}}}"#),
        format!(r#"{{"type":"{bad_number}","data":1}}"#),
        format!(r#"{{"type":"token","data":1,"containers":["{bad_number}"]}}"#),
        format!(r#"{{"type":"token","data":1,"expires_at":"{bad_number}"}}"#),
        format!(r#"{{"type":"token","data":1,"metadata":{{"{bad_number}":1}}}}"#),
        format!(r#"{{"type":"token","data":1,"mask":"{{{{ {bad_number}x }}}}"}}"#),
        format!(
            r#"{{"type":"token","data":1,"fingerprint_expression":"{{{{ data | {bad_number} }}}}"}}"#
        ),
        format!(r#"{{"type":"token","data":1,"id":"{bad_number}/"}}"#),
        format!(r#"{bad_number}x"#),
        format!(r#""{bad_number}"#),
    ];
    for body in bodies {
        let request =
            SERVER.request("POST", "/tokens").key(&ACME.private).body("application/json", &body);
        let response = request.send();
        assert_eq!(response.status, 400, "{body}: {}", response.text);
        assert!(!response.text.contains(&bad_number), "{}", response.text);
    }
    for path in [format!("/tokens/{number}"), format!("/{number}")] {
        let response = SERVER.request("GET", &path).key(&ACME.private).send();
        assert_eq!(response.status, 404);
        assert!(!response.text.contains(&number));
    }
}

#[test]
fn tokenize_and_detokenize_errors_do_not_repeat_submitted_values() {
    let number = unique_card_number();
    let bad_number = format!("{}{}", &number[..15], (number.as_bytes()[15] - b'0' + 1) % 10);
    let token = json!({"type": "card", "data": {"number": bad_number}});
    let bodies = [
        ("/tokenize", json!({"customer": {"card": token}}), "customer.card.data.number"),
        ("/tokenize", json!({ (bad_number.clone()): token }), "*.data.number"),
        ("/tokenize", json!({ (format!("card-{bad_number}")): [token] }), "*[0].data.number"),
        ("/tokenize", json!([{"type": bad_number, "data": 1}]), "[0].type"),
        ("/tokenize", json!({"a": vec![bad_number.clone(); 6]}), "tokenize_limit"),
        ("/detokenize", json!({"a": format!("{{{{ {bad_number} }}}}")}), "a"),
        ("/detokenize", json!({ (bad_number.clone()): "{{ absent }}" }), "*"),
        ("/detokenize", json!([1, format!("{{{{ abc | {bad_number} }}}}")]), "[1]"),
        ("/detokenize", json!(format!("{{{{ {bad_number}")), "body"),
    ];
    for (path, body, attribute) in bodies {
        let response = SERVER.post(&ACME.private, path, &body);
        response.expect_invalid(attribute);
        assert!(!response.text.contains(&bad_number), "{}", response.text);
    }
}

#[test]
fn failed_expression_error_does_not_contain_the_value() {
    let secret = "a-very-secret-value";
    let body = json!({"type": "token", "data": {"a": secret}, "search_indexes": ["{{ data }}"]});
    let response = SERVER.create_token(&ACME.private, &body);
    assert_eq!(response.status, 400);
    assert!(!response.text.contains(secret));
}
