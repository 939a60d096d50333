// A hostile page starts fields so that others would not find them: with options that let the start fail, and at a second
// origin of the same vault. Then it adds a date or a number in the place of another field.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { HOSTILE_PAGE, withHostilePage } from "./hostile-page.js";
import { FIELDS, startSites } from "./sites.js";

const NUMBER = "4539578763621486";
const HIDDEN = ["complete", "empty", "type"];

let sites;

before(async () => {
  sites = await startSites({ "/hostile": HOSTILE_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

const onHostilePage = (name, use) => test(name, () => withHostilePage(sites, name, use));

async function typeKeys(page, text) {
  for (const key of text) {
    await page.keyboard.press(key);
    await page.waitForTimeout(30);
  }
}

async function pressTab(page) {
  await page.keyboard.down("Tab");
  await page.waitForTimeout(90);
  await page.keyboard.up("Tab");
  await page.waitForTimeout(80);
}

const countInputs = (page, id) => page.frameLocator(`#${id} iframe`).locator("input").count();
const addTrap = (page) => page.evaluate(() => window.addField("trap", "cardExpirationDate", { maxElapsedExpirationYear: 100 }));
const lastChange = (page, id) => page.evaluate((id) => Object.keys(window.changes[id].at(-1)).sort(), id);

// Options that structured cloning keeps, and that the start of a field cannot use.
const OPTIONS = {
  "an ordinary value": `({ value: "${NUMBER}" })`,
  "a big integer": "({ value: 1n })",
  "a value that contains itself": "(() => { const value = {}; return { value: Object.assign(value, { value }) }; })()",
  "a big integer in a style": "({ style: { base: { fontSize: 1n } } })",
  "a pattern that exists with other flags only": "({ transform: new RegExp('[\\\\p{L}--[a]]', 'v') })",
};

for (const [name, options] of Object.entries(OPTIONS)) {
  const isStarted = name === "an ordinary value";
  onHostilePage(`field whose options have ${name} ${isStarted ? "starts" : "has no input"}`, async (page, _, faults) => {
    const type = name.startsWith("a pattern") ? "text" : "cardNumber";
    await page.evaluate(`void window.addField("number", "${type}", ${options}).catch(() => {})`);
    await page.waitForTimeout(1_500);
    assert.equal((await countInputs(page, "number")) > 0, isStarted);
    assert.equal(faults.splice(0).length > 0, !isStarted, "the console says why");
  });
}

onHostilePage("field that an update ends still tells others what was typed", async (page, input, faults) => {
  await page.evaluate(() => window.addField("date", "cardExpirationDate"));
  await input("date").click();
  await typeKeys(page, "1231");
  await page.evaluate(() => window.fields.date.update({ title: "Date" }));
  await page.waitForTimeout(300);
  assert.ok((await countInputs(page, "date")) > 0, "control: an ordinary update");
  await page.evaluate(() => window.fields.date.update({ value: 1n }));
  await page.waitForTimeout(300);
  assert.equal(await countInputs(page, "date"), 0);
  assert.equal(faults.splice(0).length, 1);
  await addTrap(page);
  await page.locator("#own").click();
  await pressTab(page);
  await typeKeys(page, "737");
  await page.waitForTimeout(100);
  assert.equal(await input("trap").inputValue(), "07 / 37", "control: the code is in the trap");
  assert.deepEqual(await lastChange(page, "trap"), HIDDEN);
});

onHostilePage("fields and controller of a second port do not start", async (page, _, faults) => {
  const mount = (port) =>
    page.evaluate(async (address) => {
      delete window.BasisTheoryElements;
      await new Promise((done) => document.head.append(Object.assign(document.createElement("script"), { src: address, onload: done })));
      window.elements = await window.BasisTheoryElements.init(window.key);
      const id = `trap-${new URL(address).port}`;
      return window.addField(id, "cardExpirationDate").then(() => "started", ({ message }) => message);
    }, `${FIELDS}${port}/elements/client.js`);
  assert.equal(await mount(""), "started", "control: the origin of the fields");
  assert.match(await mount(":8443"), /did not start/);
  assert.deepEqual(
    faults.splice(0).map((it) => /do not run at https:\/\/vault\.test:8443/.test(it)),
    [true, true],
    "a field and a controller",
  );
});
