// A hostile page watches a payer type: it takes and returns the focus, stores what is there after each key, sets values,
// and measures times. For each probe, a control shows that it works on an ordinary input.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { HOSTILE_PAGE, withHostilePage } from "./hostile-page.js";
import { startSites } from "./sites.js";

const VISA = "4242424242424242";
// A Maestro number with a correct checksum at every length from 12 to 19.
const MAESTRO = chainNumber("675964982643", 19);

function passesLuhn(digits) {
  const sum = [...digits].reverse().reduce((total, digit, index) => {
    const doubled = Number(digit) * (index % 2 === 0 ? 1 : 2);
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}

function chainNumber(start, length) {
  let digits = start.slice(0, 11);
  while (digits.length < length) digits += [..."0123456789"].find((it) => passesLuhn(digits + it));
  return digits;
}

let sites;

before(async () => {
  sites = await startSites({ "/hostile": HOSTILE_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

const onHostilePage = (name, use) => test(name, () => withHostilePage(sites, name, use));

// What the page knows of a number: digits by their position from the front.
function knownDigits(reports) {
  const known = new Set();
  for (const { cardLast4, cardBin, length } of reports) {
    for (let at = 0; at < (cardBin?.length ?? 0); at += 1) known.add(at);
    if (cardLast4 !== undefined) for (let at = length - 4; at < length; at += 1) known.add(at);
  }
  return known.size;
}

// Types a number key by key. After each key the page acts, and gets whatever the field reports then.
async function watchNumber(page, input, options, act, keys = [...MAESTRO]) {
  await page.evaluate((options) => window.addField("number", "cardNumber", options), options);
  const reports = [];
  let length = 0;
  await input("number").click();
  for (const key of keys) {
    // The page may not have returned the focus yet.
    await input("number").focus();
    await page.keyboard.press(key);
    length += key === "Backspace" ? -1 : 1;
    const report = await page.evaluate(act);
    reports.push({ ...report, length });
  }
  return reports;
}

// The page takes the focus and gives it back.
async function stealFocus() {
  const element = window.fields.number;
  await window.wait(30);
  element.blur();
  document.getElementById("own").focus();
  await window.wait(30);
  const report = { ...element.cardMetadata };
  element.focus();
  await window.wait(60);
  return report;
}

// The page creates an intent with the number, and reads the vault's answer.
async function createIntent() {
  await window.wait(30);
  const data = { number: window.fields.number, expiration_month: 12, expiration_year: 2030 };
  const { value } = await window.outcome(window.elements.tokenIntents.create({ type: "card", data }));
  return { cardLast4: value?.card?.last4 };
}

test("control: last digits at every length of an ordinary input are the whole number", () => {
  const reports = Array.from({ length: 8 }, (_, index) => ({ cardBin: MAESTRO.slice(0, 8), cardLast4: "x", length: 12 + index }));
  assert.equal(knownDigits(reports), 19);
});

for (const options of [{}, { skipLuhnValidation: true }]) {
  const name = JSON.stringify(options);
  onHostilePage(`last digits are not reported when the page takes the focus between two keys ${name}`, async (page, input) => {
    const reports = await watchNumber(page, input, options, stealFocus);
    // On a busy machine the last report may come after the probe.
    await page.evaluate(() => document.getElementById("own").focus());
    await page.waitForFunction(() => window.changes.number.at(-1)?.empty === false);
    await page.waitForTimeout(200);
    const last4 = await page.evaluate(() => window.changes.number.flatMap((it) => it.cardLast4 ?? []));
    assert.deepEqual(last4, []);
    assert.equal(knownDigits(reports), 0, JSON.stringify(reports));
  });

  onHostilePage(`last digits come from the vault at one length ${name}`, async (page, input) => {
    const reports = await watchNumber(page, input, options, createIntent);
    const lengths = reports.filter((it) => it.cardLast4 !== undefined).map((it) => it.length);
    assert.equal(new Set(lengths).size, 1, JSON.stringify(reports));
  });
}

onHostilePage("call in the middle of typing does not tell the last digits of a beginning", async (page, input) => {
  const reports = await watchNumber(page, input, {}, createIntent, [...MAESTRO.slice(0, 15)]);
  assert.deepEqual(reports.flatMap((it) => it.cardLast4 ?? []), []);
  await page.keyboard.press("Tab");
  const { cardLast4 } = await page.evaluate(createIntent);
  assert.equal(cardLast4, MAESTRO.slice(11, 15), "control: the payer finished the number");
});

onHostilePage("number that is deleted digit by digit is used at one length", async (page, input) => {
  const keys = [...MAESTRO, ...Array(7).fill("Backspace")];
  const act = `(${createIntent})().then((it) => (window.fields.number.cardMetadata.cardLast4, it))`;
  const acting = `window.digits = (window.digits ?? 0) + 1, window.digits < 19 ? {} : ${act}`;
  const reports = await watchNumber(page, input, { skipLuhnValidation: true }, acting, keys);
  const lengths = reports.filter((it) => it.cardLast4 !== undefined).map((it) => it.length);
  assert.deepEqual([...new Set(lengths)], [19], JSON.stringify(reports));
});

onHostilePage("field that copies a number gives it at one length", async (page, input) => {
  await page.evaluate(() => window.addField("copy", "cardNumber", {}));
  const reports = await watchNumber(page, input, { skipLuhnValidation: true }, async () => {
    const { number, copy } = window.fields;
    copy.clear();
    copy.setValueRef(number);
    await window.wait(100);
    const data = { number: copy, expiration_month: 12, expiration_year: 2030 };
    const { value } = await window.outcome(window.elements.tokenIntents.create({ type: "card", data }));
    return { cardLast4: value?.card?.last4 };
  });
  const lengths = reports.filter((it) => it.cardLast4 !== undefined).map((it) => it.length);
  assert.ok(new Set(lengths).size <= 1, JSON.stringify(reports));
});

onHostilePage("digits that a payer adds to a value of the page are not reported", async (page, input) => {
  const learned = [];
  await page.evaluate(() => window.addField("number", "cardNumber", { skipLuhnValidation: true }));
  // The payer types, and the page puts twelve digits before each group of four.
  for (const group of ["4111", "2222", "3333", "4444"]) {
    await page.evaluate(() => window.fields.number.update({ value: "675900000000" }));
    await page.waitForTimeout(60);
    await input("number").press("End");
    for (const key of group) await page.keyboard.press(key);
    const answer = await page.evaluate(async () => {
      const { number } = window.fields;
      document.getElementById("own").focus();
      await window.wait(60);
      const data = { number, expiration_month: 12, expiration_year: 2030 };
      const { value } = await window.outcome(window.elements.tokenIntents.create({ type: "card", data }));
      const keys = Object.keys(window.changes.number.at(-1)).filter((it) => it !== "type").sort();
      const learned = [number.cardMetadata.cardLast4, value?.card?.last4].filter((it) => it !== undefined);
      number.update({ value: "" });
      return { keys, learned };
    });
    learned.push(...answer.learned);
    assert.deepEqual(answer.keys, ["complete", "empty"]);
  }
  assert.deepEqual(learned, []);
});

onHostilePage("ordinary number has its last digits when the payer leaves the field", async (page, input) => {
  await page.evaluate(() => window.addField("number", "cardNumber", {}));
  await input("number").pressSequentially(VISA);
  await page.locator("#own").click();
  await page.waitForFunction(() => window.fields.number.cardMetadata.cardLast4 === "4242");
  // A payer who replaces the whole number, also by another length, gets a new report.
  await input("number").click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("378282246310005");
  await page.waitForFunction(() => window.fields.number.cardMetadata.cardLast4 === "0005");
});

// --- One bit per key ---

const TYPED = "kbdzaymc";
const FIRST_HALF = "[a-m]$";

onHostilePage("validation of the page is reported once until the payer acts in the field", async (page, input) => {
  const bits = [...TYPED].map((it) => new RegExp(FIRST_HALF).test(it));
  // Control: an ordinary input gives one bit for each key.
  await page.locator("#own").focus();
  const ordinary = [];
  for (const key of TYPED) {
    await page.keyboard.press(key);
    ordinary.push(await page.evaluate((it) => new RegExp(it).test(document.getElementById("own").value), FIRST_HALF));
  }
  assert.deepEqual(ordinary, bits);
  await page.evaluate((it) => window.addField("text", "text", { validation: new RegExp(it), validateOnChange: true }), FIRST_HALF);
  await input("text").click();
  const results = [];
  for (const key of TYPED) {
    await page.keyboard.press(key);
    results.push(
      await page.evaluate(async () => {
        const { text } = window.fields;
        await window.wait(30);
        document.getElementById("own").focus();
        text.focus();
        text.validate();
        await window.wait(200);
        const call = await window.outcome(window.elements.tokens.create({ type: "token", data: text }));
        return JSON.stringify([text.metadata.valid, text.metadata.errors, call.kind, window.frameOf("text").clientHeight]);
      }),
    );
  }
  assert.equal(new Set(results).size, 1, results.join("\n"));
  // An honest page gets the result when the payer leaves the field with Tab, or returns to it.
  await input("text").press("End");
  await page.keyboard.press("z");
  await page.keyboard.press("Tab");
  await page.waitForFunction(() => window.fields.text.metadata.valid === false);
  await input("text").click();
  await page.keyboard.press("End");
  await page.keyboard.press("a");
  await page.locator("#own").click();
  await page.waitForFunction(() => window.fields.text.metadata.valid === true);
});

onHostilePage("transform of the page tells nothing by what the vault accepts", async (page, input) => {
  const bits = [...TYPED].map((it) => new RegExp(FIRST_HALF).test(it));
  const probe = (value) => window.outcome(window.elements.tokens.create({ type: "social_security_number", data: value }));
  // Control: with an ordinary input, the vault accepts the value of each key in the first half only.
  const ordinary = [];
  for (const key of TYPED) {
    const value = key.replace(new RegExp(`^.*${FIRST_HALF}`), "123-45-6789");
    ordinary.push(await page.evaluate(`(${probe})(${JSON.stringify(value)}).then((it) => it.kind === "answer")`));
  }
  assert.deepEqual(ordinary, bits);
  await page.evaluate((it) => window.addField("text", "text", { transform: [new RegExp(`^.*${it}`), "123-45-6789"] }), FIRST_HALF);
  await input("text").click();
  const results = [];
  for (const key of TYPED) {
    await page.keyboard.press(key);
    results.push(await page.evaluate(`(${probe})(window.fields.text).then((it) => it.kind)`));
  }
  assert.equal(new Set(results.slice(1)).size, 1, results.join("\n"));
});

// --- Times ---

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
// Each place of the list doubles the steps that the pattern needs for the character q.
const SLOW_FOR_Q = `^(?:q${"(?:|)".repeat(24)}x|[^])$`;

onHostilePage("pattern of a mask does not run when the payer types", async (page, input) => {
  // Control: the page measures the pattern on an ordinary text.
  const control = await page.evaluate((source) => {
    const pattern = new RegExp(source);
    return ["q", "r"].map((it) => {
      const began = performance.now();
      pattern.test(it);
      return performance.now() - began;
    });
  }, SLOW_FOR_Q);
  assert.ok(control[0] > control[1] + 60, `the control measures ${control} ms`);
  await page.evaluate(async (source) => {
    await window.addField("text", "text", { mask: [new RegExp(source)] });
    // Time from the key, as the page sees it by its own clock, to the change.
    window.onFieldChange = () => (window.changedAt = performance.now());
  }, SLOW_FOR_Q);
  const times = { q: [], r: [] };
  await input("text").click();
  for (let round = 0; round < 5; round += 1) {
    for (const key of ["q", "r"]) {
      await page.evaluate(() => (window.changedAt = undefined));
      const began = await page.evaluate(() => performance.now());
      await page.keyboard.press(key);
      await page.waitForFunction(() => window.changedAt !== undefined, undefined, { polling: 5 });
      times[key].push((await page.evaluate(() => window.changedAt)) - began);
      await page.keyboard.press("Backspace");
      await page.waitForTimeout(50);
    }
  }
  const difference = median(times.q) - median(times.r);
  assert.ok(Math.abs(difference) < 40, `${difference} ms: ${JSON.stringify(times)}`);
});

const SLOW_TEXT = "ssssssssssssssssssssssssssss!";
const FAST_TEXT = "!sssssssssssssssssssssssssss!";

/** The times until a call with each of the two texts ends. */
async function measureTexts(page, input, options, attempt) {
  const times = [];
  for (const [at, text] of [SLOW_TEXT, FAST_TEXT].entries()) {
    const id = `text${attempt}-${at}`;
    await page.evaluate(
      ({ id, options }) => {
        const [[option, source]] = Object.entries(options);
        const pattern = new RegExp(source);
        return window.addField(id, "text", { [option]: option === "transform" ? [pattern, ""] : pattern });
      },
      { id, options },
    );
    await input(id).click();
    await input(id).fill(text);
    times.push(
      await page.evaluate(async (id) => {
        const own = document.getElementById("own");
        window.fields[id].focus();
        await window.wait(300);
        const began = performance.now();
        own.focus();
        const { kind } = await window.outcome(window.elements.tokens.create({ type: "token", data: window.fields[id] }));
        return { kind, time: performance.now() - began };
      }, id),
    );
  }
  return times;
}

for (const [name, options] of [["validation", { validation: "^(s+)+$" }], ["transform", { transform: "^(s+)+$" }]]) {
  onHostilePage(`${name} of the page takes the same time for every text`, async (page, input) => {
    const control = await page.evaluate(
      (texts) =>
        texts.map((text) => {
          const began = performance.now();
          /^(s+)+$/.test(text.slice(0, 24) + "!");
          return performance.now() - began;
        }),
      [SLOW_TEXT, FAST_TEXT],
    );
    assert.ok(control[0] > control[1] + 60, `the control measures ${control} ms`);
    // A slow machine adds time to any of the two, a leak adds seconds to one of them in each attempt.
    const attempts = [];
    for (let attempt = 0; attempt < 5; attempt += 1) {
      const times = await measureTexts(page, input, options, attempt);
      // A validation tells its result, as it should; a transform tells nothing.
      if (name === "transform") assert.deepEqual(times.map((it) => it.kind), ["answer", "answer"]);
      const [slow, fast] = times.map((it) => it.time);
      attempts.push(times);
      if (Math.abs(slow - fast) < 120) return;
    }
    assert.fail(JSON.stringify(attempts));
  });
}
