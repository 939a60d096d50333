// A hostile page divides what a payer types into pieces, or joins it with a text of its own, and asks about the pieces.
// For each probe, a control shows that it works on an ordinary input or on a value of the page.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { HOSTILE_PAGE, authorize, withHostilePage } from "./hostile-page.js";
import { startSites } from "./sites.js";

const NUMBER = "4539578763621486";

let sites;

before(async () => {
  sites = await startSites({ "/hostile": HOSTILE_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

const onHostilePage = (name, use) => test(name, () => withHostilePage(sites, name, use));

async function typeKeys(page, text) {
  for (const key of text) {
    await page.keyboard.press(key);
    await page.waitForTimeout(40);
  }
}

// --- Pieces of a number ---

test("control: first digits of each piece of a number are the whole number", () => {
  const pieces = [NUMBER.slice(0, 6), NUMBER.slice(6, 12), NUMBER.slice(12)];
  assert.equal(pieces.join(""), NUMBER);
});

// What the page does with the field that got a piece, and with the two other ones.
const DIVISIONS = {
  "empties the field": ({ a }) => a.clear(),
  "sets an empty value": ({ a }) => a.update({ value: (window.round = (window.round ?? 0) + 1) % 2 ? " " : "" }),
  "shows an empty field": ({ a, c }) => a.setValueRef(c),
  "moves the focus to another field": ({ b, c }) => (window.moved ? c : b).focus(window.moved = true),
};

for (const [name, act] of Object.entries(DIVISIONS)) {
  onHostilePage(`page that ${name} gets the first digits of one piece`, async (page, input) => {
    await page.evaluate(async (act) => {
      for (const id of ["a", "b", "c"]) await window.addField(id, "cardNumber", { validateOnChange: true });
      window.reports = [];
      window.onFieldChange = (id, { type, targetId, ...report }) => {
        window.reports.push(report);
        if (!report.empty && report.complete === false) window.typed = (window.typed ?? 0) + 1;
        if (report.cardBin === undefined && window.reports.length < 200 && !window.always) return;
        window.always = true;
        window.eval(`(${act})`)(window.fields);
      };
    }, String(act));
    await input("a").click();
    await typeKeys(page, NUMBER);
    await page.waitForTimeout(200);
    const reports = await page.evaluate(() => window.reports);
    const bins = new Set(reports.flatMap((it) => it.cardBin ?? []));
    assert.deepEqual([...bins], [NUMBER.slice(0, 6)], JSON.stringify(reports));
    assert.deepEqual(reports.flatMap((it) => it.cardLast4 ?? []), []);
    const brands = reports.flatMap((it) => it.cardBrand ?? []).filter((it) => it !== "unknown");
    assert.deepEqual([...new Set(brands)], ["visa"], "the brand of the first piece only");
  });
}

onHostilePage("options that decide what is tested do not change", async (page, input) => {
  await page.evaluate(() => window.addField("number", "cardNumber", { validateOnChange: true }));
  await page.evaluate(() => window.addField("date", "cardExpirationDate", { validateOnChange: true }));
  await input("number").click();
  await page.keyboard.type("4539");
  await input("date").click();
  await page.keyboard.type("1219");
  await page.waitForFunction(() => window.changes.date.at(-1)?.errors?.length === 1);
  const [before, after] = await page.evaluate(async () => {
    const counts = () => [window.changes.number.length, window.changes.date.length];
    const before = counts();
    for (const type of ["visa", "mastercard"]) window.fields.number.update({ cardTypes: [{ type }] });
    window.fields.number.update({ skipLuhnValidation: true });
    for (let year = 0; year < 20; year += 1) window.fields.date.update({ maxElapsedExpirationYear: year });
    await window.wait(200);
    return [before, counts()];
  });
  assert.deepEqual(after, before);
});

onHostilePage("date that the page began tells nothing, also by its height", async (page, input) => {
  const style = { complete: { padding: "40px" }, invalid: { padding: "60px" } };
  // The years 0 to 9 of this decade: some are past, some are not.
  const start = `12/${String(new Date().getFullYear()).slice(2, 3)}`;
  await page.evaluate(({ style, start }) => window.addField("date", "cardExpirationDate", { value: start, style, validateOnChange: true }), { style, start });
  const height = () => page.evaluate(() => window.frameOf("date").clientHeight);
  await page.waitForTimeout(200);
  const results = [];
  for (const key of "0259") {
    await input("date").click();
    await page.keyboard.press("End");
    await page.keyboard.press(key);
    await page.waitForTimeout(150);
    const last = await page.evaluate(() => JSON.stringify(window.changes.date.at(-1)));
    results.push(`${last} ${await height()}`);
    await page.evaluate(() => window.fields.date.update({ value: "" }));
    await page.evaluate((start) => window.fields.date.update({ value: start }), start);
    await page.waitForTimeout(100);
  }
  assert.equal(new Set(results).size, 1, results.join("\n"));
});

// --- Texts ---

onHostilePage("mask of the page tells nothing about a text that the page divides", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("text", "text", { mask: [/[0-4]/] });
    window.onFieldChange = (_, { empty }) => !empty && ((window.accepted = (window.accepted ?? 0) + 1), window.fields.text.clear());
  });
  const bits = [];
  await input("text").click();
  for (const key of NUMBER) {
    await page.evaluate(() => (window.accepted = 0));
    await page.keyboard.press(key);
    await page.waitForTimeout(60);
    bits.push((await page.evaluate(() => window.accepted)) > 0);
  }
  // The first key is the one text of the payer that the mask is made for.
  assert.equal(bits[0], true, "control: the mask accepts the first key");
  assert.deepEqual([...new Set(bits.slice(1))], [true], `every later key is accepted, whatever it is: ${bits}`);
});

// The page learns which half a key is in from what the vault accepts.
const HALF = { transform: "^.*[a-m]$" };

onHostilePage("transform of the page needs an action in each field", async (page, input) => {
  await page.evaluate(async (source) => {
    for (let at = 0; at < 4; at += 1) await window.addField(`t${at}`, "text", { transform: [new RegExp(source), ""] });
    window.results = [];
  }, HALF.transform);
  await input("t0").click();
  for (let at = 0; at < 4; at += 1) {
    await page.keyboard.press("abyz"[at]);
    const kind = await page.evaluate(async (at) => {
      await window.wait(60);
      const { kind } = await window.outcome(window.elements.tokens.create({ type: "token", data: window.fields[`t${at}`] }));
      window.fields[`t${at + 1}`]?.focus();
      await window.wait(60);
      return kind;
    }, at);
    assert.equal(kind === "answer", at === 0, `field ${at}: ${kind}`);
  }
});

onHostilePage("text that is still composed is not sent", async (page, input) => {
  await page.evaluate(() => window.addField("text", "text"));
  const send = () => page.evaluate(() => window.outcome(window.elements.tokens.create({ type: "token", data: window.fields.text })));
  await input("text").click();
  await page.keyboard.type("ordinary");
  assert.equal((await send()).kind, "answer", "control: a typed text is sent");
  const handle = await page.locator("#text iframe").elementHandle();
  const session = await page.context().newCDPSession(await handle.contentFrame());
  const version = () => input("text").evaluate(async () => (await window.scripField.read()).version);
  const versions = [await version()];
  for (const text of ["j", "ja", "jan"]) {
    await session.send("Input.imeSetComposition", { text, selectionStart: text.length, selectionEnd: text.length });
    assert.notEqual((await send()).kind, "answer", text);
    versions.push(await version());
  }
  assert.equal(new Set(versions).size, 4, "each text has a version of its own");
  await session.send("Input.insertText", { text: "jane" });
  assert.equal((await send()).kind, "answer", "the finished text is sent");
});

onHostilePage("encrypted text has one size", async (page, input) => {
  const { body: key } = await sites.vault.send("management", "POST", "/keys", {});
  await page.evaluate(() => window.addField("text", "text"));
  const size = (data) =>
    page.evaluate(
      async ({ key, data }) => {
        const tokenRequests = { type: "token", data: data ?? window.fields.text };
        const answer = await window.elements.tokens.encrypt({ tokenRequests, publicKeyPem: key.public_key_pem, keyId: key.key_id });
        return answer.encrypted.length;
      },
      { key, data },
    );
  assert.notEqual(await size("a"), await size("abcdef"), "control: the size of a text of the page");
  await input("text").click();
  const sizes = [];
  for (const keys of ["a", "bcd", "efghijklmnop"]) {
    await page.keyboard.type(keys);
    await page.waitForTimeout(60);
    sizes.push(await size());
  }
  assert.equal(new Set(sizes).size, 1, sizes.join(" "));
});

// --- Joined with a value of the page or of the vault ---

onHostilePage("number that the page began is not sent", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("source", "cardNumber", { value: "453957876362148" });
    await window.addField("number", "cardNumber");
    await window.addField("own", "cardNumber", { value: "4539578763621486" });
  });
  const send = (id) =>
    page.evaluate((id) => {
      const data = { number: window.fields[id], expiration_month: 12, expiration_year: 2030 };
      return window.outcome(window.elements.tokens.create({ type: "card", data }));
    }, id);
  assert.equal((await send("own")).kind, "answer", "control: a whole number of the page");
  for (const key of "67") {
    await page.evaluate(() => window.fields.number.setValueRef(window.fields.source));
    await page.waitForTimeout(400);
    await input("number").click();
    await page.keyboard.press("End");
    await page.keyboard.press(key);
    assert.match((await send("number")).kind, /Validation/, key);
  }
});

