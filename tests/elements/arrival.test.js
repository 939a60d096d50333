// The focus that comes to a field without the page.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { Arrival, HeldShift, isTabAction } from "../../crates/scrip-elements/web/field/arrival.js";
import { pageFields } from "../../crates/scrip-elements/web/field/siblings.js";

const part = (role, facts = {}) => ({ role, isFocused: true, isEmpty: true, state: "open", ...facts });
const ROLES = ["number", "expiration", "code", "text"];

test("tab_opens_a_number_or_date_only_until_one_was_typed_in_the_page", () => {
  const field = new Arrival([]);
  const opens = (arrival) => ROLES.map((it) => arrival.isOwn([part(it)], false));
  assert.deepEqual(opens(field), [true, true, true, true]);
  for (const role of ["code", "text"]) field.type(role);
  assert.deepEqual(opens(field), [true, true, true, true]);
  field.type("expiration");
  assert.deepEqual(opens(field), [true, false, true, true]);
  assert.equal(field.isOwn([part("number"), part("expiration"), part("code")], false), false, "a card has a date");
  assert.deepEqual(opens(new Arrival([new Arrival([]), field])), [true, false, true, true], "a field that the page adds later");
  field.type("number");
  assert.deepEqual(opens(field), [false, false, true, true]);
});

test("shift_and_tab_open_a_field_with_an_open_text_of_the_payer", () => {
  const field = new Arrival([]);
  field.type("expiration");
  const returns = (facts) => field.isOwn([part("expiration", facts)], true);
  assert.equal(returns({ isEmpty: false }), true);
  assert.equal(returns({ isEmpty: true }), false);
  for (const state of ["given", "hidden", "closed"]) assert.equal(returns({ isEmpty: false, state }), false, state);
  assert.equal(returns({ isEmpty: false, isFocused: false }), false, "another part of the field has the focus");
  assert.equal(field.isOwn([part("expiration", { isEmpty: false })], false), false, "Tab without Shift");
});

test("tab_in_a_number_or_date_is_an_action_only_after_another_one", () => {
  for (const role of ROLES) {
    assert.equal(isTabAction([part(role)], true), true);
    assert.equal(isTabAction([part(role)], false), role === "code" || role === "text", role);
  }
});

test("shift_counts_if_it_was_pressed_before_the_focus_came", () => {
  const follow = (...events) => {
    const shift = new HeldShift();
    for (const [kind, key] of events) shift[kind](key);
    return shift;
  };
  assert.equal(follow().cameWith(true), true, "Tab is released first");
  assert.equal(follow(["release", "Shift"], ["release", "Tab"]).cameWith(false), true, "Shift is released first");
  assert.equal(follow().cameWith(false), false);
  assert.equal(follow(["press", "Shift"]).cameWith(true), false, "Shift belongs to the next key");
  assert.equal(follow(["press", "Shift"], ["release", "Shift"]).cameWith(false), false);
  assert.equal(follow(["release", "Shift"], ["press", "9"]).cameWith(false), false, "an earlier way back");
  assert.equal(follow(["release", "Shift"], ["leave"]).cameWith(false), false);
  assert.equal(follow(["press", "Shift"], ["leave"]).cameWith(true), true, "a second Tab with the same Shift");
});

const ORIGIN = "https://vault.test";

// A window as a frame of another origin sees it: frames by index and by name, and nothing else.
const foreignWindow = (frames, named = {}) =>
  new Proxy(
    { ...frames, ...named, length: frames.length },
    {
      get(target, key) {
        if (key in target) return target[key];
        throw new Error("another origin");
      },
    },
  );
const vaultWindow = (scripField) => ({ origin: ORIGIN, length: 0, scripField });

afterEach(() => delete globalThis.window);

test("fields_of_the_page_are_found_in_every_instance_and_depth", () => {
  const fields = [0, 1, 2].map((it) => ({ nonce: `instance-${it}` }));
  const deep = foreignWindow([foreignWindow([vaultWindow(fields[1])])]);
  const top = foreignWindow([vaultWindow(fields[0]), deep, vaultWindow(undefined), vaultWindow(fields[2])]);
  globalThis.window = { origin: ORIGIN, top };
  assert.deepEqual(pageFields(), fields);
});

test("frame_of_the_page_with_the_name_of_a_property_is_no_field", () => {
  const inner = foreignWindow([]);
  globalThis.window = { origin: ORIGIN, top: foreignWindow([foreignWindow([inner], { origin: inner, scripField: inner })]) };
  assert.deepEqual(pageFields(), []);
});
