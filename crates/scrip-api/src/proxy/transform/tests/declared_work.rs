//! The work that transforms declare before they run. An expensive transform that declares little would
//! run on a worker of the async runtime, and delay all other requests.

use super::*;

fn append_header(value: &str) -> Value {
    json!({"type": "append_header", "options": {"location": "X-A", "value": value}})
}

fn tokenize(data: &str) -> Value {
    json!({"type": "tokenize", "options": {"token": {"type": "token", "data": data}}})
}

/// Different values of the message, as many as a template can read.
fn most_reads(object: &str) -> String {
    (0..2_000).map(|it| format!("{{{{{object}.a{it}}}}}")).collect()
}

fn most_nodes() -> String {
    format!(r#"{{"a":[{}]}}"#, vec![r#""""#; 20_000].join(","))
}

/// The work of the check of the client's message.
fn check_work(transforms: &[ProxyTransform], body: &str) -> (usize, MessageThread) {
    let mut thread = MessageThread::Worker;
    let mut spent = 0;
    with_client(message("application/json", body), |run| {
        thread = run.charge_client_check(transforms.iter()).unwrap();
        let charged = run.inputs.work.spent();
        run.check_client_message(transforms, TransformKind::Request).unwrap();
        spent = run.inputs.work.spent();
        assert_eq!(spent, charged, "the check charges before it runs");
    });
    (spent, thread)
}

#[test]
fn check_of_large_templates_is_charged_for_a_tiny_body() {
    let templates: Vec<_> =
        (0..14).map(|_| compile(append_header(&"{{ req.a }}".repeat(2_900)))).collect();
    let (work, thread) = check_work(&templates, "{}");
    assert!(work >= 14 * 2_900 * "{{ req.a }}".len(), "{work}");
    assert_eq!(thread, MessageThread::Slot);
    let (work, thread) = check_work(&templates[..1], "{}");
    assert!(work < 64 * 1024, "{work}");
    assert_eq!(thread, MessageThread::Worker);
}

/// Each read is a lookup, whatever the size of the value.
#[test]
fn check_of_most_reads_and_most_values_is_charged() {
    let template = [compile(append_header(&most_reads("req")))];
    let (small, _) = check_work(&template, r#"{"a":[]}"#);
    let body = most_nodes();
    let (large, _) = check_work(&template, &body);
    assert!(small >= 2_000 * 16, "{small}");
    assert_eq!(large - small, 4 * (body.len() - r#"{"a":[]}"#.len()));
}

#[test]
fn transform_after_a_parsed_answer_is_not_free() {
    let body = format!(r#"{{"b":1,{}"#, &most_nodes()[1..]);
    let (first, second) =
        (compile(append_header("{{ res.b }}")), compile(tokenize(&most_reads("res"))));
    with_run(|run| {
        let mut answer = message("application/json", &body);
        let mut target = TransformTarget::Response { message: &mut answer, status: StatusCode::OK };
        run.apply(0, &first, &mut target).unwrap();
        let before = run.inputs.work.spent();
        let declared = run.count_work(&second, &target);
        assert!(declared >= 2_000 * (16 + 16), "{declared}");
        run.apply(1, &second, &mut target).unwrap();
        assert!(run.inputs.work.spent() - before >= declared);
        // So often that it takes long: not on a worker.
        let inline = (0..10)
            .take_while(|index| run.apply_inline(*index, &second, &mut target).unwrap().is_some());
        assert!(inline.count() <= 2);
    });
}

#[test]
fn location_of_long_names_that_are_no_ascii_is_charged() {
    let append = |location: &str| {
        compile(json!({"type": "append_json", "options": {"location": location, "value": "1"}}))
    };
    let names: Vec<_> = (0..5_000).map(|it| format!("\"{it:05x}\":0")).collect();
    let body = format!("{{{}}}", names.join(","));
    let (ascii, unicode) = (append("$.z"), append(&format!("$['{}']", "ΐ".repeat(118))));
    with_run(|run| {
        let mut outgoing = OutgoingMessage::of_test(message("application/json", &body));
        let target = TransformTarget::Request(&mut outgoing);
        assert!(run.count_work(&ascii, &target) >= 3 * body.len());
        assert!(run.count_work(&unicode, &target) >= 8 * body.len());
    });
    let mut outgoing = OutgoingMessage::of_test(message("application/json", &body));
    with_run(|run| {
        let mut target = TransformTarget::Request(&mut outgoing);
        assert!(run.apply_inline(0, &unicode, &mut target).unwrap().is_none());
        run.apply(0, &unicode, &mut target).unwrap();
    });
}

/// Names are compared in a document that was validated before.
#[test]
fn body_with_a_duplicate_name_is_rejected_before_names_are_compared() {
    let append = json!({"type": "append_json", "options": {"location": "$.id", "value": "1"}});
    let mut outgoing = message("application/json", r#"{"ID":1,"a":1,"a":2}"#);
    let error = apply(append, &mut outgoing, TransformKind::Request).unwrap_err();
    assert!(detail(&error).contains("duplicate name"), "{}", detail(&error));
}
