// A hostile page moves the focus, drops keys, or looks at its own scroll position while a payer types.
// For each probe, a control shows that it works on an ordinary input, or that an honest page gets its report.

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

// Everything that the page got about digits of a number.
const learned = (page, id) =>
  page.evaluate((id) => window.changes[id].flatMap(({ cardBin, cardLast4, cardBrand }) => [cardBin, cardLast4, cardBrand]), id);
const tells = (list) => list.filter((it) => it !== undefined && it !== "unknown");

const createCard = (page, source) =>
  page.evaluate((source) => window.outcome(window.elements.tokenIntents.create({ type: "card", data: window.eval(`(${source})`)(window.fields) })), String(source));

// --- Keys that do not reach the field ---

// The page lets keys pass at the beginning and at the end, and takes the others.
const TAKERS = {
  "locks the field": [(it) => it.update({ readOnly: true }), (it) => it.update({ readOnly: false })],
  "disables the field": [(it) => it.update({ disabled: true }), (it) => (it.update({ disabled: false }), it.focus())],
  "moves the focus to another field": [(_, other) => other.focus(), (it) => it.focus()],
  "takes the focus": [() => document.getElementById("own").focus(), (it) => it.focus()],
};

for (const [name, [take, release]] of Object.entries(TAKERS)) {
  onHostilePage(`page that ${name} between two keys gets no digits after them`, async (page, input) => {
    await page.evaluate(() => Promise.all([window.addField("a", "cardNumber"), window.addField("b", "cardNumber")]));
    const run = (act) => page.evaluate((act) => window.eval(`(${act})`)(window.fields.a, window.fields.b), String(act));
    await input("a").click();
    await typeKeys(page, NUMBER.slice(0, 3));
    await run(take);
    await page.waitForTimeout(100);
    await typeKeys(page, NUMBER.slice(3, 9));
    await run(release);
    await page.waitForTimeout(100);
    await typeKeys(page, NUMBER.slice(9, 12));
    await page.waitForTimeout(100);
    assert.match(await input("a").inputValue(), /^4533 ?62$/, "control: the field has pieces of the number");
    assert.equal((await learned(page, "a")).some((it) => it === "453362"), false);
    assert.deepEqual(tells(await learned(page, "b")), []);
    const last = await page.evaluate(() => window.changes.a.at(-1));
    assert.deepEqual(Object.keys(last).sort(), ["complete", "empty", "type"]);
  });
}

onHostilePage("page that opens a locked field gets no digits from the middle of a number", async (page, input) => {
  await page.evaluate(() => window.addField("a", "cardNumber", { readOnly: true }));
  await input("a").click();
  await typeKeys(page, NUMBER.slice(0, 10));
  await page.evaluate(() => window.fields.a.update({ readOnly: false }));
  await page.waitForTimeout(100);
  await typeKeys(page, NUMBER.slice(10));
  await page.waitForTimeout(100);
  assert.equal((await input("a").inputValue()).replaceAll(" ", ""), NUMBER.slice(10), "control: the field has the end of the number");
  assert.deepEqual(tells(await learned(page, "a")), []);
  // The payer begins again, and the page gets what it may get.
  await input("a").click();
  await page.keyboard.press("ControlOrMeta+a");
  await typeKeys(page, NUMBER);
  await page.locator("#own").click();
  await page.waitForFunction(() => window.fields.a.cardMetadata.cardLast4 === "1486");
  assert.equal(await page.evaluate(() => window.fields.a.cardMetadata.cardBin), NUMBER.slice(0, 8));
});

onHostilePage("payer who presses Tab does not arrive where the page moves the focus", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("number", "cardNumber");
    const stop = document.createElement("input");
    document.body.append(stop);
    await window.addField("trap", "cardNumber");
    stop.addEventListener("focus", () => window.fields.trap.focus());
    await window.addField("honest", "cardNumber");
  });
  const pressTab = async () => {
    await page.keyboard.down("Tab");
    await page.waitForTimeout(60);
    await page.keyboard.up("Tab");
    await page.waitForTimeout(60);
  };
  await input("number").click();
  await typeKeys(page, NUMBER);
  await pressTab();
  // The payer types a date and a security code.
  await typeKeys(page, "1230987");
  assert.equal((await input("trap").inputValue()).replaceAll(" ", ""), "1230987", "control: the keys are in the trap");
  assert.deepEqual(tells(await learned(page, "trap")), []);
  // Control: a click into a field is an action of the payer.
  await input("honest").click();
  await typeKeys(page, NUMBER);
  await page.waitForFunction(() => window.fields.honest.cardMetadata.cardBin === "45395787");
});

// --- Focus that the page moves ---