onHostilePage("number next to a date of the vault is used at one length", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("card", "card");
    const data = { number: "4242424242424242", expiration_month: 12, expiration_year: 2030, cvc: "123" };
    const token = await window.elements.tokens.create({ type: "card", data });
    window.fields.card.setValue({ expiration_month: token.data.expiration_month, expiration_year: token.data.expiration_year, cvc: token.data.cvc });
    await window.wait(300);
  });
  await input("card").click();
  // Correct checksums at twelve and at sixteen digits.
  const lengths = [];
  for (const [at, key] of [..."4539578763126213"].entries()) {
    await page.keyboard.press(key);
    if (at < 11) continue;
    const { kind, value } = await page.evaluate(() => window.outcome(window.elements.tokenIntents.create({ type: "card", data: window.fields.card })));
    // The vault refuses the references, which a public key cannot read. What counts is that it was asked.
    if (!/Validation/.test(kind)) lengths.push(at + 1);
    assert.equal(value?.card?.last4, undefined, `${at + 1} digits`);
  }
  assert.deepEqual(lengths, [16]);
});

onHostilePage("copy button copies nothing that was typed", async (page, input) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.evaluate(async () => {
    await window.addField("code", "cardVerificationCode");
    await window.addField("given", "cardVerificationCode", { value: "111" });
    await window.addField("pay", "copyButton", { text: "Pay" });
  });
  await input("code").click();
  await page.keyboard.type("987");
  const copy = async (id) => {
    await page.evaluate((id) => (navigator.clipboard.writeText("before"), window.fields.pay.setValueRef(window.fields[id])), id);
    await page.waitForTimeout(400);
    await page.frameLocator("#pay iframe").locator("button").click();
    await page.waitForTimeout(300);
    await page.locator("#own").click();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  assert.equal(await copy("given"), "111", "control: a value of the page");
  assert.equal(await copy("code"), "before");
});

