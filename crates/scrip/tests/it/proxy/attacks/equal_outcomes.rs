//! An attacker that may use data and not read it sends the same request for two values. Nothing that
//! can fail depends on the value, so both calls have the same outcome.

use scrip_egress::AllowList;
use scrip_testing::destination::DESTINATION_DOMAIN;
use serde_json::{Value, json};

use crate::proxy::{
    attacks::{
        failing_expressions::OracleAttack,
        padded_sizes::{create_client_key, encode_header, encrypt_token},
    },
    harness::{PROXY, ProxyHarness, ProxyRequest},
};

const BODY_BYTES_MAX: usize = 1024 * 1024;
const JSON: &str = "application/json";

/// The statuses of calls that differ in the hidden value only.
fn send_each<const N: usize>(
    attack: &OracleAttack<'_>,
    values: [Value; N],
    build: impl Fn(ProxyRequest, &str) -> ProxyRequest,
) -> [u16; N] {
    values.map(|value| {
        let id = attack.harness.create_token(value);
        build(attack.request(), &id).send().status()
    })
}

fn append_json(location: &str) -> Value {
    let options = json!({"location": location, "value": "x"});
    json!({"request_transforms": [{"type": "append_json", "options": options}]})
}

/// The client guesses the first character of the text that follows two dashes.
#[test]
fn boundary_of_the_client_is_not_compared_with_a_hidden_value() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let id = PROXY.create_token(json!("--k3y"));
    let mut boundaries = Vec::new();
    for boundary in ["k", "k3", "x", "----formdata-0123"] {
        let part = "Content-Disposition: form-data; name=\"a\"\r\n\r\n";
        let body = format!("--{boundary}\r\n{part}{{{{ {id} }}}}\r\n--{boundary}--\r\n");
        let content_type = format!("multipart/form-data; boundary=\"{boundary}\"");
        attack.request().body(&content_type, body).send().expect_answer(200);
        let sent = attack.host.last_request();
        let (_, drawn) = sent.header("content-type").unwrap().split_once("boundary=").unwrap();
        let expected = format!("--{drawn}\r\n{part}--k3y\r\n--{drawn}--\r\n");
        assert_eq!(sent.text(), expected);
        boundaries.push(drawn.to_owned());
    }
    boundaries.sort_unstable();
    boundaries.dedup();
    assert_eq!(boundaries.len(), 4, "each call has a boundary of its own");
    assert!(boundaries.iter().all(|it| it.len() == 32));
}

/// Two members with the same name are an error, so a name with a hidden value tests a guess.
#[test]
fn append_json_does_not_parse_hidden_data_as_json() {
    let attack = OracleAttack::new(&PROXY, append_json("$.provider"));
    for content_type in ["text/plain", "text/json", "application/x-www-form-urlencoded"] {
        let statuses = send_each(&attack, [json!("4242"), json!("4243")], |request, id| {
            request.body(content_type, format!("{{\"n={{{{ {id} }}}}\":1,\"n=4242\":2}}"))
        });
        assert_eq!(statuses, [403, 403], "{content_type}");
    }
    let sent = send_each(&attack, [json!("a"), json!(7)], |request, id| {
        request.json(&json!({"number": format!("{{{{ {id} }}}}")}))
    });
    assert_eq!(sent, [200, 200]);
    // Nothing is appended to another content type, whatever the body is.
    assert_eq!(attack.request().body("text/plain", "{\"a\":1}").send().status(), 400);
}

/// A key with `token:use` may send the data elsewhere. A name would still compare the data with a guess.
#[test]
fn append_json_does_not_compare_names_with_data_of_a_holder_of_token_use() {
    let attack = OracleAttack::new(&PROXY, append_json("$.provider"));
    let body = |expression: &str| format!("{{\"n={{{{ {expression} }}}}\":1,\"n=4242\":2}}");
    let client_key = create_client_key(&PROXY);
    for content_type in ["text/plain", "application/x-www-form-urlencoded"] {
        let stored = send_each(&attack, [json!("4242"), json!("4243")], |_, id| {
            attack.request_with_use().body(content_type, body(id))
        });
        assert_eq!(stored, [403; 2], "{content_type}");
        let encrypted = ["4242", "4243"].map(|value| {
            let header = encode_header(&encrypt_token(&client_key, &json!(value)));
            let request = attack.request_with_use().header("BT-ENCRYPTED", &header);
            request.body(content_type, body("encrypted | json: '$.data'")).send().status()
        });
        assert_eq!(encrypted, [403; 2], "{content_type}");
    }
    assert_eq!(attack.host.request_count(), 0);
    let id = PROXY.create_token(json!("4242"));
    let number = json!({"number": format!("{{{{ {id} }}}}")});
    attack.request_with_use().json(&number).send().expect_answer(200);
    assert_eq!(attack.request_with_use().body("text/plain", "{\"a\":1}").send().status(), 400);
    // A key with a reveal right knows the data.
    let readable =
        PROXY.post_to(&attack.proxy).body("text/plain", format!("{{\"{{{{ {id} }}}}\":1}}"));
    assert_eq!(readable.send().status(), 400);
    assert_eq!(attack.host.request_count(), 1);
}

