// A hostile page repeats calls with an idempotency key. Next to the value of a field it sends its guesses, and so many
// numbers that one more is too many. The guessing budgets are on, as in production.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { HOSTILE_PAGE, authorize, withHostilePage } from "./hostile-page.js";
import { startSites } from "./sites.js";

const CODE = "737";
const GUESSES = ["736", "737", "738"];

let sites, destination;

before(async () => {
  sites = await startSites({ "/hostile": HOSTILE_PAGE });
  await sites.vault.limitGuesses();
  destination = createServer((request, response) => {
    request.resume().on("end", () => response.writeHead(200, { "Content-Type": "application/json" }).end("{}"));
  }).listen(0, "127.0.0.1");
  await once(destination, "listening");
});

after(async () => {
  destination?.close();
  destination?.closeAllConnections();
  assert.equal(await sites.stop(), 0);
});

// A page with a code that a payer typed, and the tools of the attacker.
const onPage = (name, use) =>
  test(name, () =>
    withHostilePage(sites, name, async (page, input) => {
      await page.evaluate(() => window.addField("code", "cardVerificationCode"));
      await input("code").pressSequentially(CODE);
      await page.evaluate(installProbes, await openProxy(page));
      await use(page, input);
    }),
  );

// A session of the page that may use a proxy of the shop.
async function openProxy(page) {
  const session = await page.evaluate(() => window.elements.sessions.create());
  await authorize(sites.vault, session.nonce, { permissions: ["token:use", "proxy:invoke"] });
  const settings = { name: "Known", destination_url: `http://127.0.0.1:${destination.address().port}/`, require_auth: true };
  const { status, body } = await sites.vault.send("management", "POST", "/proxies", settings);
  assert.equal(status, 201, JSON.stringify(body));
  return { apiKey: session.sessionKey, proxyKey: body.key };
}

// Runs in the page. Each operation sends data with an idempotency key.
function installProbes({ apiKey, proxyKey }) {
  const { elements } = window;
  const token = (data) => ({ type: "token", data });
  window.operations = {
    create: (data, options) => elements.tokens.create(token(data), options),
    intent: (data, options) => elements.tokenIntents.create(token(data), options),
    tokenize: (data, options) => elements.tokenize({ a: token(data) }, options),
    update: async (data, options) => {
      window.target ??= await elements.tokens.create(token("x"));
      return elements.tokens.update(window.target.id, { data }, options);
    },
    proxy: (body, { idempotencyKey }) => elements.proxy.post({ apiKey, headers: { "BT-PROXY-KEY": proxyKey }, body, idempotencyKey }),
  };
  // A hundred numbers if the guess is right, and one more if it is not: the group of an account is the page's choice.
  const account = (routing_number, account_number) => ({ routing_number, account_number });
  window.dataOf = (value, guess, salt) => {
    const group = `q${salt}`;
    const fillers = Array.from({ length: 99 }, (_, index) => [`f${index}`, account(`f${index}`, `${index}`)]);
    return { typed: account(group, value), guess: account(group, guess), ...Object.fromEntries(fillers) };
  };
  window.repeat = async (operation, data, options = { idempotencyKey: String(Math.random()) }) => {
    const send = () => window.outcome(window.operations[operation](data, options));
    const [first, second] = [await send(), await send()];
    return { first, second, kinds: `${first.kind} ${second.kind}` };
  };
}

const OPERATIONS = ["create", "intent", "tokenize", "update", "proxy"];

for (const operation of OPERATIONS) {
  onPage(`repeated call does not tell whether a guess equals a typed value: ${operation}`, async (page) => {
    const probe = async (isTyped) => {
      const outcomes = [];
      for (const [index, guess] of GUESSES.entries()) {
        outcomes.push(
          await page.evaluate(
            async ({ operation, guess, salt, code }) => {
              const value = code ?? window.fields.code;
              return (await window.repeat(operation, window.dataOf(value, guess, salt))).kinds;
            },
            { operation, guess, salt: `${operation}${index}`, code: isTyped ? undefined : CODE },
          ),
        );
      }
      return outcomes;
    };
    // Control: the page finds a value of its own.
    const own = await probe(false);
    assert.deepEqual(own.map((it) => it === "answer answer"), GUESSES.map((it) => it === CODE), own.join());
    assert.deepEqual(await probe(true), GUESSES.map(() => "answer answer"));
  });

  onPage(`honest repetition has the same answer: ${operation}`, async (page, input) => {
    const send = (content, idempotencyKey = "order-1") =>
      page.evaluate(
        async ({ operation, content, idempotencyKey }) => {
          const data = { code: window.fields.code, content };
          const { first, second, kinds } = await window.repeat(operation, data, { idempotencyKey });
          return { kinds, same: JSON.stringify(first.value) === JSON.stringify(second.value), value: first.value };
        },
        { operation, content, idempotencyKey },
      );
    const first = await send("a");
    assert.deepEqual([first.kinds, first.same], ["answer answer", true]);
    // Another content, another key of the page, and an edit are other requests.
    const others = [await send("b"), await send("a", "order-2")];
    await input("code").press("Backspace");
    await input("code").press(CODE.at(-1));
    others.push(await send("a"));
    for (const other of others) assert.deepEqual([other.kinds, other.same], ["answer answer", true]);
    if (operation === "create" || operation === "intent") {
      assert.equal(new Set([first, ...others].map((it) => it.value.id)).size, 4);
    }
  });
}
