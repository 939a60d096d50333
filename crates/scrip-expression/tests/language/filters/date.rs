//! The `date` filter: every code and flag, every date format, and invalid values.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{assert_error, assert_evaluates, assert_fails, evaluate};

const NOT_A_DATE: &str = "this is not a date";
const UNKNOWN_CODE: &str = "unknown code in the date format";
const NO_FORMAT: &str = "date takes a format";

#[track_caller]
fn assert_date_format(format: &str, date: Value, expected: &str) {
    assert_evaluates(&format!("{{{{ data | date: '{format}' }}}}"), date, json!(expected));
}

#[test]
fn date_formats_every_code() {
    // A Monday afternoon, and the first hour of a Sunday.
    for (code, afternoon, night) in [
        ("%a", "Mon", "Sun"),
        ("%A", "Monday", "Sunday"),
        ("%b", "Mar", "Jan"),
        ("%B", "March", "January"),
        ("%c", "Mon Mar  4 13:05:09 2024", "Sun Jan  1 00:00:00 2023"),
        ("%C", "20", "20"),
        ("%d", "04", "01"),
        ("%D", "03/04/24", "01/01/23"),
        ("%e", " 4", " 1"),
        ("%F", "2024-03-04", "2023-01-01"),
        ("%g", "24", "22"),
        ("%G", "2024", "2022"),
        ("%h", "Mar", "Jan"),
        ("%H", "13", "00"),
        ("%I", "01", "12"),
        ("%j", "064", "001"),
        ("%k", "13", " 0"),
        ("%l", " 1", "12"),
        ("%L", "045", "000"),
        ("%m", "03", "01"),
        ("%M", "05", "00"),
        ("%n", "\n", "\n"),
        ("%N", "045678900", "000000000"),
        ("%p", "PM", "AM"),
        ("%P", "pm", "am"),
        ("%r", "01:05:09 PM", "12:00:00 AM"),
        ("%R", "13:05", "00:00"),
        ("%s", "1709557509", "1672531200"),
        ("%S", "09", "00"),
        ("%t", "\t", "\t"),
        ("%T", "13:05:09", "00:00:00"),
        ("%u", "1", "7"),
        ("%U", "09", "01"),
        ("%V", "10", "52"),
        ("%w", "1", "0"),
        ("%W", "10", "00"),
        ("%x", "03/04/24", "01/01/23"),
        ("%X", "13:05:09", "00:00:00"),
        ("%y", "24", "23"),
        ("%Y", "2024", "2023"),
        ("%z", "+0000", "+0000"),
        ("%Z", "UTC", "UTC"),
        ("%%", "%", "%"),
    ] {
        assert_date_format(code, json!("2024-03-04T13:05:09.0456789Z"), afternoon);
        assert_date_format(code, json!("2023-01-01"), night);
    }
    assert_date_format(
        "%T %z %Z %s",
        json!("2024-03-04T13:05:09-02:00"),
        "13:05:09 -0200 -0200 1709564709",
    );
}

#[test]
fn date_formats_every_flag() {
    for (format, expected) in [
        ("%-d %-e %-m %-j", "4 4 3 63"),
        ("%-H %-k %-I %-l %-M %-S", "7 7 7 7 5 9"),
        ("%-y %-C %-Y", "5 20 2005"),
        ("%-U %-W %-V", "9 9 9"),
        ("%0e %0k %0l", "04 07 07"),
        ("%_d %_m %_H %_I %_M %_S %_j", " 4  3  7  7  5  9  63"),
        ("%_y", " 5"),
        ("%^a %^A %^b %^B %^h", "FRI FRIDAY MAR MARCH MAR"),
        ("%^P %^p", "AM AM"),
        ("%^c", "FRI MAR  4 07:05:09 2005"),
        ("%:z", "+05:30"),
        ("%1N %3N %6N %9N", "0 012 012340 012340000"),
        // Flags without an effect.
        ("%-a %^d %0B %-F %_z %-L", "Fri 04 March 2005-03-04 +0530 012"),
        // The last of two flags wins.
        ("%-0d %0-d %_-^b", "04 4 MAR"),
    ] {
        assert_date_format(format, json!("2005-03-04T07:05:09.01234+05:30"), expected);
    }
    assert_date_format("%Y %-Y %_Y", json!("0005-01-01"), "0005 5    5");
}

#[test]
fn date_keeps_text_between_codes() {
    assert_date_format("on %d. é%%%m%%", json!("2024-02-29"), "on 29. é%02%");
    assert_date_format("no code", json!("2024-02-29"), "no code");
    assert_date_format("%%Y", json!("2024-02-29"), "%Y");
}

