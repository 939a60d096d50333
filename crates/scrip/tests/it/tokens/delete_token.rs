//! Delete Token.

use serde_json::json;

use crate::harness::server::{ACME, SHARED};

#[test]
fn a_deleted_token_is_gone() {
    SHARED.created(&ACME.private, &json!({"id": "deleted", "type": "token", "data": 1}));
    let reply = SHARED.ask("DELETE", "/tokens/deleted").key(&ACME.private).send();
    assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    assert_eq!(SHARED.get(&ACME.private, "deleted").status, 404);
    let again = SHARED.ask("DELETE", "/tokens/deleted").key(&ACME.private).send();
    again.refused(404, "no such thing");
    SHARED.created(&ACME.private, &json!({"id": "deleted", "type": "token", "data": 2}));
}
