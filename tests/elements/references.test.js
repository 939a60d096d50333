// References to answers that stay in the controller.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ReferenceStore } from "../../crates/scrip-elements/web/controller/references.js";
import { storedKind } from "../../crates/scrip-elements/web/controller/value-kinds.js";

function createStore(limit) {
  let count = 0;
  return new ReferenceStore("data-1", () => `answer-${++count}`, limit);
}

const ANSWER = { data: { number: "4242", "a/b~c.d": [1, { x: true }], none: null, __proto: 1 }, other: "clear" };

test("every_leaf_becomes_a_reference_that_resolves_to_the_value", () => {
  const store = createStore();
  const part = store.keep(ANSWER)(ANSWER.data, ["data"]);
  assert.deepEqual(part.number, { correlationId: "answer-1", elementId: "data-1", path: "/data/number" });
  assert.equal(part.none, null);
  assert.equal(store.resolve(part.number).value, "4242");
  assert.equal(store.resolve(part["a/b~c.d"][0]).value, 1);
  assert.equal(store.resolve(part["a/b~c.d"][1].x).value, true);
  assert.ok(!JSON.stringify(part).includes("4242"));
});

test("answer_that_is_one_value_becomes_one_reference", () => {
  const store = createStore();
  const reference = store.keep("secret")("secret", []);
  assert.equal(reference.path, "");
  assert.equal(store.resolve(reference).value, "secret");
});

test("forged_references_resolve_to_nothing", () => {
  const store = createStore();
  const { number } = store.keep(ANSWER)(ANSWER.data, ["data"]);
  for (const forged of [
    undefined,
    null,
    "x",
    {},
    { ...number, elementId: "data-2" },
    { ...number, correlationId: "answer-2" },
    { ...number, correlationId: 1 },
    { ...number, path: "/data" },
    { ...number, path: "/data/number/length" },
    { ...number, path: "/constructor/name" },
    { ...number, path: "/data/__proto__/x" },
    { ...number, path: ["data", "number"] },
  ]) {
    assert.equal(store.resolve(forged), undefined, JSON.stringify(forged));
  }
});

test("inherited_properties_are_no_values", (context) => {
  Object.prototype.inherited = "x";
  context.after(() => delete Object.prototype.inherited);
  const store = createStore();
  const { number } = store.keep(ANSWER)(ANSWER.data, ["data"]);
  assert.equal(store.resolve({ ...number, path: "/data/inherited" }), undefined);
});

test("oldest_answer_is_dropped_when_the_limit_is_reached", () => {
  const store = createStore(2);
  const [first, second, third] = ["a", "b", "c"].map((text) => store.keep(text)(text, []));
  assert.deepEqual([first, second, third].map((it) => store.resolve(it)?.value), [undefined, "b", "c"]);
  store.clear();
  assert.equal(store.resolve(third), undefined);
});

test("reference_has_the_kind_of_its_value", () => {
  const store = createStore();
  const kinds = (token) => {
    const data = store.keep(token, (path) => storedKind(token, path))(token.data, ["data"]);
    return Object.values(data).map((it) => store.resolve(it).kind);
  };
  const data = { number: "4242", expiration_month: 1, expiration_year: 2030, cvc: "123", name: "Jo" };
  assert.deepEqual(kinds({ type: "card", data }), ["number", "month", "year", "code", "text"]);
  // The vault does not check the attributes of other types, so their names say nothing.
  assert.deepEqual(kinds({ type: "token", data }), Array(5).fill("text"));
  assert.deepEqual(kinds({ data }), Array(5).fill("text"));
});
