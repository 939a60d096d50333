// The focus that comes to a field without the page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Arrival, isOwnArrival } from "../../crates/scrip-elements/web/field/arrival.js";

test("second_number_or_date_is_reached_only_from_a_field_of_the_payer", () => {
  const sibling = new Arrival();
  const arrives = (role, now = 0) => isOwnArrival([role], [sibling], now);
  assert.deepEqual(["number", "expiration", "code", "text"].map((it) => arrives(it)), [true, true, true, true]);
  sibling.type("expiration");
  assert.deepEqual(["number", "expiration", "code", "text"].map((it) => arrives(it)), [true, false, true, true]);
  sibling.pressTab(true, 5_000);
  assert.deepEqual([arrives("expiration", 5_100), arrives("expiration", 6_001)], [true, false]);
  sibling.pressTab(false, 7_000);
  assert.equal(arrives("expiration", 7_100), false, "the page had moved the focus into the field that Tab left");
});