#[test]
fn date_accepts_iso_and_us_forms() {
    let second = "2024-02-29T13:05:09+00:00";
    for (given, expected) in [
        ("2024-02-29T13:05:09Z", second),
        ("2024-02-29t13:05:09z", second),
        ("2024-02-29T13:05:09", second),
        ("2024-02-29T13:05:09.5", second),
        ("2024-02-29T13:05:09.999999999Z", second),
        ("2024-02-29T13:05:09-00:00", second),
        ("2024-02-29T13:05:09+02:00", "2024-02-29T13:05:09+02:00"),
        ("2024-02-29T13:05:09-03:30", "2024-02-29T13:05:09-03:30"),
        ("2024-02-29T13:05:09+23:59", "2024-02-29T13:05:09+23:59"),
        ("2024-02-29 13:05:09", second),
        ("2024-02-29 13:05:09 +0200", "2024-02-29T13:05:09+02:00"),
        ("2024-02-29 13:05:09 -0030", "2024-02-29T13:05:09-00:30"),
        ("2024-02-29 13:05", "2024-02-29T13:05:00+00:00"),
        ("2024-02-29 13:05 +0100", "2024-02-29T13:05:00+01:00"),
        ("2024-02-29", "2024-02-29T00:00:00+00:00"),
        ("2/29/2024", "2024-02-29T00:00:00+00:00"),
        ("02/09/2024", "2024-02-09T00:00:00+00:00"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),
        ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59-12:00"),
    ] {
        assert_date_format("%Y-%m-%dT%H:%M:%S%:z", json!(given), expected);
    }
}

#[test]
fn date_accepts_unix_seconds_of_years_1_to_9999() {
    for (given, expected) in [
        (0_i64, "1970-01-01 00:00:00"),
        (-1, "1969-12-31 23:59:59"),
        (1_152_098_955, "2006-07-05 11:29:15"),
        (-62_135_596_800, "0001-01-01 00:00:00"),
        (253_402_300_799, "9999-12-31 23:59:59"),
    ] {
        assert_date_format("%F %T", json!(given), expected);
        assert_date_format("%s %z", json!(given), &format!("{given} +0000"));
    }
    assert_date_format("%s", json!("9999-12-31T23:59:59-12:00"), "253402343999");
    assert_date_format("%s", json!("0001-01-01T00:00:00+14:00"), "-62135647200");
    // Seconds before 1970 also count from their beginning.
    assert_date_format("%s %L", json!("1969-12-31T23:59:59.5Z"), "-1 500");
    let huge: Value = serde_json::from_str("1e3").unwrap();
    for given in [
        json!(-62_135_596_801_i64),
        json!(253_402_300_800_i64),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1.5),
        huge,
    ] {
        assert_fails("{{ data | date: '%F' }}", given, NOT_A_DATE);
    }
}

#[test]
fn invalid_dates_are_rejected() {
    for given in [
        "",
        " ",
        "soon",
        "20291231",
        "1152098955",
        "2023-02-29",
        "1900-02-29",
        "2/29/2023",
        "2024-13-01",
        "2024-00-01",
        "2024-01-00",
        "2024-04-31",
        "0000-01-01",
        "-001-01-01",
        "-2024-01-01",
        "+2024-01-01",
        "12024-01-01",
        "24-01-01",
        "2024-1-1",
        "2024-01",
        "2024",
        "2024-01-01T",
        "2024-01-01 ",
        " 2024-01-01",
        "2024-01-01Z",
        "2024-01-01T1:00:00",
        "2024-01-01T24:00:00Z",
        "2024-01-01T23:60:00Z",
        "2016-12-31T23:59:60Z",
        "2024-01-01T10",
        "2024-01-01T10:00:",
        "2024-01-01T10:00:00.",
        "2024-01-01T10:00:00.1234567890",
        "2024-01-01T10:00:00,5",
        "2024-01-01T10:00:00+24:00",
        "2024-01-01T10:00:00+01:60",
        "2024-01-01T10:00:00+1:00",
        "2024-01-01T10:00:00+01",
        "2024-01-01T10:00:00  +0100",
        "2024-01-01T10:00:00 UTC",
        "2024-01-01T10:00:00Z[UTC]",
        "2024-01-01T10:00:00Zx",
        "1/1/24",
        "1/1/02024",
        "13/1/2024",
        "1/2024",
        "1/1/2024 10:00",
        "001/1/2024",
        "٢٠٢٤-01-01",
        "2024–01–01",
    ] {
        assert_fails("{{ data | date: '%F' }}", json!(given), NOT_A_DATE);
    }
    for given in [json!(true), json!([]), json!(["2024-01-01"]), json!({"year": 2024})] {
        assert_fails("{{ data | date: '%F' }}", given, NOT_A_DATE);
    }
    assert_fails("{{ data | hmac: 'sha-256', 'k' | date: '%F' }}", json!("2024-01-01"), NOT_A_DATE);
}

