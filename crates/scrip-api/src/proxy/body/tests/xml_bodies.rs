//! XML bodies.

use super::*;

#[test]
fn xml_results_are_escaped_in_text_and_attributes() {
    for content_type in ["text/xml", "application/xml; charset=utf-8", "application/soap+xml"] {
        check_rendered(
            content_type,
            &[
                (
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!-- c --><a n=\"1\">{{ CARD | json: '$.number' }}</a>",
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!-- c --><a n=\"1\">4242424242424242</a>",
                ),
                ("<a>x {{ TEXT }}</a>", "<a>x a&lt;b&gt;&amp;&quot;c&apos; d</a>"),
                (
                    "<a b='{{ TEXT }}' c=\"> {{ config: secret }}\"/>",
                    "<a b='a&lt;b&gt;&amp;&quot;c&apos; d' c=\"> s&quot;3&amp;\"/>",
                ),
                (
                    "<a>{{ CARD | json: &apos;$.number&apos; }}&amp;</a>",
                    "<a>4242424242424242&amp;</a>",
                ),
            ],
        );
    }
    check_rendered(
        "text/xml",
        &[
            (
                "<a>{{ CARD | card_exp: &quot;MM&quot; | append: '&#x3c;&#60;&amp;' }}{{ CARD | card_exp: 'MM' }}</a>",
                "<a>07&lt;&lt;&amp;07</a>",
            ),
            ("<a><![CDATA[ <b> ]]>{{ CARD | card_exp: \"MM\" }}</a>", "<a><![CDATA[ <b> ]]>07</a>"),
        ],
    );
    let vault = FakeVault::with_text("1\r\n\t2");
    let rendered = render_with(&vault, "text/xml", &fill_ids("<a b=\"{{ TEXT }}\">{{ TEXT }}</a>"));
    assert_eq!(rendered.unwrap(), "<a b=\"1&#13;&#10;&#9;2\">1&#13;\n\t2</a>");
}

#[test]
fn expression_outside_of_text_and_attributes_is_rejected() {
    let name = "body: an expression cannot be in a name or other markup of XML (at character ";
    let comment =
        "body: an expression cannot be in a comment or an instruction of XML (at character 1)";
    check_rejected(
        "text/xml",
        &[
            ("<{{ TEXT }}/>", &format!("{name}2)")),
            ("<a {{ TEXT }}=\"1\"/>", &format!("{name}2)")),
            ("<a b=\"1\" {{ TEXT }}/>", &format!("{name}9)")),
            ("<a></{{ TEXT }}>", &format!("{name}5)")),
            ("<!-- {{ TEXT }} --><a/>", comment),
            ("<?x {{ TEXT }}?><a/>", comment),
            (
                "<![CDATA[{{ TEXT }}]]>",
                "body: an expression cannot be in CDATA: its result could not be escaped (at character 1)",
            ),
            (
                "<!DOCTYPE a [<!ENTITY b \"{{ TEXT }}\">]><a/>",
                "body: XML with expressions must not have a document type declaration (at character 1)",
            ),
            (
                "<!DOCTYPE a><a>{{ TEXT }}</a>",
                "body: XML with expressions must not have a document type declaration (at character 1)",
            ),
        ],
    );
}

#[test]
fn malformed_xml_with_expressions_is_rejected() {
    let syntax = |at: usize| format!("body: the body is not well-formed XML (at character {at})");
    check_rejected(
        "text/xml",
        &[
            ("<a>{{ TEXT }}</a", &syntax(47)),
            ("<a b=\"{{ TEXT }}>", &syntax(7)),
            ("<a b=\"<{{ TEXT }}\">", &syntax(7)),
            ("<a <b>{{ TEXT }}", &syntax(5)),
            ("<!-- {{ TEXT }}", &syntax(1)),
            ("<a>{{ TEXT", "body: this {{ is never closed (at character 6)"),
            ("<a>{{ TE<b/>XT }}</a>", "body: this {{ is never closed (at character 6)"),
            (
                "<a b=\"{{ TEXT | append: \"x\" }}\"/>",
                "body: this {{ is never closed (at character 9)",
            ),
            ("<a>{{ TEXT | append: '&none;' }}</a>", "body: unknown entity (at character 55)"),
            (
                "<?xml version='1.0' encoding='ISO-8859-1'?><a>{{ TEXT }}</a>",
                "body: XML with expressions must be UTF-8; change the encoding of its declaration",
            ),
        ],
    );
    let vault = FakeVault::with_text("\u{1}");
    let error = render_with(&vault, "text/xml", &fill_ids("<a>{{ TEXT }}</a>")).unwrap_err();
    assert_eq!(describe(&error), "body: the value contains a character that XML does not allow");
}

#[test]
fn xml_without_expressions_is_untouched() {
    for body in [
        "",
        "<a>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><a>{ {</a>",
        "&none;",
        "<?xml encoding='latin1'?>",
    ] {
        check_untouched("text/xml", body);
    }
}

fn decode_xml(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&#13;", "\r")
        .replace("&#10;", "\n")
        .replace("&#9;", "\t")
        .replace("&amp;", "&")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_of_a_token_is_read_back_from_xml(text in "[\\PC\\n\\r\\t]{0,30}|[<>&\"'a;#]{0,20}") {
        let vault = FakeVault::with_text(&text);
        let body = fill_ids("<a b=\"{{ TEXT }}\">{{ TEXT }}</a>");
        let rendered = render_with(&vault, "text/xml", &body).unwrap();
        let rendered = std::str::from_utf8(&rendered).unwrap();
        let (attribute, rest) = rendered.strip_prefix("<a b=\"").unwrap().split_once('"').unwrap();
        let (content, _) = rest.strip_prefix('>').unwrap().split_once('<').unwrap();
        prop_assert_eq!(decode_xml(attribute), &*text);
        prop_assert_eq!(decode_xml(content), &*text);
        prop_assert!(!attribute.contains(['\n', '\t', '\r']) && !content.contains('\r'));
    }
}