/// Whether the location exists would tell the type of the value, or the depth of an object.
#[test]
fn append_json_has_the_same_outcome_for_each_type_of_a_hidden_value() {
    let values = || [json!({"a": {}}), json!({"a": "text"}), json!({"b": [1]}), json!("text")];
    let inside = OracleAttack::new(&PROXY, append_json("$.card.provider"));
    let statuses = send_each(&inside, values(), |request, id| {
        request.json(&json!({"card": format!("{{{{ {id} | json: '$.a' }}}}")}))
    });
    assert_eq!(statuses, [403; 4]);
    // The whole body can be an expression, too.
    for location in ["$.provider", "$[0]", "$.a.provider"] {
        let root = OracleAttack::new(&PROXY, append_json(location));
        let statuses = send_each(&root, values(), |request, id| {
            request.json(&json!(format!("{{{{ {id} }}}}")))
        });
        assert_eq!(statuses, [403; 4], "{location}");
    }
    let over = OracleAttack::new(&PROXY, append_json("$.card"));
    let statuses = send_each(&over, values(), |request, id| {
        request.json(&json!({"card": format!("{{{{ {id} | json: '$.a' }}}}")}))
    });
    assert_eq!(statuses, [200; 4]);
    let deep = (0..25).fold(json!("x"), |it, _| json!({"a": it}));
    let place = |expression: String| (0..10).fold(json!(expression), |it, _| json!({"b": it}));
    let statuses = send_each(&over, [deep, json!("x")], |request, id| {
        request.json(&place(format!("{{{{ {id} }}}}")))
    });
    assert_eq!(statuses, [200; 2]);
}

/// The client fills the message up to its maximum, so that a longer value would be an error.
#[test]
fn length_of_a_hidden_value_does_not_decide_whether_the_message_is_too_large() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let values = || [json!("x".repeat(10)), json!("x".repeat(200))];
    for (free, expected) in [(600, [400; 2]), (7_000, [200; 2])] {
        let fill = "f".repeat(BODY_BYTES_MAX - free);
        let statuses = send_each(&attack, values(), |request, id| {
            request.body(JSON, format!("[\"{{{{ {id} }}}}\",\"{fill}\"]"))
        });
        assert_eq!(statuses, expected, "{free} bytes are free");
    }
    // The length counts exactly for a caller that may read the value.
    let id = PROXY.create_token(json!("x".repeat(600_000)));
    let body = json!([format!("{{{{ {id} }}}}")]);
    PROXY.post_to(&attack.proxy).json(&body).send().expect_answer(200);
    assert_eq!(attack.request().json(&body).send().status(), 400);
}

/// The statuses of calls through proxies that differ in one text of the administrator.
fn send_to_each(
    proxy: impl Fn(&str) -> Value,
    build: impl Fn(ProxyRequest) -> ProxyRequest,
) -> [u16; 2] {
    ["s".repeat(10), "s".repeat(200)].map(|secret| {
        let attack = OracleAttack::new(&PROXY, proxy(&secret));
        build(attack.request()).send().status()
    })
}

#[test]
fn length_of_the_configuration_does_not_decide_whether_a_call_fails() {
    let configured = |secret: &str| json!({"configuration": {"secret": secret}});
    let fill = "f".repeat(BODY_BYTES_MAX - 100);
    let in_body = format!("[\"{{{{ config: secret }}}}\",\"{fill}\"]");
    let statuses = send_to_each(configured, |it| it.body(JSON, in_body.clone()));
    assert_eq!(statuses, [400; 2]);
    let signature = "{{ proxy.request.body | append: proxy.config.secret | \
        hmac: 'sha-256', 'key' | to_base16 }}";
    let signed = |fill: &str| {
        send_to_each(configured, |request| {
            request.header("X-Signature", signature).body("text/plain", fill.to_owned())
        })
    };
    assert_eq!(signed(&fill), [400; 2]);
    assert_eq!(signed("short"), [200; 2]);
    let appended = |secret: &str| {
        let options = json!({"value": secret});
        json!({"request_transforms": [{"type": "append_text", "options": options}]})
    };
    let statuses = send_to_each(appended, |it| it.body("text/plain", fill.clone()));
    assert_eq!(statuses, [413; 2]);
    assert_eq!(send_to_each(appended, |it| it.body("text/plain", "short")), [200; 2]);
}

/// A signature reads the whole body, so the maximum of a text would tell the length of a value.
#[test]
fn signature_is_bounded_before_it_reads_hidden_data() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let signature = "{{ proxy.request.body | append: proxy.request.headers.x4 | \
        hmac: 'sha-256', 'key' | to_base16 }}";
    let fill = "f".repeat(BODY_BYTES_MAX - 4000);
    let statuses = send_each(&attack, [json!("x"), json!("x".repeat(200))], |request, id| {
        let request = request.header("X-Signature", signature).header("x4", &"h".repeat(3850));
        request.body(JSON, format!("[\"{{{{ {id} }}}}\",\"{fill}\"]"))
    });
    assert_eq!(statuses, [400; 2]);
}

