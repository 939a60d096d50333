// Rules for payloads with fields.

import assert from "node:assert/strict";
import { test } from "node:test";

import { checkPayload, mergeDetails, nest, parsePlaces, placeValues } from "../../crates/scrip-elements/web/controller/payload.js";

const at = (...path) => parsePlaces([{ path, element: "e1" }]);
const accepts = (rule, payload, ...path) => checkPayload(rule, payload, at(...path));
const rejects = (rule, payload, ...path) =>
  assert.throws(
    () => checkPayload(rule, payload, at(...path)),
    { name: "BasisTheoryValidationError" },
    `${rule} ${JSON.stringify(payload)} ${path}`,
  );

test("payload_with_elements_is_far_below_the_limits_of_the_vault", () => {
  const payload = (length) => ({ type: "token", data: { a: null, b: "x".repeat(length) } });
  const place = { path: ["data", "a"], element: "e1", part: undefined };
  checkPayload("create", payload(99_000), [place]);
  assert.throws(() => checkPayload("create", payload(100_000), [place]), { name: "BasisTheoryValidationError" });
  checkPayload("create", payload(200_000), []);
});

test("fields_inside_data_of_a_token_are_accepted", () => {
  accepts("create", { type: "card", data: null }, "data");
  accepts("create", { type: "card", data: { a: [{ b: null }] }, metadata: { note: "x" } }, "data", "a", 0, "b");
});

test("fields_outside_of_data_are_rejected", () => {
  for (const key of ["type", "id", "metadata", "mask", "containers", "Data", "__proto__", "expires_at"]) {
    rejects("create", { type: "token", data: "x", [key]: null }, key);
  }
  rejects("create", { metadata: { data: null } }, "metadata", "data");
  rejects("none", undefined, "data");
});

test("expressions_are_rejected_in_a_token_with_fields", () => {
  for (const extra of [
    { mask: "x" },
    { mask: null },
    { search_indexes: [] },
    { searchIndexes: [] },
    { "search-indexes": [] },
    { fingerprint_expression: "x" },
    { fingerprintExpression: "x" },
    { Mask: {} },
    { id: "{{ data }}" },
    { metadata: { note: "{{ data }}" } },
    { containers: ["/{{ data }}/"] },
    { data: { number: null, copy: "{{ data.number }}" } },
    { deep: [[{ x: "a {{" }]] },
  ]) {
    rejects("create", { type: "token", data: { number: null }, ...extra }, "data", "number");
    assert.doesNotThrow(() => checkPayload("create", { type: "token", data: "x", ...extra }, []));
  }
});

test("fields_in_tokenize_are_leaves_or_inside_data", () => {
  accepts("tokenize", { a: null }, "a");
  accepts("tokenize", [null], 0);
  accepts("tokenize", { a: { b: [null] } }, "a", "b", 0);
  accepts("tokenize", { mask: null }, "mask");
  accepts("tokenize", { a: { type: "card", data: { number: null } } }, "a", "data", "number");
  accepts("tokenize", { type: "card", data: null }, "data");
  for (const key of ["type", "mask", "metadata", "id"]) {
    rejects("tokenize", { a: { type: "card", data: "x", [key]: null } }, "a", key);
    rejects("tokenize", { a: { type: "card", encrypted: "x", [key]: null } }, "a", key);
  }
  // With a value there, the object is a token for the vault.
  rejects("tokenize", { a: { token_intent_id: null, data: null } }, "a", "token_intent_id");
  accepts("tokenize", { a: { token_intent_id: null, metadata: { b: null } } }, "a", "metadata", "b");
  rejects("tokenize", { a: { token_intent_id: "x", metadata: { b: null } } }, "a", "metadata", "b");
});

test("expressions_are_rejected_everywhere_in_a_tokenize_body_with_fields", () => {
  rejects("tokenize", { a: { type: "token", data: null, mask: "x" } }, "a", "data");
  rejects("tokenize", { a: null, b: { type: "token", data: "y", search_indexes: [] } }, "a");
  rejects("tokenize", { a: null, b: [{ type: "token", data: "y", fingerprintExpression: "z" }] }, "a");
  rejects("tokenize", { a: null, b: "{{ x }}" }, "a");
});

