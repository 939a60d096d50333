// Messages that a frame accepts from its page.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { acceptMessage, openParentChannel, parseFragment } from "../../crates/scrip-elements/web/parent-channel.js";

const NONCE = "0123456789abcdef0123456789abcdef";
const PARENT = {};
const unbound = { parent: PARENT, nonce: NONCE, element: "e1", boundOrigin: undefined };
const bound = { ...unbound, boundOrigin: "https://shop.test" };
const message = (changes = {}) => ({ scrip: 1, nonce: NONCE, element: "e1", type: "init", ...changes });
const event = (data, changes = {}) => ({ source: PARENT, origin: "https://shop.test", data, ...changes });

test("first_message_must_be_init", () => {
  assert.equal(acceptMessage(event(message()), unbound)?.type, "init");
  assert.equal(acceptMessage(event(message({ type: "clear" })), unbound), undefined);
});

test("later_messages_need_the_bound_origin", () => {
  const clear = message({ type: "clear" });
  assert.equal(acceptMessage(event(clear), bound)?.type, "clear");
  assert.equal(acceptMessage(event(clear, { origin: "https://other.test" }), bound), undefined);
});

test("second_init_is_ignored", () => {
  assert.equal(acceptMessage(event(message()), bound), undefined);
});

test("messages_of_other_windows_instances_and_elements_are_ignored", () => {
  assert.equal(acceptMessage(event(message(), { source: {} }), unbound), undefined);
  assert.equal(acceptMessage(event(message(), { origin: "null" }), unbound), undefined);
  for (const changes of [{ scrip: 2 }, { nonce: "x" }, { element: "e2" }, { type: 1 }]) {
    assert.equal(acceptMessage(event(message(changes)), unbound), undefined);
  }
  for (const data of [null, undefined, "x", 1, []]) assert.equal(acceptMessage(event(data), unbound), undefined);
});

test("fragment_needs_a_nonce_and_an_element", () => {
  assert.deepEqual(parseFragment(`#nonce=${NONCE}&element=e1&type=card`), { nonce: NONCE, element: "e1", type: "card" });
  for (const text of ["", "#nonce=1&element=e1", `#nonce=${NONCE}`, `#nonce=${NONCE}&element=<b>`, `#nonce=${NONCE}&element=e1&type=a.b`]) {
    assert.equal(parseFragment(text), undefined, text);
  }
});

const VAULT = "https://vault.test";

// A frame at `origin`, with the origin of its server's page. Gives what the page receives.
function startFrame(origin, pageOrigin) {
  const received = [];
  const parent = { postMessage: (data, target) => received.push([data.type, target]) };
  const location = { hash: `#nonce=${NONCE}&element=e1`, origin };
  globalThis.window = Object.assign(new EventTarget(), { parent, location });
  globalThis.document = { querySelector: () => (pageOrigin === undefined ? null : { getAttribute: () => pageOrigin }) };
  const send = (type) =>
    window.dispatchEvent(Object.assign(new Event("message"), { source: parent, origin: "https://shop.test", data: message({ type }) }));
  return { received, send };
}

afterEach(() => {
  delete globalThis.window;
  delete globalThis.document;
});

test("frame_starts_in_the_origin_of_its_page_only", () => {
  for (const pageOrigin of [VAULT, ""]) {
    const { received } = startFrame(VAULT, pageOrigin);
    openParentChannel(() => {});
    assert.deepEqual(received, [["loaded", "*"]], pageOrigin);
  }
  for (const [origin, pageOrigin] of [[`${VAULT}:8443`, VAULT], ["http://vault.test", VAULT], [VAULT, undefined]]) {
    const { received } = startFrame(origin, pageOrigin);
    assert.throws(() => openParentChannel(() => {}), /do not run at/);
    assert.deepEqual(received, [], "the page waits for no frame");
  }
});

test("channel_that_ended_receives_and_sends_nothing", () => {
  const frame = startFrame(VAULT, VAULT);
  const types = [];
  const channel = openParentChannel(({ type }) => types.push(type));
  frame.send("init");
  channel.send("ready");
  channel.end();
  frame.send("init");
  frame.send("update");
  channel.send("change");
  assert.deepEqual(types, ["init"]);
  assert.deepEqual(frame.received, [["loaded", "*"], ["ready", "https://shop.test"]]);
});
