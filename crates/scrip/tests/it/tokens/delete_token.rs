//! Delete Token.

use serde_json::json;

use crate::harness::server::{ACME, SHARED_SERVER};

#[test]
fn deleted_token_is_404() {
    SHARED_SERVER
        .create_token_ok(&ACME.private, &json!({"id": "deleted", "type": "token", "data": 1}));
    let reply = SHARED_SERVER.request("DELETE", "/tokens/deleted").key(&ACME.private).send();
    assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    assert_eq!(SHARED_SERVER.get_token(&ACME.private, "deleted").status, 404);
    let again = SHARED_SERVER.request("DELETE", "/tokens/deleted").key(&ACME.private).send();
    again.expect_problem(404, "no such thing");
    SHARED_SERVER
        .create_token_ok(&ACME.private, &json!({"id": "deleted", "type": "token", "data": 2}));
}
