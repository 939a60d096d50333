// The copy of a page's message that a field reads.

import assert from "node:assert/strict";
import { test } from "node:test";

import { plainCopy } from "../../crates/scrip-elements/web/field/plain-message.js";

test("plain_message_is_copied_with_its_patterns_and_absent_options", () => {
  const mask = [/\d/, "-"];
  const options = { lang: "de", mask, label: undefined, value: null, style: { base: { ":focus": { color: "red" } } } };
  const copy = plainCopy({ type: "init", options });
  assert.deepEqual(copy, { type: "init", options });
  assert.ok("label" in copy.options, "an update removes an option");
  assert.equal(copy.options.mask[0], mask[0]);
  assert.notEqual(copy.options.mask, mask);
});

test("objects_of_other_kinds_have_only_their_own_attributes", () => {
  const error = Object.assign(new Error("x"), { own: 1 });
  assert.deepEqual(plainCopy([new Map([[1, 2]]), new Date(0), error, Object(1n)]), [{}, {}, { own: 1 }, {}]);
  assert.deepEqual(Object.keys(plainCopy(JSON.parse('{"__proto__": 1}'))), ["__proto__"]);
});

test("message_that_json_does_not_know_is_refused", () => {
  const cycle = {};
  cycle.options = [{ value: cycle }];
  for (const message of [{ options: { value: 1n } }, cycle, { options: { mask: [Symbol("x")] } }, [() => 1]]) {
    assert.throws(() => plainCopy(message), /A message /);
  }
});
