// A hostile page compares what a payer types with guesses, through everything that the vault returns to browsers about a
// value: answers of the frame, conversions of its intents, and encrypted data that the page posts itself.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { HOSTILE_PAGE, withHostilePage } from "./hostile-page.js";
import { FIELDS, startSites } from "./sites.js";

const TYPED = "1234567";

let sites;

before(async () => {
  sites = await startSites({ "/hostile": HOSTILE_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

// Everything in an answer that depends on the value, if a page is to compare it.
const TRACES = ["fingerprint", "bank", "card", "network_token", "networkToken", "data"];

// Runs in the page: the ways to get something from the vault about a value.
async function collectTraces(key, { bankData, model }) {
  const { elements } = window;
  const post = async (path, body) => {
    const headers = { "BT-API-KEY": window.key, "Content-Type": "application/json" };
    const response = await fetch(`${window.vaultOrigin}/api${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return response.json();
  };
  const intent = await elements.tokenIntents.create(model);
  const encrypted = await elements.tokens.encrypt({ tokenRequests: model, ...key });
  const bankIntent = await elements.tokenIntents.create({ type: "bank", data: bankData });
  const bankEncrypted = await elements.tokens.encrypt({ tokenRequests: { type: "bank", data: bankData }, ...key });
  return {
    created: await elements.tokens.create(model),
    tokenized: (await elements.tokenize({ a: model })).a,
    intent,
    converted: await post("/tokens", { token_intent_id: intent.id }),
    posted: await post("/tokens", encrypted),
    intentOfPosted: await post("/token-intents", encrypted),
    bankIntent,
    bankConverted: await post("/tokens", { token_intent_id: bankIntent.id }),
    bankPosted: await post("/tokens", bankEncrypted),
  };
}

test("no answer about a typed text tells which text it is", () =>
  withHostilePage(sites, "comparison", async (page, input) => {
    const { body } = await sites.vault.send("management", "POST", "/keys", {});
    const key = { keyId: body.key_id, publicKeyPem: body.public_key_pem };
    // Control: fingerprints of equal values are equal, for a key that sees them.
    const control = await Promise.all([TYPED, TYPED, "other"].map((data) => sites.vault.send("private", "POST", "/tokens", { type: "token", data })));
    const [first, second, third] = control.map((it) => it.body.fingerprint);
    assert.ok(first !== undefined && first === second && first !== third);
    await page.evaluate((origin) => {
      window.vaultOrigin = origin;
      return window.addField("text", "text");
    }, FIELDS);
    await input("text").fill(TYPED);
    const answers = await page.evaluate(
      `(${collectTraces})(${JSON.stringify(key)}, {
        model: { type: "token", data: window.fields.text },
        bankData: { routing_number: "021000021", account_number: window.fields.text },
      })`,
    );
    for (const [name, answer] of Object.entries(answers)) {
      assert.ok(answer.id !== undefined, `${name}: ${JSON.stringify(answer)}`);
      const traces = TRACES.filter((it) => answer[it] !== undefined && answer[it] !== null);
      // The frame's own answers have references in `data`.
      const isReference = JSON.stringify(answer.data ?? null).includes("correlationId");
      const shown = traces.filter((it) => it !== "data" || !isReference);
      assert.deepEqual(shown, [], `${name}: ${JSON.stringify(answer)}`);
      assert.notEqual(answer._extras?.deduplicated, true, name);
      assert.ok(!JSON.stringify(answer).includes(`"${TYPED.slice(-4)}"`), name);
    }
  }));
