"""Rules that a schema cannot express: keys, checksums, future dates, and protected applications."""

import functools
import json
import os
import random
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone

import schemathesis
from hypothesis import strategies as st

KEYS = json.loads(os.environ["SCRIP_KEYS"])
# `each` sends the key that an operation requires, any other value the same key everywhere.
KEY_MODE = os.environ["SCRIP_KEY_MODE"]
OWN_APPLICATIONS = set(json.loads(os.environ["SCRIP_OWN_APPLICATIONS"]))


# Not cached, because the key depends on the operation.
@schemathesis.auth(refresh_interval=None)
class Key:
    def get(self, case, context):
        if KEY_MODE != "each":
            return KEYS[KEY_MODE]
        needs = context.operation.definition.raw.get("x-scrip-needs", {"key": "any"})
        kinds = needs.get("application_types") or [needs["key"]]
        return KEYS[next((it for it in ("private", "management", "public") if it in kinds), "management")]

    def set(self, case, data, context):
        case.headers = case.headers or {}
        case.headers["BT-API-KEY"] = data


@schemathesis.hook
def before_call(context, case, kwargs):
    # The applications of this run must not be changed or deleted, because the run uses their keys.
    if case.method in ("PUT", "DELETE") and (case.path_parameters or {}).get("id") in OWN_APPLICATIONS:
        case.path_parameters["id"] = str(uuid.uuid4())
    # A repeated idempotency key would replay an earlier response, so each request gets a new one.
    once = (case.headers or {}).get("BT-IDEMPOTENCY-KEY")
    if once and len(once) <= 256:
        case.headers["BT-IDEMPOTENCY-KEY"] = str(uuid.uuid4())
    if case.meta and case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        operation = case.operation.definition.raw["operationId"]
        if operation == "detokenize":
            content = json.dumps(case.body).replace(EXAMPLE, sample_token())
            case.body = {"put": random.choice(EXPRESSIONS) % sample_token(), "content": json.loads(content)}
        elif operation != "tokenize":
            case.body = make_valid(dict(case.body))


# The token id in the examples of the document.
EXAMPLE = "c06d0789-0a38-40be-b7cc-c28a6f76f1f1"
EXPRESSIONS = ("{{ %s }}", "{{ token: %s | json: '$.type' }}", "last: {{ %s | json: '$.number' | last4 }}")


@functools.cache
def sample_token():
    return create("/tokens", {"type": "card", "data": {"number": "4242424242424242"}})["id"]


def make_valid(body):
    """Sets values that no schema can describe: a future date, an issued nonce, an existing intent, a
    valid expression."""
    if "{{" in (body.get("id") or "") or "{%" in (body.get("id") or ""):
        body["id"] = "{{ 'computed-%s' }}" % uuid.uuid4()
    if isinstance(body.get("expires_at"), str):
        hours = random.randint(1, 23)  # A session may have 24.
        body["expires_at"] = (datetime.now(timezone.utc) + timedelta(hours=hours)).isoformat()
    if "nonce" in body and KEY_MODE == "each":
        body["nonce"] = create("/sessions", None)["nonce"]
    if isinstance(body.get("token_intent_id"), str):
        body["token_intent_id"] = create("/token-intents", {"type": "token", "data": "intent"})["id"]
    if isinstance(body.get("encrypted"), str):
        # Only a client with the public key can encrypt. The suites of the clients do.
        del body["encrypted"]
        body.update(type="token", data="clear")
    return body


def create(path, body):
    headers = {"BT-API-KEY": KEYS["public"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["SCRIP_URL"] + path, data, headers, method="POST")
    with urllib.request.urlopen(request) as response:
        return json.load(response)


@schemathesis.hook
def map_body(context, body):
    """For JSON Schema 7.0 is an integer. The vault keeps numbers as they are written and accepts
    integers only without a decimal point."""
    if isinstance(body, dict):
        return {name: map_body(context, value) for name, value in body.items()}
    if isinstance(body, list):
        return [map_body(context, value) for value in body]
    if isinstance(body, float) and body.is_integer() and abs(body) < 2**53:
        return int(body)
    return body


def luhn(digits):
    total = 0
    for at, digit in enumerate(reversed(digits + [0])):
        digit = digit * 2 if at % 2 else digit
        total += digit - 9 if digit > 9 else digit
    return "".join(map(str, digits + [-total % 10]))


def aba(digits):
    total = sum(digit * weight for digit, weight in zip(digits, [3, 7, 1] * 3))
    return "".join(map(str, digits + [-total % 10]))


def digits(least, most):
    return st.lists(st.integers(0, 9), min_size=least, max_size=most)


schemathesis.openapi.format("card-number", digits(12, 18).map(luhn))
schemathesis.openapi.format("routing-number", digits(8, 8).map(aba))

LABEL = st.from_regex("[a-z][a-z0-9]{0,9}", fullmatch=True)
URL_PATH = st.sampled_from(["", "/", "/v1", "/v1/charges?mode=live", ":8443/a%20b"])
schemathesis.openapi.format("destination-url", st.tuples(LABEL, URL_PATH).map(lambda it: f"https://{it[0]}.example{it[1]}"))

LOCAL_PART = st.from_regex("[a-z][a-z0-9+_-]{0,9}([.][a-z0-9]{1,9})?", fullmatch=True)
schemathesis.openapi.format("notify-email", st.tuples(LOCAL_PART, LABEL).map(lambda it: f"{it[0]}@{it[1]}.example"))

QUOTED = st.text("abcXYZ 0123456789-/:*(é日", min_size=1, max_size=20).map(lambda it: f'"{it}"')
BARE = st.from_regex("[a-zA-Z0-9_./-]{1,20}", fullmatch=True)
VALUE = QUOTED | BARE


def term(field):
    return VALUE.map(lambda it: f"{field}:{it}")


METADATA = st.sampled_from(["customer", "a.b", "日"]).flatmap(lambda it: term(f"metadata.{it}"))
TYPE = st.sampled_from(["card", "token", "bank"]).map(lambda it: f"type:{it}")
CONTAINER = st.sampled_from(["", ' AND container:"/pci/"', " and container:/"])
ONE = METADATA | TYPE | term("data") | term("fingerprint")
schemathesis.openapi.format("token-query", st.tuples(ONE, CONTAINER).map("".join))
MANY = st.lists(METADATA, min_size=1, max_size=3).map(" AND ".join)
schemathesis.openapi.format("token-query-v1", MANY | term("data") | term("id"))
