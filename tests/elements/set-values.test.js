// Values of the vault that a field shows.

import assert from "node:assert/strict";
import { test } from "node:test";

import { resolveSetValues } from "../../crates/scrip-elements/web/field/set-values.js";

const VALUES = { number: ["4242", "number"], month: [7, "month"], year: [2031, "year"], code: ["737", "code"], text: ["x", "text"] };
const controller = {
  resolve: ({ name } = {}) => (Object.hasOwn(VALUES, name) ? { value: VALUES[name][0], kind: VALUES[name][1] } : undefined),
};
const at = (name) => ({ name });
const resolve = (type, reference) => resolveSetValues(type, reference, controller);

test("field_shows_only_values_of_its_kind", () => {
  const kinds = { cardNumber: ["number", "text"], cardVerificationCode: ["code", "text"], cardExpirationDate: ["text"], text: Object.keys(VALUES) };
  for (const [type, accepted] of Object.entries(kinds)) {
    for (const name of Object.keys(VALUES)) {
      const found = resolve(type, at(name));
      assert.equal(found?.kind, accepted.includes(name) ? name : undefined, `${type} ${name}`);
    }
  }
});

test("security_code_is_no_part_of_a_date", () => {
  const date = { month: at("month"), year: at("year") };
  assert.deepEqual(resolve("cardExpirationDate", date), { values: { expiration: "7/2031" }, kind: "date" });
  for (const reference of [{ month: at("code"), year: at("year") }, { month: at("month"), year: at("code") }, { month: at("code"), year: at("code") }]) {
    assert.equal(resolve("cardExpirationDate", reference), undefined);
    assert.equal(resolve("card", { number: at("number"), ...reference, cvc: at("code") })?.values.expiration, undefined);
  }
});

test("card_shows_parts_of_their_own_kinds", () => {
  const reference = { number: at("number"), expiration_month: at("month"), expiration_year: at("year"), cvc: at("code") };
  assert.deepEqual(resolve("card", reference), { values: { number: "4242", expiration: "7/2031", code: "737" }, kind: "card" });
  assert.equal(resolve("card", { ...reference, number: at("code") }), undefined);
  assert.equal(resolve("card", { number: at("text"), cvc: at("text") }).kind, "text");
  assert.equal(resolve("card", {}), undefined);
  assert.equal(resolve("text", { name: "unknown" }), undefined);
});