/// The work of a mask, and the length of its result, depend on what it matches.
#[test]
fn mask_of_a_request_does_not_read_hidden_data() {
    let mask =
        json!({"type": "mask", "matcher": "regex", "expression": "(4+)", "replacement": "é"});
    let attack = OracleAttack::new(&PROXY, json!({"request_transforms": [mask]}));
    let fill = "f".repeat(BODY_BYTES_MAX - 520);
    let statuses = send_each(&attack, ["4", "5"].map(|it| json!(it.repeat(300))), |it, id| {
        it.body(JSON, format!("[\"{{{{ {id} }}}}\",\"{fill}\"]"))
    });
    assert_eq!(statuses, [403; 2]);
    attack.request().json(&json!({"a": "44"})).send().expect_answer(200);
    assert_eq!(attack.host.last_request().text(), "{\"a\":\"éé\"}");
    let body = json!([attack.card.number_expression()]);
    attack.request_with_use().json(&body).send().expect_answer(200);
}

/// `token:use` is the same as reading only if its holder can have a destination of its own.
#[test]
fn holder_of_token_use_computes_nothing_if_the_operator_lists_destinations() {
    let harness = ProxyHarness::start_with(|_, egress| {
        let names = format!("*.{DESTINATION_DOMAIN}");
        egress.allow_list = AllowList::parse([names.as_str(), "127.0.0.0/8"]).unwrap();
    });
    let attack = OracleAttack::new(&harness, json!({}));
    for digit in ['1', '2'] {
        let response = attack.request_with_use().json(&json!([attack.guess(7, digit)])).send();
        response.expect_not_sent(403);
    }
    let selected = json!([attack.card.number_expression()]);
    attack.request_with_use().json(&selected).send().expect_answer(200);
}

/// A public key has no right to let the vault compile a megabyte of expressions.
#[test]
fn right_to_evaluate_is_checked_before_expressions_are_compiled() {
    let attack = OracleAttack::new(&PROXY, json!({"require_auth": false}));
    let send = |content_type: &str, body: &str| {
        let request = PROXY.request("POST", "").api_key(&PROXY.keys.public);
        request.proxy_key(&attack.proxy.key).body(content_type, body.to_owned()).send()
    };
    for body in ["[\"{{ unfinished |\"]", "[\"{{ a | unknown_filter }}\"]"] {
        send(JSON, body).expect_not_sent(403);
    }
    // A file is no expression.
    let file =
        "--a\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n{{\r\n--a--";
    send("multipart/form-data; boundary=a", file).expect_answer(200);
    assert_eq!(attack.host.last_request().text(), file);
}

/// An administrator may write a secret into the transform itself.
#[test]
fn literal_text_of_a_transform_is_hidden_like_the_configuration() {
    let options = json!({"location": "$.secret", "value": "s3cr3t"});
    let transforms = json!([{"type": "append_json", "options": options}]);
    let attack = OracleAttack::new(&PROXY, json!({"request_transforms": transforms}));
    let guess = "{{ proxy.request.body | json: '$.secret' | slice: 1, 1 | to_number }}";
    attack.request().header("X-Guess", guess).json(&json!({})).send().expect_not_sent(403);
    let signature = "{{ proxy.request.body | hmac: 'sha-256', 'key' | to_base16 }}";
    attack.request().header("X-Guess", signature).json(&json!({})).send().expect_answer(200);
}

#[test]
fn character_that_xml_cannot_have_does_not_decide_whether_a_call_fails() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let statuses = send_each(&attack, [json!("ab"), json!("a\u{1}b")], |request, id| {
        request.body("application/xml", format!("<a b=\"{{{{ {id} }}}}\">{{{{ {id} }}}}</a>"))
    });
    assert_eq!(statuses, [200; 2]);
    assert_eq!(attack.host.last_request().text(), "<a b=\"a\u{fffd}b\">a\u{fffd}b</a>");
}

/// One call could load twenty tokens of a megabyte each.
#[test]
fn tokens_of_one_call_have_at_most_4_mib_together() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let body = json!({"a": 1, "b": "x".repeat(900_000)});
    let ids: Vec<_> = (0..5).map(|_| PROXY.create_token(body.clone())).collect();
    let send = |count: usize| {
        let selected = ids.iter().take(count).map(|id| format!("{{{{ {id} | json: '$.a' }}}}"));
        attack.request().json(&json!(selected.collect::<Vec<_>>())).send()
    };
    send(4).expect_answer(200);
    let error = send(5).expect_not_sent(400);
    assert!(error["errors"]["body"][0].as_str().unwrap().contains("4 MiB"), "{error}");
}
