//! Work of parsing, masks of headers, and appended values that replace those of the client.

use super::*;

/// One parse for each state of the message, whatever the number of transforms.
#[test]
fn messages_are_parsed_once_and_the_work_is_charged() {
    let append = |value: &str| {
        compile(json!({"type": "append_header", "options": {"location": "X-A", "value": value}}))
    };
    let body = format!(r#"{{"a":"b","rest":"{}"}}"#, "x".repeat(100_000));
    with_run(|run| {
        let mut answer = message("application/json", &body);
        let mut target = TransformTarget::Response { message: &mut answer, status: StatusCode::OK };
        let transform = append("{{ res.a }}");
        assert!(
            run.apply_inline(0, &transform, &mut target).unwrap().is_none(),
            "a large body is not parsed on a worker"
        );
        run.apply(0, &transform, &mut target).unwrap();
        let spent = run.inputs.work.spent();
        assert!(spent >= 4 * body.len(), "{spent}");
        for _ in 0..16 {
            run.apply(0, &transform, &mut target).unwrap();
        }
        assert!(run.inputs.work.spent() - spent < body.len(), "{}", run.inputs.work.spent());
        run.apply(0, &compile(regex("(zzz)")), &mut target).unwrap();
        run.apply(0, &transform, &mut target).unwrap();
        assert!(run.inputs.work.spent() - spent >= 4 * body.len());
    });
    with_run(|run| {
        let transform =
            compile(json!({"type": "append_json", "options": {"location": "$.n", "value": "v"}}));
        let mut answer = message("application/json", &body);
        let mut target = TransformTarget::Response { message: &mut answer, status: StatusCode::OK };
        let rejection = (0..400).find_map(|_| run.apply(0, &transform, &mut target).err());
        assert!(rejection.is_some(), "scans of the body are not charged");
    });
}

#[test]
fn mask_applies_to_the_headers_of_an_answer() {
    let mut answer = message("text/plain; v=4242", "4242");
    let rows = [
        ("location", "/cards/4242"),
        ("x-number", "4242"),
        ("x-number", "plain"),
        ("etag", "\"4242\""),
        ("date", "4242"),
    ];
    for (name, value) in rows {
        answer.headers.append(name, HeaderValue::from_static(value));
    }
    answer.headers.append("x-latin", HeaderValue::from_bytes(b"\xe94242").unwrap());
    apply(regex(r"(\d{4})"), &mut answer, OK).unwrap();
    assert_eq!(answer.body, "****");
    assert_eq!(answer.headers["location"], "/cards/****");
    let values: Vec<_> = answer.headers.get_all("x-number").iter().collect();
    assert_eq!(values, ["****", "plain"]);
    assert_eq!(answer.headers["date"], "4242");
    assert_eq!(answer.headers["content-type"], "text/plain; v=4242");
    assert!(!answer.headers.contains_key("etag") && !answer.headers.contains_key("x-latin"));
    // The client's request keeps its headers.
    let mut request = message("text/plain", "4242");
    request.headers.append("x-number", HeaderValue::from_static("4242"));
    apply(regex(r"(\d{4})"), &mut request, TransformKind::Request).unwrap();
    assert_eq!(request.headers["x-number"], "4242");
}

#[test]
fn first_appended_header_replaces_the_values_of_the_client() {
    let append = |name: &str, value: &str| {
        compile(json!({"type": "append_header", "options": {"location": name, "value": value}}))
    };
    let mut outgoing = message("text/plain", "");
    for name in ["authorization", "x-api-key", "x_api_key", "x-api_key", "x-other"] {
        outgoing.headers.append(name, HeaderValue::from_static("client"));
    }
    let mut outgoing = OutgoingMessage::of_test(outgoing);
    with_run(|run| {
        let mut target = TransformTarget::Request(&mut outgoing);
        for (name, value) in
            [("Authorization", "first"), ("Authorization", "second"), ("X-API-Key", "key")]
        {
            run.apply(0, &append(name, value), &mut target).unwrap();
        }
    });
    let headers = outgoing.into_message_of_test().headers;
    let values: Vec<_> = headers.get_all("authorization").iter().collect();
    assert_eq!(values, ["first", "second"]);
    assert_eq!(headers["x-api-key"], "key");
    assert!(!headers.contains_key("x_api_key") && !headers.contains_key("x-api_key"));
    assert_eq!(headers["x-other"], "client");
}

#[test]
fn first_appended_form_field_replaces_the_fields_of_the_client() {
    let append = |value: &str| compile(json!({"type": "append_text", "options": {"value": value}}));
    let form = "application/x-www-form-urlencoded";
    let rows = [
        ("a=1&key=x&b=2", &["&key=s"][..], "a=1&b=2&key=s"),
        ("Key=x&k%65y=y&a=1", &["&key=s"], "a=1&key=s"),
        ("api_key=x&api-key=y&a=1", &["&api_key=s", "&api_key=t"], "a=1&api_key=s&api_key=t"),
        ("a=1", &["2&key=s"], "a=12&key=s"),
        ("key=x", &["key=s"], "key=xkey=s"),
        ("a=1;key=x&b=2", &["&key=s"], "b=2&key=s"),
        ("+key=x&key[]=y&key%00z=1&ke=2", &["&key=s"], "ke=2&key=s"),
        ("my.id=x&a[b]=1", &["&my_id=s&a=2"], "&my_id=s&a=2"),
        ("a[b]=x&a[c]=1", &["&a[b]=s", "&a[d]=t"], "a[c]=1&a[b]=s&a[d]=t"),
        ("", &["key=s"], "key=s"),
    ];
    for (body, values, expected) in rows {
        let mut outgoing = OutgoingMessage::of_test(message(form, body));
        with_run(|run| {
            for value in values {
                let mut target = TransformTarget::Request(&mut outgoing);
                run.apply(0, &append(value), &mut target).unwrap();
            }
        });
        assert_eq!(outgoing.into_message_of_test().body, expected, "{body}");
    }
}

/// Each field of the client is looked up among the appended ones, and the body is copied.
#[test]
fn text_appended_to_a_long_form_is_charged_and_does_not_run_inline() {
    let fields: String = (0..5000).map(|it| format!("&{it:x}")).collect();
    let append = compile(json!({"type": "append_text", "options": {"value": fields}}));
    let body = "A1&".repeat(30_000);
    let mut outgoing =
        OutgoingMessage::of_test(message("application/x-www-form-urlencoded", &body));
    with_run(|run| {
        let mut target = TransformTarget::Request(&mut outgoing);
        assert!(run.apply_inline(0, &append, &mut target).unwrap().is_none());
        let charged_before = run.inputs.work.spent();
        run.apply(0, &append, &mut target).unwrap();
        assert!(run.inputs.work.spent() >= charged_before + body.len());
    });
}

/// Some servers ignore case, and take the last one of two properties.
#[test]
fn json_with_a_property_similar_to_the_appended_one_is_rejected() {
    let append = json!({"type": "append_json",
        "options": {"location": "$.merchant_id", "value": "honest"}});
    let mut similar = message("application/json", r#"{"merchant_id":1,"MERCHANT_ID":"evil"}"#);
    let error = apply(append.clone(), &mut similar, TransformKind::Request).unwrap_err();
    assert!(detail(&error).contains("differs only in case"), "{}", detail(&error));
    let mut honest = message("application/json", r#"{"merchant_id":1,"a":{"MERCHANT_ID":2}}"#);
    apply(append, &mut honest, TransformKind::Request).unwrap();
    let append = json!({"type": "append_json",
        "options": {"location": "$.orders[1].merchant.id", "value": "honest"}});
    let rows = [
        (r#"{"orders":[{},{"merchant":{}}]}"#, true),
        (r#"{"orders":[{"Merchant":{}},{"merchant":{"a":{"ID":1}},"a":{"Merchant":1}}]}"#, true),
        (r#"{"orders":[{},{"merchant":{},"Merchant":{"id":"evil"}}]}"#, false),
        (r#"{"orders":[{},{"Merchant":{"id":"evil"},"merchant":{}}]}"#, false),
        (r#"{"orders":[{},{"merchant":{"id":1,"Id":"evil"}}]}"#, false),
        (r#"{"ORDERS":[{},{"merchant":{"id":"evil"}}],"orders":[{},{"merchant":{}}]}"#, false),
    ];
    for (body, is_accepted) in rows {
        let mut message = message("application/json", body);
        let result = apply(append.clone(), &mut message, TransformKind::Request);
        assert_eq!(result.is_ok(), is_accepted, "{body}");
    }
}

/// The check digit is computed for 19 characters at each digit.
#[test]
fn stratus_mask_charges_the_check_digit_of_each_digit() {
    let mask = compile(json!({"type": "mask", "matcher": "chase_stratus_pan", "replacement": "X"}));
    with_run(|run| {
        let mut answer = message("text/plain", &"7".repeat(10_000));
        let mut target = TransformTarget::Response { message: &mut answer, status: StatusCode::OK };
        assert!(run.apply_inline(0, &mask, &mut target).unwrap().is_none());
        run.apply(0, &mask, &mut target).unwrap();
        assert!(run.mask_work >= 190_000, "{}", run.mask_work);
    });
}