onHostilePage("number that the page focuses has neither first nor last digits, also in answers", async (page, input) => {
  await page.evaluate(() => window.addField("number", "cardNumber"));
  await page.evaluate(() => window.fields.number.focus());
  await page.waitForTimeout(100);
  await typeKeys(page, NUMBER);
  await page.locator("#own").click();
  await page.waitForFunction(() => window.changes.number.at(-1)?.complete === true);
  assert.deepEqual(tells(await learned(page, "number")), []);
  const source = ({ number }) => ({ number, expiration_month: 12, expiration_year: 2030 });
  const { kind, value } = await createCard(page, source);
  assert.deepEqual([kind, value.card, value.fingerprint], ["answer", undefined, undefined], "the card is stored, and not shown");
  // Control: the payer presses into the field.
  await input("number").click();
  await page.keyboard.press("ControlOrMeta+a");
  await typeKeys(page, NUMBER);
  await page.locator("#own").click();
  assert.equal((await createCard(page, source)).value.card.last4, "1486");
});

onHostilePage("security code that the page leads into a date is not shown as a date", async (page, input) => {
  const types = { number: "cardNumber", date: "cardExpirationDate", code: "cardVerificationCode" };
  await page.evaluate((types) => Promise.all(Object.entries(types).map(([id, type]) => window.addField(id, type))), types);
  const source = ({ number, date }) => ({ number, expiration_month: date.month(), expiration_year: date.year() });
  await input("number").click();
  await typeKeys(page, NUMBER);
  await input("code").click();
  await page.evaluate(() => window.fields.date.focus());
  await page.waitForTimeout(80);
  await typeKeys(page, "931");
  assert.equal(await input("date").inputValue(), "09 / 31", "control: the code is in the date");
  const { kind, value } = await createCard(page, source);
  assert.deepEqual([kind, value?.card], ["answer", undefined]);
  assert.deepEqual(Object.keys(await page.evaluate(() => window.changes.date.at(-1))).sort(), ["complete", "empty", "type"]);
});

onHostilePage("focus inside a card tells nothing about a number that the page began", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("card", "card");
    window.focused = [];
    window.fields.card.on("focus", ({ targetId }) => window.focused.push(targetId));
  });
  const results = [];
  for (const key of "5678") {
    await page.evaluate(() => {
      window.fields.card.update({ value: { number: "4" } });
      window.fields.card.update({ value: { number: "453957876362148" } });
    });
    await page.waitForTimeout(80);
    await input("card").click();
    await page.keyboard.press("End");
    await page.evaluate(() => (window.focused.length = 0));
    await page.keyboard.press(key);
    await page.waitForTimeout(100);
    results.push(JSON.stringify(await page.evaluate(() => window.focused)));
  }
  assert.deepEqual([...new Set(results)], ["[]"]);
  // Control: a number that the payer types moves the focus on.
  await page.evaluate(() => window.fields.card.clear());
  await input("card").click();
  await typeKeys(page, NUMBER);
  await page.waitForFunction(() => window.focused.includes("cardExpirationDate"));
});

// --- Layout ---

// A strip of a wide frame. The browser scrolls the page's own box to the caret.
const STRIP = { width: "20px", height: "90px", overflow: "auto", whiteSpace: "nowrap" };
const WIDE = { width: "4000px", fontSize: "40px", fontFamily: "serif", letterSpacing: "300px" };

// Moves of the caret and commands of a keyboard. Some browsers scroll to the caret after each of them.
const MOVES = ["Control+ArrowDown", "Control+Shift+ArrowDown", "Control+ArrowRight", "Control+Shift+ArrowRight", "Control+End", "PageDown"];
const COMMANDS = ["transpose", "yank"];

onHostilePage("scroll position of the page tells nothing about a text when the caret moves", async (page, input) => {
  const session = await page.context().newCDPSession(page);
  const scrolls = async (place) => {
    const list = [];
    const pressAt = async (start, press) => {
      await page.keyboard.press(start);
      await page.evaluate((place) => (document.querySelector(place).scrollLeft = 0), place);
      await press();
      await page.waitForTimeout(120);
      list.push(await page.evaluate((place) => document.querySelector(place).scrollLeft, place));
    };
    for (const key of MOVES) await pressAt("Home", () => page.keyboard.press(key));
    for (const command of COMMANDS) {
      await pressAt("End", async () => {
        await session.send("Input.dispatchKeyEvent", { type: "rawKeyDown", key: "F13", code: "F13", commands: [command] });
        await session.send("Input.dispatchKeyEvent", { type: "keyUp", key: "F13", code: "F13" });
      });
    }
    return list;
  };
  const text = "wwwwwwwwww wwwwwwwww";
  await page.evaluate(
    async ({ STRIP, WIDE }) => {
      const box = Object.assign(document.createElement("div"), { id: "ordinary" });
      const own = document.createElement("input");
      Object.assign(box.style, STRIP);
      Object.assign(own.style, WIDE);
      box.append(own);
      document.body.append(box);
      own.focus();
      const { width, ...base } = WIDE;
      await window.addField("text", "text", { style: { base } });
      Object.assign(document.getElementById("text").style, STRIP);
      window.frameOf("text").style.width = width;
      await window.wait(200);
    },
    { STRIP, WIDE },
  );
  await typeKeys(page, text);
  const ordinary = await scrolls("#ordinary");
  assert.ok(ordinary.filter((it) => it > 0).length >= 5, `control: an ordinary input tells its width: ${ordinary.join(" ")}`);
  await page.locator("#text").click({ position: { x: 5, y: 10 } });
  await typeKeys(page, text);
  const list = await scrolls("#text");
  assert.equal(await input("text").inputValue(), text);
  assert.deepEqual(list, list.map(() => 0));
});

