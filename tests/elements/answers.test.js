// A rule over all operations: no answer to the page, and no error, contains the value of a field,
// whatever the shape of the payload and the place of the field.

import assert from "node:assert/strict";
import { test } from "node:test";

import { runCall } from "../../crates/scrip-elements/web/controller/calls.js";
import { describeFailure } from "../../crates/scrip-elements/web/controller/failure.js";
import { KeptSessions } from "../../crates/scrip-elements/web/controller/kept-sessions.js";
import { ReferenceStore } from "../../crates/scrip-elements/web/controller/references.js";
import { importPackage } from "./installed-packages.js";
import { randomSource } from "./random.js";

const NUMBER = "4242424242424242";
const OPERATIONS = [
  "tokens.create", "tokens.update", "tokens.retrieve", "tokens.encrypt", "tokenIntents.create", "tokenize",
  "sessions.create", "proxy.get", "proxy.post", "proxy.put", "proxy.patch", "proxy.delete",
];
const NAMES = ["data", "type", "tokenRequests", "body", "encrypted", "token_intent_id", "id", "metadata", "a", "0"];
const TEXTS = ["token", "card", "card_number", "x"];

// A value of the page, and the places of fields in it: null, as the page sends them.
function randomValue(random, depth, path, places) {
  const kind = random.below(depth === 0 ? 2 : 6);
  if (kind === 0) {
    if (path.length > 0) places.push(path);
    return null;
  }
  if (kind === 1) return random.pick(TEXTS);
  if (kind === 2) return [0, 1].map((index) => randomValue(random, depth - 1, [...path, index], places));
  const names = new Set(Array.from({ length: 1 + random.below(3) }, () => random.pick(NAMES)));
  if (kind > 3) ["type", "data"].forEach((name) => names.add(name));
  const member = (name) => {
    if (name === "type" && random.below(3) > 0) return random.pick(TEXTS);
    return randomValue(random, depth - 1, [...path, name], places);
  };
  return Object.fromEntries([...names].map((name) => [name, member(name)]));
}

function randomPayload(random, operation, pem) {
  const places = [];
  if (operation !== "tokens.encrypt") return { payload: randomValue(random, 4, [], places), places };
  // One request or several by name: payloads without any rule would almost never be such requests.
  const request = (path) => ({
    type: random.below(3) > 0 ? random.pick(TEXTS) : randomValue(random, 0, [...path, "type"], places),
    data: randomValue(random, 1, [...path, "data"], places),
  });
  const names = [random.pick(NAMES), random.pick(NAMES)].slice(random.below(2));
  const several = () => Object.fromEntries(names.map((name) => [name, request(["tokenRequests", name])]));
  const tokenRequests = random.below(2) === 0 ? request(["tokenRequests"]) : several();
  // Two requests of one name have one place.
  const distinct = new Map(places.map((path) => [JSON.stringify(path), path]));
  return { payload: { tokenRequests, publicKeyPem: pem, keyId: "k1" }, places: [...distinct.values()] };
}

function createContext(pem, requests) {
  let count = 0;
  const token = { id: "t1", type: "card", data: { number: "XXXX4242" }, card: { last4: "4242" }, public_key_pem: pem };
  return {
    apiKey: "key_test_us_pub_1",
    application: "key_test_us_pub_1",
    debug: false,
    references: new ReferenceStore("data-1", () => `answer-${++count}`),
    sessions: new KeptSessions(() => `${++count}`),
    readField: async () => ({ valid: true, errors: [], value: NUMBER, type: "cardNumber", version: "f1-1" }),
    showValidation: () => {},
    send: async (request) => {
      requests.push(request);
      return { status: 200, headers: new Headers(), data: token };
    },
  };
}

test("answers_and_errors_of_every_operation_contain_no_value_of_a_field", async () => {
  const jose = await importPackage("jose");
  const { publicKey } = await jose.generateKeyPair("ECDH-ES", { crv: "X25519", extractable: true });
  const raw = Buffer.from((await jose.exportJWK(publicKey)).x, "base64url").toString("base64");
  const pem = `-----BEGIN PUBLIC KEY-----\n${raw}\n-----END PUBLIC KEY-----`;
  const accepted = new Map();
  for (let seed = 0; seed < 6_000; seed++) {
    const random = randomSource(seed);
    const operation = OPERATIONS[seed % OPERATIONS.length];
    const { payload, places } = randomPayload(random, operation, pem);
    const elements = places.slice(0, 1 + random.below(3)).map((path) => ({ path, element: "e1" }));
    const requests = [];
    const message = { operation, payload, elements, target: "t1", options: {} };
    const describe = () => `seed ${seed}: ${JSON.stringify(message)}`;
    let shown;
    try {
      shown = JSON.stringify((await runCall(createContext(pem, requests), message)) ?? null);
      if (elements.length > 0) accepted.set(operation, (accepted.get(operation) ?? 0) + 1);
    } catch (failure) {
      shown = JSON.stringify(describeFailure(failure));
    }
    assert.ok(!shown.includes(NUMBER), describe());
    // A header or a path is in the log of a server in between.
    for (const { body: _, ...request } of requests) assert.ok(!JSON.stringify(request).includes(NUMBER), describe());
  }
  // The rule says nothing about an operation that rejects every payload of the test.
  for (const operation of ["tokens.create", "tokens.update", "tokens.encrypt", "tokenIntents.create", "tokenize"]) {
    assert.ok(accepted.get(operation) > 5, `${operation} accepted ${accepted.get(operation)} payloads with a field`);
  }
});
