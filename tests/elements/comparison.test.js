// A page cannot compare the value of a text element with values of its own.

import assert from "node:assert/strict";
import { test } from "node:test";

import { withoutComparison } from "../../crates/scrip-elements/web/controller/comparison.js";

test("token with a text element is not deduplicated", () => {
  const body = { type: "token", data: { a: "typed" }, metadata: { b: "c" } };
  assert.deepEqual(withoutComparison(body, [["data", "a"]]), { ...body, deduplicate_token: false });
  assert.deepEqual(withoutComparison({ data: "typed" }, [["data"]]), { data: "typed", deduplicate_token: false });
  assert.deepEqual(withoutComparison(body, []), body);
});

test("deduplication that a page requests for a text element is an error", () => {
  const body = { type: "token", data: "typed", deduplicate_token: true };
  assert.throws(() => withoutComparison(body, [["data"]]), /deduplicateToken/);
  assert.throws(() => withoutComparison({ a: [body] }, [["a", 0, "data"]]), /deduplicateToken/);
});

test("leaf of tokenize becomes a token object that is not deduplicated", () => {
  const filled = { list: ["typed", 1], token: { type: "token", data: "typed" } };
  const texts = [["list", 0], ["token", "data"]];
  assert.deepEqual(withoutComparison(filled, texts), {
    list: [{ type: "token", data: "typed", deduplicate_token: false }, 1],
    token: { type: "token", data: "typed", deduplicate_token: false },
  });
});
