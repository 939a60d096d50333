//! Every limit, just reached and just exceeded.

use scrip_expression::{Scope, Template};
use serde_json::{Value, json};

use crate::{assert_error, assert_evaluates, assert_fails, evaluate};

const OUTPUT_TOO_LARGE: &str = "the output is too large";
const TOO_MUCH_TO_EVALUATE: &str = "the expression exceeds the evaluation limit";

fn evaluate_template(template: &Value, data: &Value) -> Result<(), &'static str> {
    let template = Template::parse(template).map_err(|error| error.problem)?;
    template.evaluate(&Scope::new(data, None)).map(drop).map_err(|error| error.problem)
}

#[test]
fn sources_over_4096_bytes_are_rejected() {
    assert_evaluates(&"x".repeat(4096), json!(1), json!("x".repeat(4096)));
    assert_error(&"x".repeat(4097), "the expression is too long (at character 1)");
}

#[test]
fn nesting_over_the_limit_is_rejected() {
    let blocks = |depth| "{% if data %}".repeat(depth) + "x" + &"{% endif %}".repeat(depth);
    assert_evaluates(&blocks(15), json!(1), json!("x"));
    assert_fails(&blocks(16), json!(1), "this is nested too deep");
    assert_fails(&"{% if data %}".repeat(300), json!(1), "this is nested too deep");
    let index = |depth| format!("{{{{ data{}0{} }}}}", "[data".repeat(depth), "]".repeat(depth));
    assert!(evaluate(&index(16).replace("data0", "data"), &json!({})).is_ok());
    assert_fails(&index(17).replace("data0", "data"), json!(1), "this is nested too deep");
    assert_fails(&format!("{{{{ {} }}}}", "(".repeat(4000)), json!(1), "this is nested too deep");
    assert_fails(
        &format!("{{{{ data{} }}}}", "[data".repeat(800)),
        json!(1),
        "this is nested too deep",
    );
    let json = |depth| (0..depth).fold(json!("{{ data }}"), |inner, _| json!([inner]));
    assert_eq!(evaluate_template(&json(64), &json!(1)), Ok(()));
    assert_eq!(evaluate_template(&json(65), &json!(1)), Err("the JSON is nested too deep"));
}

#[test]
fn evaluation_over_the_step_budget_fails() {
    assert_evaluates("{% for i in (1..2400) %}{{ i }}{% endfor %}{{ data.none }}", json!(1), {
        json!((1..=2400).map(|it| it.to_string()).collect::<String>())
    });
    assert_fails("{% for i in (1..6000) %}{{ i }}{% endfor %}", json!(1), TOO_MUCH_TO_EVALUATE);
    assert_fails(
        "{% for i in (1..9223372036854775807) %}{% endfor %}",
        json!(1),
        TOO_MUCH_TO_EVALUATE,
    );
    assert_fails(
        "{{ (-9223372036854775808..9223372036854775807) }}",
        json!(1),
        TOO_MUCH_TO_EVALUATE,
    );
    let nested = "{% for a in data %}{% for b in data %}{% for c in data %}{% endfor %}{% endfor %}{% endfor %}";
    assert_fails(nested, json!(vec![0; 30]), TOO_MUCH_TO_EVALUATE);
    let many = json!(vec!["{{ data.a }}"; 5_000]);
    assert_eq!(evaluate_template(&many, &json!({})), Ok(()));
    let many = json!(vec!["{{ data.a }}"; 5_001]);
    assert_eq!(evaluate_template(&many, &json!({})), Err(TOO_MUCH_TO_EVALUATE));
}

#[test]
fn text_output_over_64_kib_fails() {
    assert_evaluates(
        "{% for i in (1..64) %}{{ data }}{% endfor %}",
        json!("x".repeat(1024)),
        json!("x".repeat(65536)),
    );
    assert_fails(
        "{% for i in (1..64) %}{{ data }}{% endfor %}y",
        json!("x".repeat(1024)),
        OUTPUT_TOO_LARGE,
    );
    assert_fails(
        "{% capture x %}{% for i in (1..65) %}{{ data }}{% endfor %}{% endcapture %}",
        json!("x".repeat(1024)),
        OUTPUT_TOO_LARGE,
    );
    assert_fails("x{{ data }}", json!("x".repeat(65536)), OUTPUT_TOO_LARGE);
}

#[test]
fn evaluation_over_the_work_budget_fails() {
    let large = json!("x".repeat(500_000));
    assert_eq!(evaluate_template(&json!("{{ data }}"), &large), Ok(()));
    assert_eq!(
        evaluate_template(&json!("{{ data | upcase | remove: '-' | last4 }}"), &large),
        Ok(())
    );
    assert_eq!(evaluate_template(&json!(vec!["{{ data }}"; 16]), &large), Ok(()));
    assert_eq!(evaluate_template(&json!(vec!["{{ data }}"; 17]), &large), Err(OUTPUT_TOO_LARGE));
    let chain = format!("{{{{ data {} }}}}", "| upcase ".repeat(20));
    assert_eq!(evaluate_template(&json!(chain), &large), Err(OUTPUT_TOO_LARGE));
    // The largest body with the smallest values.
    let dense = json!(vec![0; 520_000]);
    assert_eq!(evaluate_template(&json!("{{ data | stringify }}"), &dense), Ok(()));
    assert_eq!(evaluate_template(&json!("{{ data }}"), &dense), Ok(()));
}