// --- Calls ---

onHostilePage("value is no part of an expression of the page", async (page, input) => {
  const proxy = { name: "p", destination_url: sites.vault.provider ?? "https://provider.example", require_auth: true };
  const { body } = await sites.vault.send("management", "POST", "/proxies", proxy);
  const { nonce, session } = await page.evaluate(() => window.elements.sessions.create({ keepInFrame: true }));
  await authorize(sites.vault, nonce, { permissions: ["token:use", "proxy:invoke"].slice(1) });
  await page.evaluate(() => Promise.all([window.addField("code", "cardVerificationCode"), window.addField("text", "text")]));
  await input("code").click();
  await page.keyboard.type("987");
  await input("text").click();
  await page.keyboard.type("{{ ! }}");
  const send = (headers, id) =>
    page.evaluate(
      ({ headers, id, session }) => window.outcome(window.elements.proxy.post({ session, headers, body: { v: window.fields[id] } }, { session })),
      { headers: { "BT-PROXY-KEY": body.key, ...headers }, id, session },
    );
  for (const headers of [{ "Content-Type": "text/plain" }, { "content-type": "text/html" }, { "Content-Encoding": "gzip" }]) {
    const { kind, message } = await send(headers, "code");
    assert.match(`${kind} ${message}`, /Validation.*application\/json/, JSON.stringify(headers));
  }
  assert.doesNotMatch((await send({ "Content-Type": "application/json" }, "code")).kind, /Validation/, "control: JSON is sent");
  const { kind, message } = await send({}, "text");
  assert.match(`${kind} ${message}`, /Validation.*beginning of an expression/);
});

