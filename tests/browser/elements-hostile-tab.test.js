// A hostile page lets the payer's own Tab lead a security code into a date, or another text into a number. In each test the
// payer types a number, Tab, a date, Tab, and a code or a text. The control is the same without the move of the page.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { HOSTILE_PAGE, withHostilePage } from "./hostile-page.js";
import { startSites } from "./sites.js";

const NUMBER = "4539578763621486";

let sites;

before(async () => {
  sites = await startSites({ "/hostile": HOSTILE_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

const onHostilePage = (name, use) => test(name, () => withHostilePage(sites, name, use));

async function typeKeys(page, text, pause = 60) {
  for (const key of text) {
    await page.keyboard.press(key);
    await page.waitForTimeout(pause);
  }
}

async function pressTab(page) {
  await page.keyboard.down("Tab");
  await page.waitForTimeout(90);
  await page.keyboard.up("Tab");
  await page.waitForTimeout(80);
}

const run = (page, act) => page.evaluate((act) => window.eval(`(${act})`)(), String(act));

// Number, date and `last` (a code or a text), each with a place before it that the page can focus, and the trap.
async function addForm(page, last, addTrap) {
  await page.evaluate(async (last) => {
    const addPlace = (id) => {
      const place = document.createElement("span");
      Object.assign(place, { id, tabIndex: -1 });
      document.body.append(place);
    };
    await window.addField("number", "cardNumber");
    addPlace("before-date");
    // Every security code but a few is a date for this field.
    await window.addField("date", "cardExpirationDate", { maxElapsedExpirationYear: 100 });
    await window.addField("last", last);
    addPlace("before-trap");
  }, last);
  await run(page, addTrap);
}

// The page moves once, when the date is complete.
const prepareMove = (page, move) =>
  page.evaluate((move) => {
    window.onFieldChange = (id, { complete }) => {
      if (id !== "date" || !complete) return;
      window.onFieldChange = undefined;
      window.eval(`(${move})`)();
    };
  }, String(move));

async function typeForm(page, input, last) {
  await input("number").click();
  await typeKeys(page, NUMBER, 20);
  await pressTab(page);
  await typeKeys(page, "1230");
  await page.waitForTimeout(150);
  await pressTab(page);
  await typeKeys(page, last);
  await page.waitForTimeout(100);
}

async function openAgain(page) {
  await page.reload();
  await page.locator("body[data-ready]").waitFor();
}

// The page stores a card of its own with the date of a field.
const storeDate = (page, id) =>
  page.evaluate((id) => {
    const date = window.fields[id];
    const data = { number: "4242424242424242", expiration_month: date.month(), expiration_year: date.year() };
    return window.outcome((window.owners?.[id] ?? window.elements).tokenIntents.create({ type: "card", data }));
  }, id);

async function assertDateTellsNothing(page, id) {
  const { kind, value } = await storeDate(page, id);
  assert.deepEqual([kind, value?.card], ["answer", undefined]);
  assert.deepEqual(Object.keys(await page.evaluate((id) => window.changes[id].at(-1), id)).sort(), ["complete", "empty", "type"]);
}

async function assertDateIsShown(page, id, [month, year]) {
  const { value } = await storeDate(page, id);
  assert.deepEqual([value?.card?.expirationMonth, value?.card?.expirationYear], [month, year], `an open date in ${id} is shown`);
}

// --- Security codes that become dates ---

const addTrap = () => window.addField("trap", "cardExpirationDate", { maxElapsedExpirationYear: 100 });

async function addTrapOfSecondInstance() {
  const first = window.elements;
  window.elements = await window.BasisTheoryElements.init(window.key, undefined, undefined, undefined, undefined, true);
  window.owners = { trap: window.elements };
  await window.addField("trap", "cardExpirationDate", { maxElapsedExpirationYear: 100 });
  window.elements = first;
}

// Where the code goes, and how the page leads the payer's Tab there.
const DOORS = {
  "back into the only date": ["date", () => {}, () => document.getElementById("before-date").focus()],
  "into a date whose window the page focused": ["trap", addTrap, () => window.frameOf("trap").contentWindow.focus()],
  "into a date whose frame the page focused": ["trap", addTrap, () => window.frameOf("trap").focus()],
  "into a date of another instance": ["trap", addTrapOfSecondInstance, () => document.getElementById("before-trap").focus()],
  "into a second date, shortly after Tab in the number": ["trap", addTrap, () => document.getElementById("before-trap").focus()],
  "past a code without a place in the order of Tab": ["trap", addTrap, () => (window.frameOf("last").tabIndex = -1)],
  "past a code that is inert": ["trap", addTrap, () => (document.getElementById("last").inert = true)],
};

for (const [name, [trap, add, move]] of Object.entries(DOORS)) {
  onHostilePage(`payer's Tab ${name} shows no security code as a date`, async (page, input) => {
    await addForm(page, "cardVerificationCode", add);
    await typeForm(page, input, "987");
    assert.equal(await input("last").inputValue(), "987", "control: without the move of the page the code is in its place");
    await assertDateIsShown(page, "date", [12, 2030]);

    await openAgain(page);
    await addForm(page, "cardVerificationCode", add);
    await prepareMove(page, move);
    await typeForm(page, input, "987");
    assert.deepEqual([await input(trap).inputValue(), await input("last").inputValue()], ["09 / 87", ""], "the code is in the trap");
    await assertDateTellsNothing(page, trap);
    // A press in the field opens it, as for every honest page with two cards.
    await page.evaluate((trap) => window.fields[trap].clear(), trap);
    await input(trap).click();
    await typeKeys(page, "1231");
    await assertDateIsShown(page, trap, [12, 2031]);
  });
}

onHostilePage("payer's Tab into a date in another document of the page shows no security code as a date", async (page, input) => {
  const openInner = () =>
    new Promise((done) => {
      const inner = document.createElement("iframe");
      Object.assign(inner, { id: "inner", src: location.href, width: 600, height: 300, tabIndex: -1 });
      inner.addEventListener("load", done);
      document.body.append(inner);
    });
  const fill = async (move) => {
    await addForm(page, "cardVerificationCode", openInner);
    const inner = await (await page.locator("#inner").elementHandle()).contentFrame();
    await inner.locator("body[data-ready]").waitFor();
    await inner.evaluate(() => {
      document.getElementById("own").remove();
      return window.addField("trap", "cardExpirationDate", { maxElapsedExpirationYear: 100 });
    });
    await prepareMove(page, move);
    await typeForm(page, input, "987");
    return inner;
  };
  await fill(() => {});
  assert.equal(await input("last").inputValue(), "987", "control: without the move of the page the code is in its place");
  await openAgain(page);
  const inner = await fill(() => {
    document.getElementById("inner").tabIndex = 0;
    document.getElementById("before-trap").focus();
  });
  const trap = inner.frameLocator("#trap iframe").locator("input:not([tabindex='-1'])").first();
  assert.equal(await trap.inputValue(), "09 / 87", "the code is in the trap");
  await assertDateTellsNothing(inner, "trap");
  await inner.evaluate(() => window.fields.trap.clear());
  await trap.click();
  await typeKeys(page, "1231");
  await assertDateIsShown(inner, "trap", [12, 2031]);
});

onHostilePage("date that the page removed still counts for Tab", async (page, input) => {
  await addForm(page, "cardVerificationCode", addTrap);
  await prepareMove(page, () => {
    document.getElementById("before-trap").focus();
    document.getElementById("date").remove();
  });
  await typeForm(page, input, "987");
  assert.equal(await input("trap").inputValue(), "09 / 87", "the code is in the trap");
  await assertDateTellsNothing(page, "trap");
  // A field that the page adds afterwards knows it too.
  await page.evaluate(() => window.addField("late", "cardExpirationDate", { maxElapsedExpirationYear: 100 }));
  await pressTab(page);
  await typeKeys(page, "641");
  assert.equal(await input("late").inputValue(), "06 / 41");
  await assertDateTellsNothing(page, "late");
});

onHostilePage("Tab inside a card that the payer did not choose is no action", async (page, input) => {
  const inputs = page.frameLocator("#trap iframe").locator("input:not([tabindex='-1'])");
  await addForm(page, "cardVerificationCode", async () => {
    await window.addField("trap", "card");
    window.focused = [];
    window.fields.trap.on("focus", ({ targetId }) => window.focused.push(targetId));
  });
  await prepareMove(page, () => document.getElementById("before-trap").focus());
  await typeForm(page, input, "987");
  await pressTab(page);
  await typeKeys(page, "1231");
  assert.deepEqual([await inputs.nth(0).inputValue(), await inputs.nth(1).inputValue()], ["987", "12 / 31"], "the keys are in the trap");
  assert.deepEqual(await page.evaluate(() => window.focused), ["cardNumber", "cardExpirationDate"], "a hidden date does not move the focus on");
  // Without the number, only the date is left in the card.
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Backspace");
  await page.waitForTimeout(100);
  assert.equal(await inputs.nth(0).inputValue(), "");
  assert.deepEqual(Object.keys(await page.evaluate(() => window.changes.trap.at(-1))).sort(), ["complete", "empty", "type"]);
});

// --- Texts that become numbers ---

const addNumber = () => window.addField("trap", "cardNumber");

async function addNumberOfSecondInstance() {
  const first = window.elements;
  window.elements = await window.BasisTheoryElements.init(window.key, undefined, undefined, undefined, undefined, true);
  await window.addField("trap", "cardNumber");
  window.elements = first;
}

const NUMBER_DOORS = {
  "whose window the page focused": [addNumber, () => window.frameOf("trap").contentWindow.focus()],
  "of another instance": [addNumberOfSecondInstance, () => document.getElementById("before-trap").focus()],
  "behind a text without a place in the order of Tab": [addNumber, () => (window.frameOf("last").tabIndex = -1)],
};

for (const [name, [add, move]] of Object.entries(NUMBER_DOORS)) {
  onHostilePage(`payer's Tab into a number ${name} reports no first digits of a text`, async (page, input) => {
    const tells = () => page.evaluate(() => window.changes.trap.flatMap(({ cardBin, cardBrand }) => [cardBin, cardBrand]).filter(Boolean));
    await addForm(page, "text", add);
    await typeForm(page, input, "519283");
    assert.equal(await input("last").inputValue(), "519283", "control: without the move of the page the text is in its place");

    await openAgain(page);
    await addForm(page, "text", add);
    await prepareMove(page, move);
    await typeForm(page, input, "519283");
    assert.deepEqual([(await input("trap").inputValue()).replace(" ", ""), await input("last").inputValue()], ["519283", ""]);
    assert.deepEqual(await tells(), []);
    // A press in the field opens it.
    await page.evaluate(() => window.fields.trap.clear());
    await input("trap").click();
    await typeKeys(page, NUMBER, 20);
    await page.waitForFunction(() => window.fields.trap.cardMetadata.cardBin === "45395787");
  });
}

// --- Payers who correct what they typed ---

// Payers release the two keys in any order.
const RETURNS = {
  "Tab is released first": ["Tab", "Shift"],
  "Shift is released first": ["Shift", "Tab"],
};

for (const [name, keys] of Object.entries(RETURNS)) {
  onHostilePage(`payer who goes back with Shift and Tab corrects a date and a number: ${name}`, async (page, input) => {
    const goBack = async () => {
      await page.keyboard.down("Shift");
      await page.keyboard.down("Tab");
      await page.waitForTimeout(90);
      for (const key of keys) await page.keyboard.up(key);
      await page.waitForTimeout(80);
    };
    await addForm(page, "cardVerificationCode", () => {});
    await typeForm(page, input, "987");
    await goBack();
    await typeKeys(page, "1131");
    assert.equal(await input("date").inputValue(), "11 / 31");
    await assertDateIsShown(page, "date", [11, 2031]);
    await goBack();
    await typeKeys(page, "4242424242424242", 20);
    await page.waitForFunction(() => window.fields.number.cardMetadata.cardBin === "42424242");
    // Without a text of the payer there is nothing to correct.
    await pressTab(page);
    await page.keyboard.press("Backspace");
    await pressTab(page);
    await goBack();
    await typeKeys(page, "987");
    assert.equal(await input("date").inputValue(), "09 / 87");
    await assertDateTellsNothing(page, "date");
  });
}

onHostilePage("Shift that the payer presses after Tab is no way back", async (page, input) => {
  await addForm(page, "cardVerificationCode", () => {});
  await prepareMove(page, () => document.getElementById("before-date").focus());
  await input("number").click();
  await typeKeys(page, NUMBER, 20);
  await pressTab(page);
  await typeKeys(page, "1230");
  await page.waitForTimeout(150);
  // Some keyboards have digits on the second level, and fast payers press Shift before they release Tab.
  await page.keyboard.down("Tab");
  await page.waitForTimeout(60);
  await page.keyboard.down("Shift");
  await page.keyboard.up("Tab");
  await typeKeys(page, "987");
  await page.keyboard.up("Shift");
  assert.equal(await input("date").inputValue(), "09 / 87", "the code is in the date");
  await assertDateTellsNothing(page, "date");
});
