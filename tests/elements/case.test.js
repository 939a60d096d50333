// Key names of requests and answers, compared with the conversion of the official packages.

import assert from "node:assert/strict";
import { test } from "node:test";

import { camelCase, renameKeys, snakeCase, tokenAnswer, tokenRequest } from "../../crates/scrip-elements/web/controller/case.js";
import { requirePackage } from "./installed-packages.js";

const utilities = requirePackage("@basis-theory/basis-theory-js/common/utils.js");

const MODEL = {
  type: "card",
  id: "x",
  searchIndexes: ["{{ data.someKey }}"],
  fingerprintExpression: "{{ data }}",
  deduplicateToken: true,
  expiresAt: "2030-01-01",
  containers: ["/pci/high/"],
  privacy: { impactLevel: "high", restrictionPolicy: "mask" },
  data: { cardNumber: "1", nested_key: { innerKey: 2 } },
  metadata: { orderId: "7", order_id: "8" },
};

const ANSWER = {
  id: "x",
  tenant_id: "t",
  fingerprint_expression: "{{ data.number }}",
  search_indexes: [],
  created_at: "2030-01-01",
  expires_at: null,
  card: { bin: "42424242", last4: "4242", expiration_month: 12, issuer_country: { alpha2: "US" }, additional: [{ bin_range: [] }] },
  bank: { routing_number: "1", account_number_last4: "1234" },
  privacy: { impact_level: "high" },
  _extras: { deduplicated: false, deduplication_behavior: "read_existing" },
  data: { expiration_month: 12, cardNumber: "1" },
  metadata: { order_id: "7", orderId: "8" },
};

test("token_request_has_the_keys_of_the_official_package", () => {
  assert.deepEqual(tokenRequest(MODEL), utilities.transformTokenRequestSnakeCase(MODEL));
});

test("token_answer_has_the_keys_of_the_official_package", () => {
  assert.deepEqual(tokenAnswer(ANSWER), utilities.transformTokenResponseCamelCase(ANSWER));
});

test("session_answer_has_the_keys_of_the_official_package", () => {
  const answer = { session_key: "k", nonce: "n", expires_at: "2030" };
  assert.deepEqual(renameKeys(answer, camelCase), utilities.transformResponseCamelCase(answer));
});

test("key_names_survive_conversion_in_both_directions", () => {
  for (const name of ["search_indexes", "expires_at", "account_number_last4", "a", "is_3ds_ready"]) {
    assert.equal(snakeCase(camelCase(name)).replaceAll("_", ""), name.replaceAll("_", ""));
  }
});

test("key_named_proto_stays_an_ordinary_key", () => {
  const renamed = renameKeys(JSON.parse('{"a":{"__proto__":{"admin":true}}}'), (key) => key);
  assert.equal(renamed.a.admin, undefined);
  assert.deepEqual(Object.keys(renamed.a), ["__proto__"]);
});