onHostilePage("page does not choose the container of a card that was typed", async (page, input) => {
  const { nonce, sessionKey } = await page.evaluate(() => window.elements.sessions.create());
  const rule = { description: "texts", priority: 1, container: "/general/", transform: "reveal", permissions: ["token:read"] };
  await authorize(sites.vault, nonce, { rules: [rule] });
  await page.evaluate(() => Promise.all([window.addField("card", "card"), window.addField("number", "cardNumber")]));
  for (const id of ["card", "number"]) await input(id).click().then(() => page.keyboard.type(NUMBER));
  await input("card").click();
  await page.frameLocator("#card iframe").locator(".part-expiration input").click();
  await page.keyboard.type("1230987");
  const read = (source) =>
    page.evaluate(
      async ({ source, sessionKey }) => {
        const { kind, value } = await window.outcome(window.eval(`(${source})`)(window.elements, window.fields));
        if (kind !== "answer") return kind;
        const { status } = await fetch(`https://vault.test/api/tokens/${value.id}`, { headers: { "BT-API-KEY": sessionKey } });
        return `read ${status}`;
      },
      { source: String(source), sessionKey },
    );
  assert.equal(await read((it) => it.tokens.create({ type: "token", data: "own" })), "read 200", "control: a text of the page");
  assert.match(await read((it, { card }) => it.tokens.create({ type: "card", data: card, containers: ["/general/high/"] })), /403/);
  assert.match(await read((it, { card }) => it.tokens.create({ type: "card", data: card })), /^read 40[34]/);
  assert.match(await read((it, { number }) => it.tokens.create({ type: "token", data: { n: number } })), /^read 40[34]/);
  assert.match(await read((it, { number }) => it.tokens.create({ type: "token", data: { n: number }, containers: ["/general/high/"] })), /Validation/);
  const converted = async (it, { card }) => {
    const { id } = await it.tokenIntents.create({ type: "card", data: card });
    return it.tokens.create({ tokenIntentId: id, containers: ["/general/high/"] });
  };
  assert.match(await read(converted), /403/);
});

// --- Honest pages ---

onHostilePage("honest flows keep their reports and answers", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("number", "cardNumber");
    await window.addField("date", "cardExpirationDate");
    await window.addField("name", "text", { value: "Jane Do" });
    // Many pages move the focus on when the number is complete.
    window.onFieldChange = (id, { complete }) => id === "number" && complete && window.fields.date.focus();
  });
  await input("number").click();
  await page.keyboard.type("453957");
  await page.waitForFunction(() => window.fields.number.cardMetadata.cardBin === "453957");
  await page.keyboard.press("Backspace");
  await page.keyboard.type(NUMBER.slice(5), { delay: 10 });
  await page.waitForFunction(() => window.changes.number.at(-1).complete);
  await page.waitForFunction(() => document.activeElement === window.frameOf("date"));
  await page.keyboard.type("1230", { delay: 20 });
  await page.waitForFunction(() => window.changes.date.at(-1)?.complete);
  await input("name").click();
  await page.keyboard.press("End");
  await page.keyboard.type("e");
  await page.waitForFunction(() => window.fields.number.cardMetadata.cardLast4 === "1486");
  const [card, name] = await page.evaluate(async () => {
    const { number, date, name } = window.fields;
    const data = { number, expiration_month: date.month(), expiration_year: date.year() };
    const { elements, outcome } = window;
    return [await outcome(elements.tokens.create({ type: "card", data })), await outcome(elements.tokens.create({ type: "token", data: name }))];
  });
  assert.deepEqual([card.value?.card?.last4, card.value?.card?.expirationMonth], ["1486", 12], JSON.stringify(card));
  assert.equal(name.kind, "answer", JSON.stringify(name));
});

onHostilePage("number in a field that the page focused is complete, without its digits", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("number", "cardNumber");
    window.fields.number.focus();
  });
  await input("number").and(page.frameLocator("#number iframe").locator("input:focus")).waitFor();
  await page.keyboard.type(NUMBER, { delay: 10 });
  await page.waitForFunction(() => window.changes.number.at(-1)?.complete === true);
  assert.deepEqual(await page.evaluate(() => window.fields.number.cardMetadata), { cardBrand: "unknown" });
});
