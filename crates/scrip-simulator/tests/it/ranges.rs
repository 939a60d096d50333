//! The card ranges of a directory server, parsed with the code of the 3DS server.

use scrip_threeds::{
    format::{CardNumber, Version},
    message::{Document, PRes, TransactionContext, parse_message},
    range::{CardRanges, negotiate_versions},
};
use serde_json::{Value, json};

use crate::{
    cards::CARDS,
    harness::{JSON, SimulatorHarness, merge, new_id},
};

fn preq(serial: Option<&str>) -> Value {
    let message = json!({
        "messageType": "PReq", "messageVersion": "2.2.0", "threeDSServerTransID": new_id(),
        "threeDSServerRefNumber": "ref",
    });
    serial.map_or(message.clone(), |it| merge(message, &json!({ "serialNum": it })))
}

fn request_ranges(harness: &SimulatorHarness, scheme: &str, serial: Option<&str>) -> PRes {
    let response =
        harness.post(&format!("/sim/ds/{scheme}"), JSON, preq(serial).to_string().as_bytes());
    parse_message::<PRes>(response.text.as_bytes(), &TransactionContext::for_version(Version::V220))
        .unwrap()
}

const SCHEMES: [&str; 7] =
    ["visa", "mastercard", "american-express", "discover", "jcb", "cartes-bancaires", "unionpay"];

#[test]
fn each_card_has_the_range_of_its_scenario() {
    let harness = SimulatorHarness::start();
    for scheme in SCHEMES {
        let ranges = CardRanges::from_pres(&request_ranges(&harness, scheme, None)).unwrap();
        for (_, number, code) in CARDS.iter().filter(|(card_scheme, ..)| *card_scheme == scheme) {
            let range = ranges.find(&CardNumber::parse(number).unwrap());
            if *code == "NO" {
                assert!(range.is_none(), "card {number} of {scheme} has a range");
                continue;
            }
            let range = range.unwrap_or_else(|| panic!("card {number} of {scheme} has no range"));
            let common = negotiate_versions(Version::ALL, range.ds, range.acs);
            assert_eq!(common.is_none(), *code == "SE", "versions of card {number} of {scheme}");
            assert_eq!(range.method_url.is_some(), !matches!(*code, "CM" | "SE"), "{number}");
            let url = format!("{}/sim/acs/{scheme}/method", harness.simulator.base_url());
            assert!(range.method_url.as_ref().is_none_or(|it| it.expose() == url));
        }
    }
}

#[test]
fn every_enrolled_table_card_has_a_single_card_range() {
    let harness = SimulatorHarness::start();
    for scheme in SCHEMES {
        let ranges = request_ranges(&harness, scheme, None).ranges.unwrap();
        for card in scrip_simulator::card::CARDS {
            let has_scheme = card.schemes.iter().any(|it| it.slug() == scheme);
            let own_ranges = ranges.items().iter().filter(|it| it.start.expose() == card.number);
            let own_range_count = own_ranges.filter(|it| it.end.expose() == card.number).count();
            let is_enrolled = card.number != "4100000000000003";
            assert_eq!(
                own_range_count,
                usize::from(has_scheme && is_enrolled),
                "{scheme} {}",
                card.number
            );
        }
    }
}

#[test]
fn pres_contains_only_changes_since_the_serial_number() {
    let harness = SimulatorHarness::start();
    let first_pres = request_ranges(&harness, "visa", None);
    let first = CardRanges::from_pres(&first_pres).unwrap();
    let unchanged_pres = request_ranges(&harness, "visa", Some("1"));
    assert!(
        unchanged_pres.ranges.is_none() && unchanged_pres.serial_number.unwrap().expose() == "1"
    );

    assert_eq!(harness.put_behavior("/sim/behavior", &json!({ "ranges": "second" })).0, 200);
    let changes = request_ranges(&harness, "visa", Some("1"));
    let changed_ranges = changes.ranges.as_ref().unwrap().items();
    let actions: Vec<_> = changed_ranges.iter().map(|it| it.action.unwrap().code()).collect();
    assert_eq!(actions, ["D", "A", "M"]);
    let second = first.apply_pres(&changes).unwrap();
    assert_eq!(second.serial_number().unwrap().expose(), "2");
    let find_range = |number| second.find(&CardNumber::parse(number).unwrap());
    assert!(find_range("4100000000000003").is_some() && find_range("4111111111111111").is_none());
    assert!(find_range("4242424242424242").unwrap().method_url.is_none());
    let all_ranges = CardRanges::from_pres(&request_ranges(&harness, "visa", None)).unwrap();
    assert_eq!(all_ranges.len(), second.len());

    // Cards in a range can be authenticated; other cards cannot.
    let added_card_response = harness.send_message("visa", &harness.areq("4100000000000003"));
    assert_eq!(added_card_response["transStatus"], "Y");
    let removed_card_response = harness.send_message("visa", &harness.areq("4111111111111111"));
    assert_eq!(removed_card_response["errorCode"], "305");

    harness.reset_behavior("/sim/behavior");
    let reset_ranges = second.apply_pres(&request_ranges(&harness, "visa", Some("2"))).unwrap();
    assert_eq!(
        (reset_ranges.len(), reset_ranges.serial_number()),
        (first.len(), first.serial_number())
    );
}

#[test]
fn unknown_serial_number_is_rejected() {
    let harness = SimulatorHarness::start();
    for serial in ["0", "3", "x"] {
        let erro = harness.send_message("visa", &preq(Some(serial)));
        assert_eq!((&erro["errorCode"], &erro["errorComponent"]), (&json!("307"), &json!("D")));
        assert_eq!(erro["errorDetail"], "serialNum");
    }
}

#[test]
fn pres_repeats_transaction_id_and_version_of_the_preq() {
    let harness = SimulatorHarness::start();
    let request = preq(None);
    let bytes = request.to_string();
    let response = harness.post("/sim/ds/jcb", JSON, bytes.as_bytes());
    let document = Document::parse_within(response.text.as_bytes(), 1 << 20).unwrap();
    let id = document.trans_id("threeDSServerTransID").unwrap();
    assert_eq!(id.expose(), request["threeDSServerTransID"].as_str().unwrap());
    let older_request = merge(request, &json!({ "messageVersion": "2.1.0" }));
    assert_eq!(harness.send_message("jcb", &older_request)["messageVersion"], "2.1.0");
}
