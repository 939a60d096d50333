//! No answer repeats what was submitted where it should not.

use serde_json::json;

use crate::server::{ACME, SHARED, new_number};

#[test]
fn no_error_repeats_a_submitted_value() {
    let number = new_number();
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
        let ask = SHARED.ask("POST", "/tokens").key(&ACME.private).text("application/json", &body);
        let reply = ask.send();
        assert_eq!(reply.status, 400, "{body}: {}", reply.text);
        assert!(!reply.text.contains(&bad_number), "{}", reply.text);
    }
    for path in [format!("/tokens/{number}"), format!("/{number}")] {
        let reply = SHARED.ask("GET", &path).key(&ACME.private).send();
        assert_eq!(reply.status, 404);
        assert!(!reply.text.contains(&number));
    }
}

#[test]
fn an_expression_that_fails_on_a_value_does_not_tell_it() {
    let secret = "a-very-secret-value";
    let body = json!({"type": "token", "data": {"a": secret}, "search_indexes": ["{{ data }}"]});
    let reply = SHARED.create(&ACME.private, &body);
    assert_eq!(reply.status, 400);
    assert!(!reply.text.contains(secret));
}