#[test]
fn date_rejects_now_and_today() {
    for given in ["now", "today", "NOW", "Today"] {
        let problem = "date does not support now and today";
        assert_fails("{{ data | date: '%F' }}", json!(given), problem);
    }
}

#[test]
fn date_of_null_is_null() {
    assert_evaluates("{{ data.none | date: '%F' }}", json!({}), Value::Null);
    assert_evaluates("{{ data | date: '%F' }}", Value::Null, Value::Null);
    assert_evaluates("a{{ data | date: '%F' }}b", Value::Null, json!("ab"));
}

#[test]
fn literal_date_format_is_checked_when_parsing() {
    for format in ["%q", "%", "a%", "%-", "%^", "%:", "%:d", "%::z", "%3d", "%10N", "%33N", "%é"] {
        let expected = format!("{UNKNOWN_CODE} (at character 11)");
        assert_error(&format!("{{{{ data | date: '{format}' }}}}"), &expected);
        // Whether or not the branch is taken.
        let expected = format!("{UNKNOWN_CODE} (at character 25)");
        assert_error(
            &format!("{{% if false %}}{{{{ data | date: '{format}' }}}}{{% endif %}}"),
            &expected,
        );
        // A format from the data is checked during evaluation, also if the date is null.
        let data = json!({"format": format, "at": "2024-02-29"});
        assert_fails("{{ data.at | date: data.format }}", data.clone(), UNKNOWN_CODE);
        assert_fails("{{ data.none | date: data.format }}", data, UNKNOWN_CODE);
    }
    for argument in ["''", "nil", "12", "true"] {
        let expected = format!("{NO_FORMAT} (at character 11)");
        assert_error(&format!("{{{{ data | date: {argument} }}}}"), &expected);
    }
    for format in [Value::Null, json!(""), json!(12), json!(["%F"])] {
        let data = json!({"format": format, "at": "2024-02-29"});
        assert_fails("{{ data.at | date: data.format }}", data, NO_FORMAT);
    }
    assert_fails("{{ data | date: empty }}", json!("2024-02-29"), NO_FORMAT);
    let count = "wrong number of arguments for this filter (at character 11)";
    assert_error("{{ data | date }}", count);
    assert_evaluates("{{ data | date: format: '%F' }}", json!("2/29/2024"), json!("2024-02-29"));
    assert_evaluates("{{ data, date: '%F' }}", json!("2/29/2024"), json!("2024-02-29"));
    assert_evaluates("{{ data | date: '%F' | date: '%j' }}", json!("2/29/2024"), json!("060"));
}

#[test]
fn date_formats_are_bounded_in_length_and_steps() {
    let long = "%c".repeat(128);
    assert_date_format(&long, json!(0), &"Thu Jan  1 00:00:00 1970".repeat(128));
    let longer = format!("{long} ");
    let expected = "the format is too long (at character 11)";
    assert_error(&format!("{{{{ data | date: '{longer}' }}}}"), expected);
    let data = json!({"format": longer, "at": "2024-02-29"});
    assert_fails("{{ data.at | date: data.format }}", data, "the format is too long");
    // Every code costs a step.
    let dates = |times| {
        format!(
            "{{% for i in (1..{times}) %}}{{% assign x = data | date: '{long}' %}}{{% endfor %}}"
        )
    };
    assert_evaluates(&dates(75), json!(0), json!(""));
    assert_fails(&dates(78), json!(0), "the expression exceeds the evaluation limit");
    assert_fails(&dates(78), Value::Null, "the expression exceeds the evaluation limit");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Formats and parses again, with any offset.
    #[test]
    fn date_round_trips_unix_seconds(
        seconds in -62_135_596_800_i64..=253_402_300_799,
        minutes in -1439_i64..=1439,
    ) {
        let text = evaluate("{{ data | date: '%FT%T%:z' }}", &json!(seconds)).unwrap();
        let back = evaluate("{{ data | date: '%s' }}", &text).unwrap();
        prop_assert_eq!(back, json!(seconds.to_string()));
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
        let local = text.as_str().unwrap().trim_end_matches("+00:00");
        let moved = json!(format!("{local}{sign}{hours:02}:{rest:02}"));
        let same = evaluate("{{ data | date: '%FT%T%:z' }}", &moved);
        prop_assert_eq!(same, Ok(moved.clone()));
        let back = evaluate("{{ data | date: '%s' }}", &moved).unwrap();
        prop_assert_eq!(back, json!((seconds - minutes * 60).to_string()));
    }

    #[test]
    fn date_filter_never_panics(at in "[0-9/:TZ+. -]{0,30}", format in "(%[-0_^:]?[a-zA-Z0-9%]|.){0,8}") {
        let data = json!({"at": at, "format": format});
        drop(evaluate("{{ data.at | date: data.format }}", &data));
        drop(evaluate("{{ 0 | date: data.format }}", &data));
    }
}