#[test]
fn amplifying_filters_charge_budget_before_allocating() {
    let large = || json!("x".repeat(500_000));
    let long = "y".repeat(3000);
    assert_fails(&format!("{{{{ data | replace: 'x', '{long}' }}}}"), large(), OUTPUT_TOO_LARGE);
    assert_fails(&format!("{{{{ data | replace: '', '{long}' }}}}"), large(), OUTPUT_TOO_LARGE);
    assert_fails("{{ data | split: '' }}", large(), OUTPUT_TOO_LARGE);
    assert_fails(
        &format!("{{{{ data | join: '{long}' }}}}"),
        json!(vec![0; 100_000]),
        OUTPUT_TOO_LARGE,
    );
    assert_fails("{{ data | pad_left: 18446744073709551615, 'x' }}", json!("x"), OUTPUT_TOO_LARGE);
    assert_fails(
        "{{ data | json: '$..*[*][*]' }}",
        json!(vec![vec![0; 500]; 1000]),
        OUTPUT_TOO_LARGE,
    );
    let doubled = "{% assign x = 'xxxxxxxx' %}{% for i in (1..99) %}{% assign x = x | append: x %}{% endfor %}";
    assert_fails(doubled, json!(1), OUTPUT_TOO_LARGE);
    let doubled =
        "{% assign x = data %}{% for i in (1..99) %}{% assign x = x | concat: x %}{% endfor %}";
    assert_fails(doubled, json!([1]), OUTPUT_TOO_LARGE);
}

#[test]
fn filter_result_over_one_mebibyte_fails_unless_its_input_was_larger() {
    let text = || json!("x".repeat(300_000));
    assert_evaluates("{{ data | replace: 'x', 'yyy' | size }}", text(), json!(900_000));
    assert_fails("{{ data | replace: 'x', 'yyyy' | size }}", text(), OUTPUT_TOO_LARGE);
    // A large input may give a large output.
    assert_evaluates("{{ data | upcase | size }}", json!("x".repeat(1_500_000)), json!(1_500_000));
}

/// Results are charged when they exist. These filters also charge the same amount before, so the
/// budget ends sooner.
#[test]
fn amplifying_filters_are_charged_again_for_their_result() {
    for (filter, length, times) in [("replace: 'x', 'yy'", 100_000, 20), ("split: ''", 1000, 400)] {
        let source = format!(
            "{{% for i in (1..{times}) %}}{{% assign y = data | {filter} %}}{{% endfor %}}"
        );
        assert_fails(&source, json!("x".repeat(length)), OUTPUT_TOO_LARGE);
    }
}

#[test]
fn reading_large_values_in_a_loop_exhausts_the_budget() {
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
        assert_fails(
            &format!("{{% for i in (1..900) %}}{read}{{% endfor %}}"),
            text(),
            OUTPUT_TOO_LARGE,
        );
    }
    assert_fails("{{ data | sort }}", json!(vec![0; 170_000]), TOO_MUCH_TO_EVALUATE);
}

/// Numbers that are short in exponent notation but long in full, and numbers that are expensive to
/// parse repeatedly.
#[test]
fn numbers_with_huge_exponents_or_lengths_are_bounded() {
    assert_evaluates("{{ '0e-2147483647' | abs }}", json!(1), json!(0.0));
    for text in ["1e-70000", "1e-41", "1e70000", "5e-2147483648"] {
        assert_fails(&format!("{{{{ '{text}' | abs }}}}"), json!(1), "this is not a number");
    }
    let shrink = "{% assign x = '1e-30' | to_number %}{{ x | times: x | times: x }}";
    assert_fails(shrink, json!(1), "this number is too large to calculate with");

    let long: Value = serde_json::from_str(&"7".repeat(100_000)).unwrap();
    let data = json!({"l": vec![1; 1000], "n": long, "o": vec![json!({"a": 1}); 1000]});
    assert_fails("{% if data.l contains data.n %}x{% endif %}", data.clone(), OUTPUT_TOO_LARGE);
    assert_fails("{{ data.o | where: 'a', data.n | size }}", data.clone(), OUTPUT_TOO_LARGE);
    assert_fails(
        "{% for i in (1..900) %}{% if data.n == data.n %}{% endif %}{% endfor %}",
        data,
        OUTPUT_TOO_LARGE,
    );
    let zeros = json!({"l": [1], "n": "0".repeat(100_000)});
    let bounded = "{% for i in data.l limit: data.n %}{% endfor %}";
    assert_fails(bounded, zeros.clone(), "a loop limit must be a whole number");
    assert_fails("{{ (data.n..3) }}", zeros, "the ends of a range must be whole numbers");
}
