"""The inputs and the expected output of the samples of each operation.

A case has the facts that its samples read from the environment, and the required parts of their output: the
name of a fact, an attribute of the response (`response.id`), or a regular expression.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Callable

APP = {"device": "app"}
# A certificate for tests only, with its key.
CERTIFICATE = Path(__file__).parent / "certificate"


@dataclass
class Case:
    prepare: Callable
    printed: tuple
    # The status of each response. `None` accepts any success.
    status: int | None = None
    # Runs after all other samples of its language.
    is_last: bool = False


def nothing(_):
    return {}


def token(vault):
    return {"TOKEN_ID": vault.create_token(metadata={"customer": "7"})}


def token_intent(vault):
    body = {"type": "card", "data": {"number": "4242424242424242"}}
    return {"TOKEN_INTENT_ID": vault.send("POST", "/token-intents", "private", body)["id"]}


def application(vault):
    created = vault.create_application()
    return {"APPLICATION_ID": created["id"], "API_KEY_ID": created["keys"][0]["id"]}


def proxy(vault):
    return {"PROXY_ID": vault.create_proxy()}


def proxied_call(vault):
    return {**token(vault), "PROXY_KEY": vault.create_local_proxy()}


def certificate(vault):
    files = {"CERTIFICATE_FILE": str(CERTIFICATE / "client.pem"), "PRIVATE_KEY_FILE": str(CERTIFICATE / "client.key")}
    return {**proxy(vault), **files}


def proxy_with_certificate(vault):
    facts = certificate(vault)
    body = {
        "certificate_pem": Path(facts["CERTIFICATE_FILE"]).read_text(),
        "private_key_pem": Path(facts["PRIVATE_KEY_FILE"]).read_text(),
    }
    vault.send("PUT", f"/proxies/{facts['PROXY_ID']}/client-certificate", "management", body)
    return facts


def client_key(vault):
    return {"CLIENT_KEY_ID": vault.create_client_key()}


def webhook(vault):
    return {"WEBHOOK_ID": vault.create_webhook()}


def webhook_with_delivery(vault):
    webhook = vault.create_webhook()
    delivery = vault.send("POST", f"/webhooks/{webhook}/test", "management")
    return {"WEBHOOK_ID": webhook, "EVENT_ID": delivery["event_id"]}


def nonce(vault):
    return {"NONCE": vault.send("POST", "/sessions", "public")["nonce"]}


def merchant_session(vault):
    return {"SESSION_ID": vault.create_session("4242424242424242", type="merchant")}


def app_session(vault):
    return {"SESSION_ID": vault.create_session("4242424242424242", **APP)}


def challenged_session(vault):
    return vault.create_challenged_session()


def finished_session(vault):
    challenged = vault.create_challenged_session()
    vault.finish_challenge(challenged)
    return challenged


FORMULAS = Case(nothing, ("authorizenet-card", r"Authorize\.net"))

CASES = {
    "list_tokens_v1": Case(token, ("TOKEN_ID", "card")),
    "create_token": Case(nothing, ("response.id", "4242")),
    "get_token": Case(token, ("TOKEN_ID", "4242424242424242")),
    "update_token": Case(token, ("TOKEN_ID", "2032")),
    "delete_token": Case(token, ("deleted", "TOKEN_ID"), 204),
    "list_tokens": Case(token, ("TOKEN_ID", "card")),
    "search_tokens": Case(token, ("TOKEN_ID", "card")),
    "search_tokens_v1": Case(token, ("TOKEN_ID", "card")),
    "tokenize": Case(nothing, ("response.name", "response.card.id")),
    "detokenize": Case(token, ("4242424242424242", r"\b4242\b")),
    "create_token_intent": Case(nothing, ("response.id", "4242")),
    "get_token_intent": Case(token_intent, ("TOKEN_INTENT_ID", "4242")),
    "delete_token_intent": Case(token_intent, ("deleted", "TOKEN_INTENT_ID"), 204),
    "get_tenant": Case(nothing, ("response.id", "deduplicate_tokens")),
    "update_tenant": Case(nothing, ("response.id", "Acme", "deduplicate_tokens")),
    "delete_tenant": Case(nothing, ("deleted the tenant",), 204, is_last=True),
    "get_tenant_quotas": Case(nothing, ("token_intent_retention_seconds", "response.tokenize_limit")),
    "get_tenant_usage": Case(token, ("response.total_tokens",)),
    "list_applications": Case(application, ("APPLICATION_ID", "Sample")),
    "create_application": Case(nothing, ("response.id", "response.key", "Checkout page")),
    "get_application_by_key": Case(nothing, ("response.id", "response.name")),
    "get_application": Case(application, ("APPLICATION_ID", "Sample", "token:read")),
    "update_application": Case(application, ("APPLICATION_ID", "Fraud checks", "Masked cards")),
    "delete_application": Case(application, ("deleted", "APPLICATION_ID"), 204),
    "regenerate_application_key": Case(application, ("response.detail",), 410),
    "list_api_keys": Case(application, ("API_KEY_ID",)),
    "create_api_key": Case(application, ("response.id", "response.key")),
    "get_api_key": Case(application, ("API_KEY_ID",)),
    "delete_api_key": Case(application, ("deleted", "API_KEY_ID"), 204),
    "get_card_details": Case(nothing, ("visa", "credit", "FR", "cartes-bancaires")),
    "list_permissions": Case(nothing, ("token:read", "token:search")),
    "list_proxies": Case(proxy, ("PROXY_ID", "Charges")),
    "create_proxy": Case(nothing, ("response.id", "response.key", "Charges")),
    "get_proxy": Case(proxy, ("PROXY_ID", "Charges", "psp.example")),
    "update_proxy": Case(proxy, ("PROXY_ID", "Charges and refunds", "psp.example/v2")),
    "patch_proxy": Case(proxy, ("changed", "PROXY_ID"), 204),
    "delete_proxy": Case(proxy, ("deleted", "PROXY_ID"), 204),
    "set_proxy_client_certificate": Case(certificate, ("CN=shop.example", "response.sha256")),
    "delete_proxy_client_certificate": Case(proxy_with_certificate, ("deleted", "PROXY_ID"), 204),
    "invoke_proxy_get": Case(proxied_call, ("ch_1", "GET")),
    "invoke_proxy_post": Case(proxied_call, ("ch_1", "POST", r"\b\d{4}\b")),
    "invoke_proxy_put": Case(proxied_call, ("ch_1", "PUT", r"\b\d{4}\b")),
    "invoke_proxy_patch": Case(proxied_call, ("ch_1", "PATCH", r"\b\d{4}\b")),
    "invoke_proxy_delete": Case(proxied_call, ("ch_1", "DELETE")),
    "list_client_keys": Case(client_key, ("CLIENT_KEY_ID",)),
    "create_client_key": Case(nothing, ("response.key_id", "BEGIN PUBLIC KEY")),
    "get_client_key": Case(client_key, ("CLIENT_KEY_ID",)),
    "get_client_public_key": Case(client_key, ("BEGIN PUBLIC KEY",)),
    "delete_client_key": Case(client_key, ("deleted", "CLIENT_KEY_ID"), 204),
    "list_webhooks": Case(webhook, ("WEBHOOK_ID", "Orders")),
    "create_webhook": Case(nothing, ("response.id", "response.secret", "Orders")),
    "list_webhook_event_types": Case(nothing, ("token.created", "3ds.session.created")),
    "get_webhook": Case(webhook, ("WEBHOOK_ID", "Orders", "shop.example")),
    "update_webhook": Case(webhook, ("WEBHOOK_ID", "Orders and refunds", "shop.example/webhooks/v2")),
    "delete_webhook": Case(webhook, ("deleted", "WEBHOOK_ID"), 204),
    "rotate_webhook_secret": Case(webhook, ("WEBHOOK_ID", "response.secret")),
    "list_webhook_deliveries": Case(webhook_with_delivery, ("EVENT_ID", "webhook.test")),
    "test_webhook": Case(webhook, ("response.event_id", "webhook.test", "pending"), 202),
    "replay_webhook_deliveries": Case(webhook_with_delivery, ("replayed",), 202),
    "get_webhook_key": Case(nothing, ("BEGIN PUBLIC KEY",)),
    "create_access_session": Case(nothing, ("response.session_key", "response.nonce")),
    "authorize_access_session": Case(nonce, ("authorized",), 204),
    "create_threeds_session": Case(token, ("response.id", "Visa")),
    "get_threeds_session": Case(merchant_session, ("SESSION_ID", "merchant")),
    "update_threeds_session": Case(app_session, ("SESSION_ID", "Visa")),
    "authenticate_threeds_session": Case(merchant_session, ("successful", "response.ds_transaction_id")),
    "get_challenge_result": Case(finished_session, ("successful", "DS_TRANSACTION_ID")),
    "list_logs": Case(token, ("TOKEN_ID", "create_token")),
    "list_log_entity_types": Case(nothing, ("token_intent", "3ds_session")),
    "list_connection_formulas": FORMULAS,
    "list_connection_formulas_2": FORMULAS,
    "list_connection_formulas_3": FORMULAS,
    "list_connection_formulas_4": FORMULAS,
    "notify_method": Case(challenged_session, ("SESSION_ID", "isCompleted")),
    "notify_challenge": Case(finished_session, ("SESSION_ID", "successful")),
    "receive_result": Case(challenged_session, ("SESSION_ID", "RRes")),
    "healthz": Case(nothing, (r"\bok\b",)),
    "readyz": Case(nothing, (r"\bready\b",)),
    "ping": Case(nothing, ("reachable",), 204),
    "get_openapi": Case(nothing, (r"openapi\.json: [1-9]\d* bytes|/v2/tokens",)),
    "get_root": Case(nothing, (r"302 \S*/docs",), status=302),
    "get_docs": Case(nothing, (r"docs\.html: [1-9]\d* \w+ of text/html",)),
    "get_docs_style": Case(nothing, (r"style\.css: [1-9]\d* \w+ of text/css",)),
    "get_method_page": Case(nothing, ("<html", "threeDSMethodData")),
    "get_challenge_page": Case(nothing, ("<html", "creq")),
}
