//! The demo checkout is in `dev`, and in nothing that serves real cards.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use crate::house::House;

const PATHS: [(&str, &str); 6] = [
    ("GET", "/demo"),
    ("GET", "/demo/"),
    ("GET", "/demo/checkout.js"),
    ("GET", "/demo/settings"),
    ("POST", "/demo/authenticate"),
    ("POST", "/demo/challenge-result"),
];

#[test]
fn a_server_for_production_has_none() {
    let (house, _) = House::with_key();
    let dev = house.start(&["dev", "--json"]);
    for (method, path) in PATHS {
        let expected = if method == "GET" { 200 } else { 400 };
        assert_eq!(dev.ask(method, path).status, expected, "{path}");
    }
    assert_eq!(dev.ask("GET", "/demo").kind, "text/html; charset=utf-8");
    assert_eq!(dev.ask("POST", "/demo").status, 405);
    drop(dev);
    // The same vault, with the same keys in it.
    let served = house.serve();
    house.logged("the vault is open");
    for (method, path) in PATHS {
        assert_eq!(served.ask(method, path).status, 404, "{path}");
    }
    // The frames of the SDK belong to both.
    assert_eq!(served.status("/pages/challenge.html"), 200);
}

#[test]
fn dev_says_where_it_is() {
    let house = House::new();
    let mut child =
        house.command(&["dev"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<_> = lines.take_while(|it| !it.contains("Your first token")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let said = said.join("\n");
    let url = said.split_whitespace().find(|it| it.starts_with("http://")).unwrap();
    assert!(said.contains(&format!("Open {url}/demo in a browser")), "{said}");
    assert!(said.contains("by the simulator at http://127.0.0.1:"), "{said}");
}
