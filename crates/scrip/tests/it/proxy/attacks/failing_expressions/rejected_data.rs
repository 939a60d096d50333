//! Rejected evaluations of encrypted data count for this data: a visitor cannot lock out others, and a
//! captured text cannot be tested without limit.

use scrip_core::types::{
    Permission::{TokenRead, TokenUse},
    TenantKind,
    Transform::Mask,
};
use serde_json::{Value, json};

use crate::proxy::{
    attacks::{
        failing_expressions::OracleAttack,
        padded_sizes::{create_client_key, create_page_session, encode_header, encrypt_token},
    },
    harness::{ProxyHarness, ProxyResponse},
};

fn start() -> ProxyHarness {
    ProxyHarness::start_with_kind(TenantKind::Production, |_, _| ())
}

fn send(attack: &OracleAttack<'_>, key: &str, header: &Value, body: &Value) -> ProxyResponse {
    let request = attack.harness.post_as(key, &attack.proxy);
    request.header("BT-ENCRYPTED", &encode_header(header)).json(body).send()
}

#[test]
fn rejected_encrypted_data_of_a_visitor_does_not_lock_out_other_visitors() {
    let harness = start();
    let attack = OracleAttack::new(&harness, json!({}));
    let client_key = create_client_key(&harness);
    let [attacker, visitor] = [(); 2].map(|()| create_page_session(&harness));
    let own = encrypt_token(&client_key, &json!("own"));
    let body = json!({"a": "{{ encrypted | json: '$.data' }}"});
    let large = json!({"a": body["a"], "fill": "f".repeat(1024 * 1024 - 100)});
    for _ in 0..20 {
        send(&attack, &attacker, &own, &large).expect_not_sent(400);
    }
    // The counter of the same text is not of one session: a page has many.
    for session in [&attacker, &visitor] {
        send(&attack, session, &own, &body).expect_not_sent(429);
    }
    let payment = encrypt_token(&client_key, &json!("own"));
    send(&attack, &visitor, &payment, &body).expect_answer(200);
}

#[test]
fn failing_header_expression_of_a_visitor_does_not_lock_out_other_visitors() {
    let harness = start();
    let attack = OracleAttack::new(&harness, json!({"configuration": {"key": "s3cr3t"}}));
    let [attacker, visitor] = [(); 2].map(|()| create_page_session(&harness));
    let send = |session: &str, text: &str| {
        let request = harness.post_as(session, &attack.proxy);
        let request = request.header("X-S", "{{ proxy.request.headers.X-A | to_number }}");
        request.header("X-A", text).json(&json!({})).send()
    };
    for _ in 0..21 {
        send(&attacker, "q").expect_not_sent(400);
    }
    send(&visitor, "1").expect_answer(200);
}

#[test]
fn encrypted_data_that_does_not_fit_its_type_counts_as_a_rejected_evaluation() {
    let harness = start();
    let attack = OracleAttack::new(&harness, json!({}));
    let client_key = create_client_key(&harness);
    let captured = encrypt_token(&client_key, &json!("12-345"));
    let with_type = |name: &str| json!({"type": name, "encrypted": captured["encrypted"]});
    let body = json!({"a": "{{ encrypted | json: '$.data' }}"});
    let private = harness.key_with_rule("/", Mask, &[TokenRead, TokenUse]);
    for key in [private, create_page_session(&harness)] {
        for index in 0..20 {
            let name = ["social_security_number", "employer_id_number"][index % 2];
            send(&attack, &key, &with_type(name), &body).expect_not_sent(400);
        }
        for name in ["social_security_number", "token"] {
            send(&attack, &key, &with_type(name), &body).expect_not_sent(429);
        }
        let other = encrypt_token(&client_key, &json!("12-345"));
        send(&attack, &key, &other, &body).expect_answer(200);
    }
    // A caller that may read the data learns nothing new.
    let reader = &harness.keys.private;
    for _ in 0..21 {
        send(&attack, reader, &with_type("social_security_number"), &body).expect_not_sent(400);
    }
    send(&attack, reader, &with_type("token"), &body).expect_answer(200);
}
