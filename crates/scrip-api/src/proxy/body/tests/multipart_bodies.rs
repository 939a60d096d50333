//! Multipart bodies.

use super::*;

const MULTIPART: &str = "multipart/form-data; boundary=\"b-1\"";

/// One part with its headers and content.
fn part(headers: &str, content: &str) -> String {
    format!("--b-1\r\nContent-Disposition: form-data; {headers}\r\n\r\n{content}\r\n")
}

/// The random bytes of these tests.
const NEW_BOUNDARY: &str = "07070707070707070707070707070707";

fn with_new_boundary(body: &str) -> String {
    body.replace("--b-1", &format!("--{NEW_BOUNDARY}"))
}

fn close(parts: &[String]) -> String {
    parts.concat() + "--b-1--\r\n"
}

#[test]
fn text_parts_are_evaluated_by_their_type_and_files_stay() {
    let parts = |pan: &str, json: &str, xml: &str| {
        close(&[
            part("name=\"pan\"", pan),
            part("name=meta\r\ncontent-type: application/json", json),
            part("name=\"x\"\r\nContent-Type: text/xml", xml),
            part("name=\"f\"; filename=\"a.txt\"", "{{ CARD }}"),
            part("name=\"g\"; filename*=UTF-8''a.txt\r\nContent-Type: text/plain", "{{ CARD }}"),
            part("name=\"h\"\r\nContent-Type: image/png", "{{ CARD }}"),
            part("name=\"i\"\r\nContent-Transfer-Encoding: base64", "{{ CARD }}"),
            part("name=\"empty\"", ""),
        ])
    };
    let body =
        parts("{{ CARD | json: '$.number' }}\r\nend", r#"{"t":"{{ TEXT }}"}"#, "<a>{{ TEXT }}</a>");
    let expected = parts(
        "4242424242424242\r\nend",
        r#"{"t":"a<b>&\"c' d"}"#,
        "<a>a&lt;b&gt;&amp;&quot;c&apos; d</a>",
    );
    check_rendered(MULTIPART, &[(&body, &with_new_boundary(&fill_ids(&expected)))]);
}

/// The client chooses its boundary, so a value that contains it must not fail.
#[test]
fn parts_with_expressions_get_a_new_boundary() {
    for text in ["x\r\n--b-1\r\n", "--b-1", "a--b-1--b", "-b"] {
        let vault = FakeVault::with_text(text);
        let parts = |content: &str| close(&[part("name=\"a\"", content), part("name=b", "c")]);
        let body = parts(&fill_ids("-{{ TEXT }}-1"));
        let rendered = render_counted(&vault, MULTIPART, &body, ValueCounting::Exact).unwrap();
        let expected =
            with_new_boundary(&parts("CONTENT")).replace("CONTENT", &format!("-{text}-1"));
        assert_eq!(String::from_utf8_lossy(&rendered.bytes), expected);
        let content_type = format!("multipart/form-data; boundary={NEW_BOUNDARY}");
        assert_eq!(rendered.content_type.unwrap(), content_type.as_str());
    }
}

#[test]
fn malformed_multipart_with_expressions_is_rejected() {
    let rule = "body: the body is not valid multipart/form-data";
    let good = part("name=\"a\"", "{{ TEXT }}");
    let rows = [
        good.clone(),
        "{{ TEXT }}".to_owned(),
        format!("preamble\r\n{}", close(std::slice::from_ref(&good))),
        close(&[good.replace("\r\n", "\n")]),
        close(&[good.replace("--b-1\r\n", "--b-1 \r\n")]),
        close(&[good.replace("{{", "\n--b-1\r\n{{")]),
        close(&[good.replace("{{", "x--b-1 {{")]),
        close(&[good.replace("Content-Disposition", "X-Other")]),
        close(&[good.replace("form-data", "attachment")]),
        close(&[good.replace(
            "name=\"a\"",
            "name=\"a\"\r\nContent-Disposition: form-data; name=b; filename=c",
        )]),
        close(&[good.replace("name=\"a\"", "name=\"a\"\r\n folded: line")]),
        close(&[good.replace("name=\"a\"", "none")]),
        format!("{}--b-1--\r\nepilogue", good),
    ];
    for body in rows {
        check_rejected(MULTIPART, &[(&body, rule)]);
    }
    let without_boundary = headers("multipart/form-data");
    let error = MessageBody::parse(&without_boundary, Bytes::from("{{ a }}")).unwrap_err();
    assert_eq!(describe(&error), "headers.Content-Type: must have a valid boundary");
}

/// The destination could use another one than the vault.
#[test]
fn multipart_with_two_boundaries_is_rejected() {
    for parameters in [
        "boundary=a; boundary=b",
        "boundary=a; boundary=a",
        "boundary=a; Boundary=\"b\"",
        "boundary=a; x; boundary=b",
        "boundary=a; boundary*0=b",
        "boundary*=a",
    ] {
        let headers = headers(&format!("multipart/form-data; {parameters}"));
        let result = MessageBody::parse(&headers, Bytes::from("--a--"));
        assert!(result.is_err(), "{parameters}");
        let result = MessageBody::without_expressions(&headers, Bytes::from("--a--"));
        assert!(result.is_err(), "{parameters}");
    }
    let headers = headers("multipart/form-data; x; y=boundary; boundary=a");
    assert!(MessageBody::parse(&headers, Bytes::from("--a--")).is_ok());
}

#[test]
fn multipart_errors_name_the_part() {
    let json = part("name=meta\r\ncontent-type: application/json", r#"{"a":["{{ nobody }}"]}"#);
    check_rejected(
        MULTIPART,
        &[
            (&close(&[json]), "body.meta.a[0]: no token has this id (at character 1)"),
            (
                &close(&[part("name=\"pan\"", "é {{ nobody }}")]),
                "body.pan: no token has this id (at character 3)",
            ),
        ],
    );
}

#[test]
fn multipart_without_expressions_is_untouched() {
    check_untouched(MULTIPART, "anything");
    check_untouched(MULTIPART, &close(&[part("name=a", "b")]));
}

#[test]
fn each_part_between_expressions_begins_with_the_new_boundary() {
    let parts = |content: &str| {
        let filled = part("name=a", content);
        let empty = part("name=b", "");
        close(&[empty.clone(), filled.clone(), empty.clone(), empty.clone(), filled, empty])
    };
    let body = parts(&fill_ids("{{ TEXT }}{{ TEXT }}"));
    let vault = FakeVault::with_text("x");
    let rendered = render_counted(&vault, MULTIPART, &body, ValueCounting::Exact).unwrap();
    let expected = with_new_boundary(&parts("xx"));
    assert_eq!(String::from_utf8_lossy(&rendered.bytes), expected);
}
