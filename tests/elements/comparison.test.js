// A page cannot compare the value of a text element with values of its own.

import assert from "node:assert/strict";
import { test } from "node:test";

import { withCardContainer, withoutComparison } from "../../crates/scrip-elements/web/controller/comparison.js";

const PCI = { containers: ["/pci/high/"] };
const NO_COMPARISON = { deduplicate_token: false };
const change = (rule, payload, paths, body = payload) => withoutComparison({ rule, payload }, body, paths);

test("token with a text element is not deduplicated", () => {
  const body = { type: "token", data: { a: "typed" }, metadata: { b: "c" } };
  assert.deepEqual(change("create", body, [["data", "a"]]), { ...body, ...NO_COMPARISON });
  assert.deepEqual(change("update", { data: "typed" }, [["data"]]), { data: "typed", ...NO_COMPARISON });
  assert.deepEqual(change("create", body, []), body);
});

test("deduplication that a page requests for a text element is an error", () => {
  const body = { type: "token", data: "typed", deduplicate_token: true };
  assert.throws(() => change("create", body, [["data"]]), /deduplicateToken/);
  assert.throws(() => change("tokenize", { a: [body] }, [["a", 0, "data"]]), /deduplicateToken/);
});

test("leaf of tokenize becomes a token object that is not deduplicated", () => {
  const filled = { list: ["typed", 1], token: { type: "token", data: "typed" } };
  const texts = [["list", 0], ["token", "data"]];
  assert.deepEqual(change("tokenize", filled, texts), {
    list: [{ type: "token", data: "typed", ...NO_COMPARISON }, 1],
    token: { type: "token", data: "typed", ...NO_COMPARISON },
  });
});

test("leaf of tokenize below a member data is a token in a container of cards", () => {
  for (const extra of [{}, { token_intent_id: null }, { encrypted: "x" }]) {
    const payload = { ...extra, data: { cvc: null } };
    const filled = { ...extra, data: { cvc: "737" } };
    const page = { rule: "tokenize", payload };
    const paths = [["data", "cvc"]];
    const body = withCardContainer(page, withoutComparison(page, filled, paths), paths);
    assert.deepEqual(body, { ...extra, data: { cvc: { type: "token", data: "737", ...NO_COMPARISON, ...PCI } } });
  }
  const intent = { token_intent_id: "intent", data: { cvc: "737" } };
  assert.deepEqual(withCardContainer({ rule: "tokenize", payload: intent }, intent, [["data", "cvc"]]), { ...intent, ...PCI });
});
