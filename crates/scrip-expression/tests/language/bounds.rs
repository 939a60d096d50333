//! Every bound, just within and just past.

use scrip_expression::{Scope, Template};
use serde_json::{Value, json};

use crate::{check, evaluate, fails, refuse};

const LARGE: &str = "the output is too large";
const MUCH: &str = "this is too much to evaluate";

fn template(template: &Value, data: &Value) -> Result<(), &'static str> {
    let template = Template::parse(template).map_err(|error| error.problem)?;
    template.evaluate(&Scope::new(data, None)).map(drop).map_err(|error| error.problem)
}

#[test]
fn sources() {
    check(&"x".repeat(4096), json!(1), json!("x".repeat(4096)));
    refuse(&"x".repeat(4097), "the expression is too long (at character 1)");
}

#[test]
fn nesting() {
    let blocks = |depth| "{% if data %}".repeat(depth) + "x" + &"{% endif %}".repeat(depth);
    check(&blocks(15), json!(1), json!("x"));
    fails(&blocks(16), json!(1), "this is nested too deep");
    fails(&"{% if data %}".repeat(300), json!(1), "this is nested too deep");
    let index = |depth| format!("{{{{ data{}0{} }}}}", "[data".repeat(depth), "]".repeat(depth));
    assert!(evaluate(&index(16).replace("data0", "data"), &json!({})).is_ok());
    fails(&index(17).replace("data0", "data"), json!(1), "this is nested too deep");
    fails(&format!("{{{{ {} }}}}", "(".repeat(4000)), json!(1), "this is nested too deep");
    fails(&format!("{{{{ data{} }}}}", "[data".repeat(800)), json!(1), "this is nested too deep");
    let json = |depth| (0..depth).fold(json!("{{ data }}"), |inner, _| json!([inner]));
    assert_eq!(template(&json(64), &json!(1)), Ok(()));
    assert_eq!(template(&json(65), &json!(1)), Err("the JSON is nested too deep"));
}

#[test]
fn steps() {
    check("{% for i in (1..2400) %}{{ i }}{% endfor %}{{ data.none }}", json!(1), {
        json!((1..=2400).map(|it| it.to_string()).collect::<String>())
    });
    fails("{% for i in (1..6000) %}{{ i }}{% endfor %}", json!(1), MUCH);
    fails("{% for i in (1..9223372036854775807) %}{% endfor %}", json!(1), MUCH);
    fails("{{ (-9223372036854775808..9223372036854775807) }}", json!(1), MUCH);
    let nested = "{% for a in data %}{% for b in data %}{% for c in data %}{% endfor %}{% endfor %}{% endfor %}";
    fails(nested, json!(vec![0; 30]), MUCH);
    let many = json!(vec!["{{ data.a }}"; 5_000]);
    assert_eq!(template(&many, &json!({})), Ok(()));
    let many = json!(vec!["{{ data.a }}"; 5_001]);
    assert_eq!(template(&many, &json!({})), Err(MUCH));
}

#[test]
fn text() {
    check(
        "{% for i in (1..64) %}{{ data }}{% endfor %}",
        json!("x".repeat(1024)),
        json!("x".repeat(65536)),
    );
    fails("{% for i in (1..64) %}{{ data }}{% endfor %}y", json!("x".repeat(1024)), LARGE);
    fails(
        "{% capture x %}{% for i in (1..65) %}{{ data }}{% endfor %}{% endcapture %}",
        json!("x".repeat(1024)),
        LARGE,
    );
    fails("x{{ data }}", json!("x".repeat(65536)), LARGE);
}

#[test]
fn work() {
    let large = json!("x".repeat(500_000));
    assert_eq!(template(&json!("{{ data }}"), &large), Ok(()));
    assert_eq!(template(&json!("{{ data | upcase | remove: '-' | last4 }}"), &large), Ok(()));
    assert_eq!(template(&json!(vec!["{{ data }}"; 16]), &large), Ok(()));
    assert_eq!(template(&json!(vec!["{{ data }}"; 17]), &large), Err(LARGE));
    let chain = format!("{{{{ data {} }}}}", "| upcase ".repeat(20));
    assert_eq!(template(&json!(chain), &large), Err(LARGE));
    // The largest body of the smallest values.
    let dense = json!(vec![0; 520_000]);
    assert_eq!(template(&json!("{{ data | stringify }}"), &dense), Ok(()));
    assert_eq!(template(&json!("{{ data }}"), &dense), Ok(()));
}

