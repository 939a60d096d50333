//! Delete Token.

use serde_json::json;

use crate::harness::server::{ACME, SERVER};

#[test]
fn deleted_token_is_404() {
    SERVER.create_token_ok(&ACME.private, &json!({"id": "deleted", "type": "token", "data": 1}));
    let response = SERVER.delete(&ACME.private, "/tokens/deleted");
    assert_eq!((response.status, response.text.as_str()), (204, ""));
    assert_eq!(SERVER.get_token(&ACME.private, "deleted").status, 404);
    SERVER.delete(&ACME.private, "/tokens/deleted").expect_problem(404, "Not found.");
    SERVER.create_token_ok(&ACME.private, &json!({"id": "deleted", "type": "token", "data": 2}));
}
