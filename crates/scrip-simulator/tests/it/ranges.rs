//! Which cards a directory server says it knows, read by the reader of a 3DS server.

use scrip_threeds::{
    format::{CardNumber, Version},
    message::{Document, Message, PRes, Scene},
    range::{CardRanges, negotiate},
};
use serde_json::{Value, json};

use crate::{
    cards::CARDS,
    stage::{JSON, Stage, new_id, with},
};

fn preq(serial: Option<&str>) -> Value {
    let bare = json!({
        "messageType": "PReq", "messageVersion": "2.2.0", "threeDSServerTransID": new_id(),
        "threeDSServerRefNumber": "ref",
    });
    serial.map_or(bare.clone(), |it| with(bare, &json!({ "serialNum": it })))
}

fn ask(stage: &Stage, scheme: &str, serial: Option<&str>) -> PRes {
    let answer =
        stage.post(&format!("/sim/ds/{scheme}"), JSON, preq(serial).to_string().as_bytes());
    PRes::parse(answer.text.as_bytes(), &Scene::of(Version::V220)).unwrap()
}

const SCHEMES: [&str; 7] =
    ["visa", "mastercard", "american-express", "discover", "jcb", "cartes-bancaires", "unionpay"];

#[test]
fn each_card_is_found_as_its_part_wants() {
    let stage = Stage::set();
    for scheme in SCHEMES {
        let ranges = CardRanges::of(&ask(&stage, scheme, None)).unwrap();
        for (_, number, code) in CARDS.iter().filter(|(of, ..)| *of == scheme) {
            let range = ranges.find(&CardNumber::parse(number).unwrap());
            if *code == "NO" {
                assert!(range.is_none(), "{scheme} {number}");
                continue;
            }
            let range = range.unwrap_or_else(|| panic!("{scheme} {number}"));
            let common = negotiate(Version::ALL, range.ds, range.acs);
            assert_eq!(common.is_none(), *code == "SE", "{scheme} {number}");
            assert_eq!(range.method_url.is_some(), !matches!(*code, "CM" | "SE"), "{number}");
            let url = format!("{}/sim/acs/{scheme}/method", stage.simulator.base_url());
            assert!(range.method_url.as_ref().is_none_or(|it| it.expose() == url));
        }
    }
}

#[test]
fn every_card_that_has_a_part_has_a_range_of_its_own() {
    let stage = Stage::set();
    for scheme in SCHEMES {
        let told = ask(&stage, scheme, None).ranges.unwrap();
        for card in scrip_simulator::card::CARDS {
            let ours = card.schemes.iter().any(|it| it.slug() == scheme);
            let own = told.items().iter().filter(|it| it.start.expose() == card.number);
            let own = own.filter(|it| it.end.expose() == card.number).count();
            let known = card.number != "4100000000000003";
            assert_eq!(own, usize::from(ours && known), "{scheme} {}", card.number);
        }
    }
}

#[test]
fn only_changes_are_told_to_who_knows_the_rest() {
    let stage = Stage::set();
    let all = ask(&stage, "visa", None);
    let first = CardRanges::of(&all).unwrap();
    let same = ask(&stage, "visa", Some("1"));
    assert!(same.ranges.is_none() && same.serial_number.unwrap().expose() == "1");

    assert_eq!(stage.turn("/sim/knobs", &json!({ "ranges": "second" })).0, 200);
    let changes = ask(&stage, "visa", Some("1"));
    let told = changes.ranges.as_ref().unwrap().items();
    let actions: Vec<_> = told.iter().map(|it| it.action.unwrap().code()).collect();
    assert_eq!(actions, ["D", "A", "M"]);
    let second = first.changed(&changes).unwrap();
    assert_eq!(second.serial_number().unwrap().expose(), "2");
    let found = |number| second.find(&CardNumber::parse(number).unwrap());
    assert!(found("4100000000000003").is_some() && found("4111111111111111").is_none());
    assert!(found("4242424242424242").unwrap().method_url.is_none());
    let whole = CardRanges::of(&ask(&stage, "visa", None)).unwrap();
    assert_eq!(whole.len(), second.len());

    // What has a range can be authenticated, and what has none cannot.
    let added = stage.ask("visa", &stage.areq("4100000000000003"));
    assert_eq!(added["transStatus"], "Y");
    let gone = stage.ask("visa", &stage.areq("4111111111111111"));
    assert_eq!(gone["errorCode"], "305");

    stage.reset("/sim/knobs");
    let back = second.changed(&ask(&stage, "visa", Some("2"))).unwrap();
    assert_eq!((back.len(), back.serial_number()), (first.len(), first.serial_number()));
}

#[test]
fn a_serial_number_that_never_was() {
    let stage = Stage::set();
    for serial in ["0", "3", "x"] {
        let answer = stage.ask("visa", &preq(Some(serial)));
        assert_eq!((&answer["errorCode"], &answer["errorComponent"]), (&json!("307"), &json!("D")));
        assert_eq!(answer["errorDetail"], "serialNum");
    }
}

#[test]
fn an_answer_is_about_its_question() {
    let stage = Stage::set();
    let question = preq(None);
    let bytes = question.to_string();
    let answer = stage.post("/sim/ds/jcb", JSON, bytes.as_bytes());
    let document = Document::within(answer.text.as_bytes(), 1 << 20).unwrap();
    let id = document.trans_id("threeDSServerTransID").unwrap();
    assert_eq!(id.expose(), question["threeDSServerTransID"].as_str().unwrap());
    let old = with(question, &json!({ "messageVersion": "2.1.0" }));
    assert_eq!(stage.ask("jcb", &old)["messageVersion"], "2.1.0");
}