#[test]
fn what_multiplies_pays_first() {
    let large = || json!("x".repeat(500_000));
    let long = "y".repeat(3000);
    fails(&format!("{{{{ data | replace: 'x', '{long}' }}}}"), large(), LARGE);
    fails(&format!("{{{{ data | replace: '', '{long}' }}}}"), large(), LARGE);
    fails("{{ data | split: '' }}", large(), LARGE);
    fails(&format!("{{{{ data | join: '{long}' }}}}"), json!(vec![0; 100_000]), LARGE);
    fails("{{ data | pad_left: 18446744073709551615, 'x' }}", json!("x"), LARGE);
    fails("{{ data | json: '$..*[*][*]' }}", json!(vec![vec![0; 500]; 1000]), LARGE);
    let doubled = "{% assign x = 'xxxxxxxx' %}{% for i in (1..99) %}{% assign x = x | append: x %}{% endfor %}";
    fails(doubled, json!(1), LARGE);
    let doubled =
        "{% assign x = data %}{% for i in (1..99) %}{% assign x = x | concat: x %}{% endfor %}";
    fails(doubled, json!([1]), LARGE);
}

#[test]
fn values() {
    let text = || json!("x".repeat(300_000));
    check("{{ data | replace: 'x', 'yyy' | size }}", text(), json!(900_000));
    fails("{{ data | replace: 'x', 'yyyy' | size }}", text(), LARGE);
    // What came in large may go out large.
    check("{{ data | upcase | size }}", json!("x".repeat(1_500_000)), json!(1_500_000));
}

/// The result is paid for when it is there; these pay as much before, so they end sooner.
#[test]
fn what_multiplies_pays_twice() {
    for (filter, length, times) in [("replace: 'x', 'yy'", 100_000, 20), ("split: ''", 1000, 400)] {
        let source = format!(
            "{{% for i in (1..{times}) %}}{{% assign y = data | {filter} %}}{{% endfor %}}"
        );
        fails(&source, json!("x".repeat(length)), LARGE);
    }
}

#[test]
fn what_reads_in_a_loop_pays() {
    let text =
        || json!({"t": "x".repeat(500_000), "u": "x".repeat(500_000), "l": vec![0; 100_000]});
    for read in [
        "{% if data.t contains 'y' %}{% endif %}",
        "{% if data.t == data.u %}{% endif %}",
        "{% if data.t < data.u %}{% endif %}",
        "{% if data.l contains 1 %}{% endif %}",
        "{% if data.l == data.l %}{% endif %}",
        "{% if data.t == blank %}{% endif %}",
        "{% case data.t %}{% when data.u %}{% endcase %}",
        "{{ data.t.size }}",
        "{{ data.l | where: 'x', 1 | size }}",
        "{{ data.l | uniq | size }}",
        "{% for x in data %}{% endfor %}",
    ] {
        fails(&format!("{{% for i in (1..900) %}}{read}{{% endfor %}}"), text(), LARGE);
    }
    fails("{{ data | sort }}", json!(vec![0; 170_000]), MUCH);
}

/// Numbers that are short to write and long to write out, or to read again and again.
#[test]
fn numbers() {
    check("{{ '0e-2147483647' | abs }}", json!(1), json!(0.0));
    for text in ["1e-70000", "1e-41", "1e70000", "5e-2147483648"] {
        fails(&format!("{{{{ '{text}' | abs }}}}"), json!(1), "this is not a number");
    }
    let shrink = "{% assign x = '1e-30' | to_number %}{{ x | times: x | times: x }}";
    fails(shrink, json!(1), "this number is too large to calculate with");

    let long: Value = serde_json::from_str(&"7".repeat(100_000)).unwrap();
    let data = json!({"l": vec![1; 1000], "n": long, "o": vec![json!({"a": 1}); 1000]});
    fails("{% if data.l contains data.n %}x{% endif %}", data.clone(), LARGE);
    fails("{{ data.o | where: 'a', data.n | size }}", data.clone(), LARGE);
    fails("{% for i in (1..900) %}{% if data.n == data.n %}{% endif %}{% endfor %}", data, LARGE);
    let zeros = json!({"l": [1], "n": "0".repeat(100_000)});
    let bounded = "{% for i in data.l limit: data.n %}{% endfor %}";
    fails(bounded, zeros.clone(), "a loop is bounded by a whole number");
    fails("{{ (data.n..3) }}", zeros, "a range goes from a whole number to a whole number");
}