onHostilePage("scroll position of the page tells nothing about typed characters", async (page, input) => {
  const scrolls = async (place) => {
    const list = [];
    for (const key of ["i", "W", ".", "Backspace", "ArrowLeft", "ArrowLeft", "End", "m"]) {
      await page.keyboard.press(key);
      await page.waitForTimeout(120);
      list.push(await page.evaluate((place) => document.querySelector(place).scrollLeft, place));
    }
    return list;
  };
  await page.evaluate(
    ({ STRIP, WIDE }) => {
      const box = document.createElement("div");
      box.id = "ordinary";
      const input = document.createElement("input");
      Object.assign(box.style, STRIP);
      Object.assign(input.style, WIDE);
      box.append(input);
      document.body.append(box);
      input.focus();
    },
    { STRIP, WIDE },
  );
  assert.ok(new Set(await scrolls("#ordinary")).size > 4, "control: an ordinary input tells the width of each character");
  await page.evaluate(
    async ({ STRIP, WIDE }) => {
      const { width, ...base } = WIDE;
      await window.addField("text", "text", { style: { base } });
      Object.assign(document.getElementById("text").style, STRIP);
      window.frameOf("text").style.width = width;
      await window.wait(200);
    },
    { STRIP, WIDE },
  );
  await page.locator("#text").click({ position: { x: 5, y: 10 } });
  const list = await scrolls("#text");
  assert.equal(await input("text").inputValue(), "iWm");
  assert.equal(new Set(list).size, 1, list.join(" "));
  // The page takes the focus and gives it back, so that the browser looks for the caret.
  const returns = [];
  for (const key of ["i", "W", "m"]) {
    await page.keyboard.press(key);
    await page.evaluate(async () => {
      document.getElementById("own").focus();
      await window.wait(60);
      window.fields.text.focus();
      await window.wait(120);
    });
    returns.push(await page.evaluate(() => document.getElementById("text").scrollLeft));
  }
  assert.equal(new Set(returns).size, 1, returns.join(" "));
  // Each option that a page can change, while the payer is in the field.
  const changes = [{ password: true }, { password: false }, { dir: "rtl" }, { dir: "ltr" }, { placeholder: "x" }, { inputMode: "numeric" }];
  const positions = await page.evaluate(async (changes) => {
    const box = document.getElementById("text");
    const list = [];
    for (const change of changes) {
      box.scrollLeft = 2000;
      window.fields.text.update(change);
      await window.wait(150);
      list.push(box.scrollLeft);
    }
    return list;
  }, changes);
  assert.equal(new Set(positions).size, 1, positions.join(" "));
});

// --- Updates of tokens ---

onHostilePage("page cannot read a token into which a field writes", async (page, input) => {
  const { body: own } = await sites.vault.send("public", "POST", "/tokens", { type: "token", data: { cvc: "x" }, mask: "{{ data.cvc }}" });
  const card = { type: "card", data: { number: "4242424242424242", expiration_month: 12, expiration_year: 2030 } };
  const { body: saved } = await sites.vault.send("private", "POST", "/tokens", card);
  await page.evaluate(() => window.addField("code", "cardVerificationCode"));
  await input("code").click();
  await page.keyboard.type("987");
  const session = async (permissions, transform) => {
    const { nonce, sessionKey } = await page.evaluate(() => window.elements.sessions.create());
    const rules = [{ description: "page", priority: 1, container: "/", transform, permissions }];
    await authorize(sites.vault, nonce, { rules });
    return sessionKey;
  };
  const update = (id, apiKey) =>
    page.evaluate(({ id, apiKey }) => window.outcome(window.elements.tokens.update(id, { data: { cvc: window.fields.code } }, { apiKey })), { id, apiKey });
  const read = async (id, key) => {
    const get = ([id, key]) => fetch(`https://vault.test/api/tokens/${id}`, { headers: { "BT-API-KEY": key } }).then((it) => it.text());
    return page.evaluate(get, [id, key]);
  };
  const reader = await session(["token:read", "token:update"], "reveal");
  const { kind, message } = await update(saved.id, reader);
  assert.match(`${kind} ${message}`, /403.*may read the token/);
  assert.match(await read(saved.id, reader), /4242424242424242/, "control: this session reads the card");
  const masked = await session(["token:read", "token:update"], "mask");
  assert.equal((await update(own.id, masked)).kind, "answer");
  assert.doesNotMatch(await read(own.id, masked), /987/, "a mask of the page shows nothing");
  assert.equal((await update(saved.id, await session(["token:update"], "mask"))).kind, "answer", "control: a session without a right to read");
});
