//! An attacker that may use cards and sees only masks: its expressions select data, and do not compute
//! with it, because what fails or succeeds would tell about the data.

use scrip_core::types::{
    Permission::{TokenRead, TokenUse},
    Transform::Mask,
};
use serde_json::{Value, json};

use crate::proxy::{
    attacks::failing_expressions::{OracleAttack, create_session},
    harness::PROXY,
};

/// An expression that fails only if it finds its digit tells as much when it succeeds, so a count of
/// failures does not protect a number.
#[test]
fn caller_that_sees_masks_computes_nothing_with_a_hidden_attribute() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let session = create_session(&PROXY, &attack.card);
    let id = &attack.card.id;
    let digit = char::from(attack.card.number.as_bytes()[7]);
    let other = if digit == '0' { '1' } else { '0' };
    for key in [&attack.api_key, &session] {
        let send = |body: &Value| PROXY.post_as(key, &attack.proxy).json(body).send();
        let errors =
            [digit, other].map(|it| send(&json!([attack.guess(7, it)])).expect_not_sent(403));
        assert_eq!(errors[0], errors[1]);
        let hidden = [
            "json: '$.number' | slice: 0, 6",
            "json: '$.cvc' | append: 'x'",
            "json: '$..number'",
            "json: '$[?@ == 7]'",
            "stringify",
        ];
        for filters in hidden {
            send(&json!([format!("{{{{ {id} | {filters} }}}}")])).expect_not_sent(403);
            let of_token = format!("{{{{ token: {id} | json: '$.data' | {filters} }}}}");
            send(&json!([of_token])).expect_not_sent(403);
        }
        let shown = [
            "json: '$.number'",
            "json: '$.cvc'",
            "json: '$.expiration_month' | pad_left: 2, '0'",
            "card_exp: 'MM/YY'",
        ];
        for filters in shown {
            send(&json!([format!("{{{{ {id} | {filters} }}}}")])).expect_answer(200);
        }
    }
    // A reveal right, and the right to send the data anywhere, are not limited.
    let any_destination = PROXY.key_with_rule("/", Mask, &[TokenRead, TokenUse]);
    for key in [&PROXY.keys.private, &any_destination] {
        let request = PROXY.post_as(key, &attack.proxy);
        request.json(&json!([attack.guess(7, digit)])).send().expect_not_sent(400);
    }
}

/// The client chooses the boundary, and the vault draws another one.
#[test]
fn value_that_completes_the_boundary_of_the_client_is_sent() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let send = |boundary: &str, content_type: &str, value: &str| {
        let body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"a\"{content_type}\r\n\r\n\
             {value}\r\n--{boundary}--\r\n"
        );
        let content_type = format!("multipart/form-data; boundary={boundary}");
        attack.request().body(&content_type, body).send().status()
    };
    let number = attack.card.number_expression();
    let own = PROXY.create_token(json!("--"));
    for value in [format!("--{number}"), format!("-{number}"), format!("{{{{ {own} }}}}{number}")] {
        assert_eq!(send("7", "", &value), 200, "{value}");
    }
    assert_eq!(send("a", "", &number), 200);
    assert_eq!(send("----formdata-0123", "", &format!("n: {number}")), 200);
    let json_part = format!("{{\"a\":\"{number}\",\"b\":\"{number}\"}}");
    assert_eq!(send("b", "\r\nContent-Type: application/json", &json_part), 200);
}

/// The text of the header stays the same, and the guess is in the body or in another header.
#[test]
fn header_uses_a_hidden_body_only_in_a_signature() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let send = |header: &str| {
        let request = attack.request().header("X-Guess", header).header("x4", "a\tb");
        request.json(&json!({"number": attack.card.number_expression()})).send()
    };
    let computed = [
        "{{ proxy.request.body }}",
        "{{ proxy.request.body | slice: 12, 1 }}",
        "{{ proxy.request.headers[proxy.request.body] }}",
        "{{ proxy.request.body | hmac: 'sha-256', 'key' | to_base64 | remove: '+' }}",
    ];
    for header in computed {
        send(header).expect_not_sent(403);
    }
    let signature = "{{ proxy.request.headers.x4 | append: proxy.request.body | \
        hmac: 'sha-256', 'key' | to_base16 | downcase }}";
    send(signature).expect_answer(200);
}

/// A key that may invoke the proxy, and may not read it, tests the secret of the provider.
#[test]
fn caller_without_proxy_read_computes_nothing_with_the_configuration() {
    let secret = json!({"configuration": {"secret": "s3cr3t", "user": "shop"}});
    let attack = OracleAttack::new(&PROXY, secret);
    let in_body = |text: &str| attack.request().json(&json!([text])).send();
    let in_header = |text: &str| attack.request().header("X-Key", text).json(&json!([])).send();
    in_body("{{ config: secret | slice: 0, 1 | replace: 's', '1' | to_number }}")
        .expect_not_sent(403);
    for header in
        ["{{ proxy.config.secret | slice: 0, 1 }}", "{{ proxy.request.headers[config.secret] }}"]
    {
        in_header(header).expect_not_sent(403);
    }
    in_body("{{ config: secret }}").expect_answer(200);
    let basic =
        "Basic {{ proxy.config.user | append: ':' | append: proxy.config.secret | base64_encode }}";
    in_header(basic).expect_answer(200);
    assert_eq!(attack.host.last_request().header("x-key"), Some("Basic c2hvcDpzM2NyM3Q="));
}
