//! `scrip export` and `scrip import`: a vault on another engine, and what is refused on the way.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use scrip_testing::{postgres::Database, process::harness::ProcessHarness, requests::card_number};
use serde_json::Value;

use crate::operator::{
    backup::{Scene, succeeds},
    stuck::Stuck,
};

const TOKENS: u64 = 12;

fn database() -> Database {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(Database::create_empty())
}

/// A second machine with the root key, on PostgreSQL.
fn on_postgres(scene: &Scene, database: &Database) -> Scene {
    let mut other = scene.elsewhere();
    other.house = other.house.set("SCRIP_STORAGE_URL", &database.url());
    other.house = other.house.set("SCRIP_STORAGE_ONLY_NODE", "true");
    succeeds(&other.house, &["migrate"]);
    other
}

#[track_caller]
fn json_of(house: &ProcessHarness, arguments: &[&str]) -> Value {
    let output = succeeds(house, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A vault that was served, and the ids of its tokens.
fn lived_in() -> (Scene, Vec<String>) {
    let scene = Scene::new();
    let server = scene.serve();
    let mut client = scene.client(&server);
    let ids: Vec<_> = (0..TOKENS).map(|it| Scene::create(&mut client, it)).collect();
    for id in &ids {
        assert!(Scene::get(&mut client, id).is_some());
    }
    drop(client);
    drop(server);
    (scene, ids)
}

/// What was acknowledged is there, is made once, and its trail is whole.
#[track_caller]
fn check_served(scene: &Scene, ids: &[String]) {
    let server = scene.serve();
    let mut client = scene.client(&server);
    for (place, id) in (0..).zip(ids) {
        let token = Scene::get(&mut client, id).expect("it was acknowledged");
        assert_eq!(token["data"]["number"], card_number(place));
        assert!(token["data"].get("cvc").is_none());
        // Asked again with its key.
        assert_eq!(&Scene::create(&mut client, place), id);
    }
    drop(client);
    drop(server);
    succeeds(&scene.house, &["audit", "verify"]);
}

#[test]
fn a_vault_moves_to_postgresql_and_back() {
    let (scene, ids) = lived_in();
    let (there, back) = (scene.path("there"), scene.path("back"));
    let server = scene.serve();
    scene.house.refused(&["export", &there], "is served by process");
    drop(server);
    let told = json_of(&scene.house, &["export", &there]);
    assert_eq!(told["export"]["rows"]["tokens"], TOKENS);
    assert_eq!(told["export"]["engine"], "embedded");
    assert_eq!(told["bytes"], fs::metadata(&there).unwrap().len());
    assert_eq!(fs::metadata(&there).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!Path::new(&format!("{there}.draft")).exists());
    scene.house.refused(&["export", &there], "is there already");
    succeeds(&scene.house, &["export", &there, "--force"]);

    let database = database();
    let mut bare = scene.elsewhere();
    bare.house = bare.house.set("SCRIP_STORAGE_URL", &database.url());
    bare.house.refused(&["import", &there], "run: scrip migrate");
    let second = on_postgres(&scene, &database);
    let said = succeeds(&second.house, &["import", &there]).stdout;
    let said = String::from_utf8(said).unwrap();
    for expected in ["1 tenant and 12 tokens", "read back and compared", "codes", "only one"] {
        assert!(said.contains(expected), "{said}");
    }
    check_served(&second, &ids);
    second.house.refused(&["import", &there], "there is a vault already");

    succeeds(&second.house, &["export", &back]);
    let third = scene.elsewhere();
    succeeds(&third.house, &["import", &back]);
    check_served(&third, &ids);
    third.has(&ids);
    third.house.refused(&["import", &back], "there is a vault already");
}

#[test]
fn a_wrong_root_key_is_told() {
    let (scene, ids) = lived_in();
    let file = scene.path("export");
    succeeds(&scene.house, &["export", &file]);
    let stranger = ProcessHarness::founded(crate::SCRIP);
    let other = scene.elsewhere();
    fs::copy(stranger.data().join("root.key"), other.house.data().join("root.key")).unwrap();
    other.house.refused(&["import", &file], "put its root key in its place");
    // It is in all the same.
    let own = scene.house.data().join("root.key");
    fs::copy(own, other.house.data().join("root.key")).unwrap();
    // Any command keeps where the logs end, as the import would have.
    succeeds(&other.house, &["tenant", "list"]);
    check_served(&other, &ids);
}

#[test]
fn a_damaged_file_makes_nothing() {
    let (scene, _) = lived_in();
    let file = scene.path("export");
    succeeds(&scene.house, &["export", &file]);
    let whole = fs::read(&file).unwrap();
    let elsewhere = ProcessHarness::new(crate::SCRIP);
    let refused = |bytes: &[u8], expected: &str| {
        let path = scene.path("damaged");
        fs::write(&path, bytes).unwrap();
        elsewhere.refused(&["import", &path], expected);
        assert!(!elsewhere.data().exists());
    };
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    refused(&flipped, "it is damaged at byte");
    refused(&whole[..middle], "it is not finished, or was cut");
    refused(b"something else", "it is no export");
    // Nothing in it is plain; and whoever looks would see it.
    let has = |bytes: &[u8], what: &str| bytes.windows(what.len()).any(|it| it == what.as_bytes());
    for place in 0..TOKENS {
        assert!(!has(&whole, &card_number(place)));
    }
    assert!(has(&[&whole[..], card_number(3).as_bytes()].concat(), &card_number(3)));
}

/// Whether a draft has more than its mark and its first frame, which has its length before it and a
/// checksum behind it.
fn has_portion(draft: &str) -> bool {
    let bytes = fs::read(draft).unwrap_or_default();
    let length = bytes.get(16..20).and_then(|it| it.try_into().ok()).map(u32::from_be_bytes);
    length.is_some_and(|it| bytes.len() > 16 + 4 + usize::try_from(it).unwrap() + 32)
}

#[test]
fn a_killed_export_goes_on() {
    let (scene, ids) = lived_in();
    let (file, draft) = (scene.path("export"), scene.path("export.draft"));
    // It waits where it tells that the first portion is on disk.
    let export = Stuck::start(&scene.house, &["export", &file], 0);
    export.kill_when(|| has_portion(&draft));
    assert!(Path::new(&draft).exists() && !Path::new(&file).exists());
    // As a disk may leave it.
    let mut torn = fs::read(&draft).unwrap();
    torn.extend_from_slice(&[0; 100]);
    fs::write(&draft, torn).unwrap();
    scene.house.refused(&["import", &draft], "cannot be imported; nothing was changed");
    let told = json_of(&scene.house, &["export", &file]);
    assert!(told["resumed_rows"].as_u64() > Some(0), "{told}");
    assert!(!Path::new(&draft).exists());
    let other = scene.elsewhere();
    succeeds(&other.house, &["import", &file]);
    check_served(&other, &ids);

    // What changed in between makes it worthless.
    let file = scene.path("second");
    let export = Stuck::start(&scene.house, &["export", &file], 0);
    let draft = scene.path("second.draft");
    export.kill_when(|| has_portion(&draft));
    succeeds(&scene.house, &["tenant", "create", "Another"]);
    scene.house.refused(&["export", &file], "say --force to begin anew");
    succeeds(&scene.house, &["export", &file, "--force"]);
}

/// How many bytes an import says before the line that stands at this place among those that tell of
/// writing.
fn before_line(said: &[u8], at: usize) -> usize {
    let said = str::from_utf8(said).unwrap();
    said.match_indices("importing:").nth(at).expect("it tells").0
}

#[track_caller]
fn check_killed(target: &Scene, file: &str, room: usize, ids: &[String]) {
    let house = &target.house;
    let import = Stuck::start(house, &["import", file], room);
    import.kill_when(|| {
        let said = house.run(&["status"]);
        String::from_utf8_lossy(&said.stderr).contains("is not finished")
    });
    house.refused(&["serve"], "an import into this vault is not finished");
    house.refused(&["init"], "an import into this vault is not finished");
    let told = json_of(house, &["import", file]);
    assert!(told["resumed_rows"].as_u64() > Some(0), "{told}");
    check_served(target, ids);
}

#[test]
fn a_killed_import_goes_on() {
    let (scene, ids) = lived_in();
    let file = scene.path("export");
    succeeds(&scene.house, &["export", &file]);
    // What it says when nobody ends it.
    let said = succeeds(&scene.elsewhere().house, &["import", &file]).stderr;
    for at in [0, 3] {
        let room = before_line(&said, at);
        check_killed(&scene.elsewhere(), &file, room, &ids);
        let database = database();
        check_killed(&on_postgres(&scene, &database), &file, room, &ids);
    }
}