test("fields_of_proxy_and_encrypt_have_one_place", () => {
  accepts("body", { body: { card: null, other: "{{ token }}" } }, "body", "card");
  rejects("body", { headers: { "BT-PROXY-URL": null } }, "headers", "BT-PROXY-URL");
  rejects("body", { path: null }, "path");
  rejects("body", { query: { q: null } }, "query", "q");
  accepts("encrypt", { tokenRequests: { type: "card", data: { number: null } } }, "tokenRequests", "data", "number");
  accepts("encrypt", { tokenRequests: { a: { type: "card", data: null } } }, "tokenRequests", "a", "data");
  rejects("encrypt", { tokenRequests: { type: "token", data: "x", other: { data: null } } }, "tokenRequests", "other", "data");
  rejects("encrypt", { tokenRequests: { type: null, data: "x" } }, "tokenRequests", "type");
  rejects("encrypt", { tokenRequests: { a: { type: null, data: "x" } } }, "tokenRequests", "a", "type");
  // A request that the page names `data` is a request, not the data of one.
  rejects("encrypt", { tokenRequests: { data: { type: null, data: "x" } } }, "tokenRequests", "data", "type");
  rejects("encrypt", { tokenRequests: { data: { type: "token", data: "x", note: null } } }, "tokenRequests", "data", "note");
  rejects("encrypt", { tokenRequests: { data: null } }, "tokenRequests", "data");
  accepts("encrypt", { tokenRequests: { data: { type: "token", data: null } } }, "tokenRequests", "data", "data");
  rejects("encrypt", { publicKeyPem: null }, "publicKeyPem");
});

test("deeply_nested_payload_is_rejected", () => {
  let payload = "x";
  for (let depth = 0; depth < 100; depth++) payload = [payload];
  assert.throws(() => checkPayload("create", { data: payload }, []), { name: "BasisTheoryValidationError" });
});

test("malformed_lists_of_fields_are_rejected", () => {
  const valid = { path: ["data"], element: "e1" };
  for (const list of [
    "x",
    {},
    [null],
    [{ ...valid, path: [] }],
    [{ ...valid, path: "data" }],
    [{ ...valid, path: [{}] }],
    [{ ...valid, path: [1.5] }],
    [{ ...valid, element: "" }],
    [{ ...valid, element: "a b" }],
    [{ ...valid, element: 1 }],
    [{ ...valid, method: "constructor" }],
    [{ ...valid, format: 5 }],
    [{ ...valid, format: "x".repeat(65) }],
    [valid, valid],
    Array.from({ length: 201 }, (_, index) => ({ ...valid, path: ["data", index] })),
  ]) {
    assert.throws(() => parsePlaces(list), { name: "BasisTheoryValidationError" }, JSON.stringify(list));
  }
  assert.deepEqual(parsePlaces(undefined), []);
});

test("values_are_inserted_without_changes_of_the_payload", () => {
  const payload = { type: "card", data: { number: null, list: [1, null] }, metadata: { number: "{x}" } };
  const copy = structuredClone(payload);
  const filled = placeValues(payload, [
    { path: ["data", "number"], value: "4242" },
    { path: ["data", "list", 1], value: 12 },
  ]);
  assert.deepEqual(filled, { type: "card", data: { number: "4242", list: [1, 12] }, metadata: { number: "{x}" } });
  assert.deepEqual(payload, copy);
});

test("values_are_inserted_only_in_place_of_null_of_an_own_property", () => {
  for (const [payload, path] of [
    [{ data: "x" }, ["data"]],
    [{ data: {} }, ["data", "missing"]],
    [{ data: {} }, ["data", "__proto__", "polluted"]],
    [{ data: {} }, ["data", "constructor"]],
    [{ data: [null] }, ["data", "0"]],
    [{ data: [null] }, ["data", 1]],
    [{ data: [null] }, ["data", "length"]],
    [{ data: null }, ["data", "inner"]],
  ]) {
    assert.throws(() => placeValues(payload, [{ path, value: "4242" }]), { name: "BasisTheoryValidationError" }, String(path));
  }
  assert.equal({}.polluted, undefined);
});

test("details_have_the_shape_of_the_payload", () => {
  const details = mergeDetails(nest(["data", "number"], { type: "invalid" }), nest(["data", "cvc"], { type: "incomplete" }));
  assert.deepEqual(details, { data: { number: { type: "invalid" }, cvc: { type: "incomplete" } } });
});
