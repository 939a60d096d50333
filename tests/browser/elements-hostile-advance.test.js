// A hostile page leads a security code into a date field, and lets the vault tell what the date is.
// For each probe, a control shows that the keys are in the trap, or that an honest page gets its report.

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

// Every security code but a few is a date for this field.
const addTrap = (page) => page.evaluate(() => window.addField("trap", "cardExpirationDate", { maxElapsedExpirationYear: 100 }));

// The page stores a card of its own with the date of a field.
const storeDate = (page, id) =>
  page.evaluate((id) => {
    const date = window.fields[id];
    const data = { number: "4242424242424242", expiration_month: date.month(), expiration_year: date.year() };
    return window.outcome(window.elements.tokenIntents.create({ type: "card", data }));
  }, id);

async function assertTrapTellsNothing(page, input, shown) {
  assert.equal(await input("trap").inputValue(), shown, "control: the code is in the trap");
  const { kind, value } = await storeDate(page, "trap");
  assert.deepEqual([kind, value?.card], ["answer", undefined]);
  assert.deepEqual(Object.keys(await page.evaluate(() => window.changes.trap.at(-1))).sort(), ["complete", "empty", "type"]);
}

async function assertDateIsShown(page, id, [month, year]) {
  const { value } = await storeDate(page, id);
  assert.deepEqual([value?.card?.expirationMonth, value?.card?.expirationYear], [month, year], "control: an open date is shown");
}

// --- Focus that follows a finished number ---

onHostilePage("security code of a card element is not shown as a date", async (page, input) => {
  await page.evaluate(() => window.addField("card", "card"));
  await addTrap(page);
  await page.evaluate(() => {
    window.fields.card.on("focus", ({ targetId }) => targetId === "cardVerificationCode" && window.fields.trap.focus());
  });
  await input("card").click();
  await typeKeys(page, NUMBER);
  await typeKeys(page, "1230987", 150);
  await assertTrapTellsNothing(page, input, "09 / 87");
});

onHostilePage("finished number lets the page move the focus on once", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("number", "cardNumber");
    await window.addField("date", "cardExpirationDate");
  });
  await addTrap(page);
  await page.evaluate(() => {
    window.onFieldChange = async (id, { complete }) => {
      if (id === "number" && complete) window.fields.date.focus();
      if (id !== "date" || !complete) return;
      window.fields.number.focus();
      await window.wait(30);
      window.fields.trap.focus();
    };
  });
  await input("number").click();
  await typeKeys(page, NUMBER);
  await typeKeys(page, "1230987", 150);
  await assertTrapTellsNothing(page, input, "09 / 87");
  await assertDateIsShown(page, "date", [12, 2030]);
});

onHostilePage("beginning of a number does not let the page move the focus on", async (page, input) => {
  await page.evaluate(() => window.addField("number", "cardNumber", { skipLuhnValidation: true }));
  await addTrap(page);
  await input("number").click();
  await typeKeys(page, "6212345575667033");
  assert.equal(await page.evaluate(() => window.changes.number.at(-1).complete), true, "control: the option makes it complete");
  await page.evaluate(() => window.fields.trap.focus());
  await page.waitForTimeout(80);
  await typeKeys(page, "849");
  await assertTrapTellsNothing(page, input, "08 / 49");
});

// --- Tab and options ---

for (const option of ["readOnly", "disabled"]) {
  onHostilePage(`payer who presses Tab does not arrive in a field whose ${option} the page changes`, async (page, input) => {
    await page.evaluate(async () => {
      await window.addField("date", "cardExpirationDate");
      const stop = document.createElement("input");
      stop.id = "stop";
      document.body.append(stop);
    });
    await addTrap(page);
    await page.evaluate((option) => {
      const { trap } = window.fields;
      document.getElementById("stop").addEventListener("focus", () => {
        trap.focus();
        trap.update({ [option]: true });
        trap.update({ [option]: false });
        trap.focus();
      });
    }, option);
    await input("date").click();
    await typeKeys(page, "1230");
    await pressTab(page);
    await typeKeys(page, "987");
    await assertTrapTellsNothing(page, input, "09 / 87");
    // Control: the payer presses into the trap.
    await page.evaluate(() => window.fields.trap.clear());
    await input("trap").click();
    await typeKeys(page, "1231");
    await assertDateIsShown(page, "trap", [12, 2031]);
  });
}

// The page focuses a place before the trap when the date is complete, so that the payer's Tab leads into the trap.
const PLACES = {
  "an element of the page": () => {
    const stop = document.createElement("span");
    stop.tabIndex = -1;
    document.body.append(stop);
    return () => stop.focus();
  },
  "a field": async () => {
    await window.addField("stop", "text");
    return () => window.fields.stop.focus();
  },
};

for (const [name, place] of Object.entries(PLACES)) {
  onHostilePage(`payer's Tab from ${name} that the page focused does not open a second date`, async (page, input) => {
    await page.evaluate(async (place) => {
      await window.addField("date", "cardExpirationDate");
      const steer = await window.eval(`(${place})`)();
      window.onFieldChange = (id, { complete }) => id === "date" && complete && steer();
    }, String(place));
    await addTrap(page);
    await input("date").click();
    await typeKeys(page, "1230");
    await page.waitForTimeout(100);
    await pressTab(page);
    await typeKeys(page, "987");
    await assertTrapTellsNothing(page, input, "09 / 87");
    await assertDateIsShown(page, "date", [12, 2030]);
    // Control: the payer presses into the trap.
    await page.evaluate(() => window.fields.trap.clear());
    await input("trap").click();
    await typeKeys(page, "1231");
    await assertDateIsShown(page, "trap", [12, 2031]);
  });
}

onHostilePage("held Enter is no action where the page moves the focus", async (page, input) => {
  await page.evaluate(() => window.addField("date", "cardExpirationDate"));
  await addTrap(page);
  await page.evaluate(() => window.fields.date.on("keydown", () => window.fields.trap.focus()));
  await input("date").click();
  await typeKeys(page, "1230");
  await page.keyboard.down("Enter");
  await page.waitForTimeout(500);
  // The browser repeats the key.
  await page.keyboard.down("Enter");
  await page.waitForTimeout(60);
  await page.keyboard.up("Enter");
  await typeKeys(page, "987");
  await assertTrapTellsNothing(page, input, "09 / 87");
});

// --- Formats of a date ---

const createToken = (page, type, format) =>
  page.evaluate(
    ([type, format]) => window.outcome(window.elements.tokenIntents.create({ type, data: window.fields.trap.format(format) })),
    [type, format],
  );

onHostilePage("format of a date adds nothing that the vault checks", async (page, input) => {
  await page.evaluate(() => window.addField("code", "cardVerificationCode"));
  await addTrap(page);
  await input("code").click();
  await page.evaluate(() => window.fields.trap.focus());
  await page.waitForTimeout(100);
  await typeKeys(page, "987");
  assert.equal(await input("trap").inputValue(), "09 / 87", "control: the code is in the trap");
  const FORMATS = ["'00'yy'00000'", "yy''yy'00000'", "00yy00000", "MM''MM", "yyyyyyyyMM", "MM'x'yy", "MM/yy/٣"];
  for (const format of FORMATS) {
    const { kind, message } = await createToken(page, "token", format);
    assert.match(`${kind} ${message}`, /ValidationError.*month and the year at most once/, format);
  }
  for (const type of ["us_bank_routing_number", "bank", "social_security_number", "employer_id_number"]) {
    const { kind, message } = await createToken(page, type, "MM/yyyy");
    assert.match(`${kind} ${message}`, /ValidationError.*belongs to another attribute/, type);
  }
  // Control: honest formats, also of a date that the page focused.
  for (const format of ["MM/yyyy", "yyyy-MM", "MMyy", "MM' / 'yy"]) assert.equal((await createToken(page, "token", format)).kind, "answer", format);
});

// --- Focus without a message of the page ---

onHostilePage("navigation inside a frame does not bring Tab back to the date", async (page, input) => {
  await page.evaluate(async () => {
    await window.addField("number", "cardNumber");
    await window.addField("trap", "cardExpirationDate", { maxElapsedExpirationYear: 100 });
    await window.addField("code", "cardVerificationCode");
    window.onFieldChange = (id, { complete }) => {
      if (id !== "trap" || !complete) return;
      const frame = window.frameOf("trap");
      for (const fragment of ["description", "error-expiration"]) {
        const address = new URL(frame.src);
        address.hash = fragment;
        frame.contentWindow.location.replace(address.href);
      }
    };
  });
  await input("number").click();
  await typeKeys(page, NUMBER);
  await pressTab(page);
  await typeKeys(page, "1230");
  await page.waitForTimeout(300);
  await pressTab(page);
  await typeKeys(page, "987");
  assert.deepEqual([await input("trap").inputValue(), await input("code").inputValue()], ["12 / 30", "987"]);
});

onHostilePage("touch that scrolls the page is no action in the field under the finger", async (page, input) => {
  await page.evaluate(() => {
    document.body.style.height = "4000px";
  });
  await addTrap(page);
  await page.evaluate(() => window.fields.trap.focus());
  await page.waitForTimeout(200);
  const { y } = await page.locator("#trap iframe").boundingBox();
  const session = await page.context().newCDPSession(page);
  const touch = (type, touchPoints) => session.send("Input.dispatchTouchEvent", { type, touchPoints });
  await touch("touchStart", [{ x: 200, y: y + 10 }]);
  for (let step = 1; step < 12; step += 1) {
    await touch("touchMove", [{ x: 200, y: y + 10 - step * 5 }]);
    await page.waitForTimeout(16);
  }
  await touch("touchEnd", []);
  await page.waitForTimeout(300);
  await typeKeys(page, "987");
  await assertTrapTellsNothing(page, input, "09 / 87");
});

// --- Focus that does not arrive, and values that a browser fills in ---

// A number, its date and its code, and behind them a trap for the code.
const addCardAndTrap = (page) =>
  page.evaluate(async () => {
    await window.addField("number", "cardNumber");
    await window.addField("date", "cardExpirationDate");
    await window.addField("code", "cardVerificationCode");
    const place = document.createElement("span");
    Object.assign(place, { id: "before-trap", tabIndex: -1 });
    document.body.append(place);
    await window.addField("trap", "cardExpirationDate", { maxElapsedExpirationYear: 100 });
  });

onHostilePage("finished number moves the focus to no date that is not shown", async (page, input) => {
  await addCardAndTrap(page);
  await page.evaluate(() => {
    document.getElementById("trap").style.display = "none";
    let isUsed = false;
    window.onFieldChange = (id, { complete }) => {
      if (id === "number" && complete && !isUsed) {
        isUsed = true;
        window.fields.trap.focus();
      }
      if (id !== "date" || !complete) return;
      document.getElementById("trap").style.display = "";
      document.getElementById("code").style.display = "none";
      document.getElementById("before-trap").focus();
    };
  });
  await input("number").click();
  await typeKeys(page, NUMBER);
  await pressTab(page);
  await typeKeys(page, "1230");
  await page.waitForTimeout(200);
  await pressTab(page);
  await typeKeys(page, "987");
  await assertTrapTellsNothing(page, input, "09 / 87");
  await assertDateIsShown(page, "date", [12, 2030]);
});

// The browser sets the inputs of the number's form, and the frame offers the date to the date field.
const fillIn = async (page) => {
  const frame = await (await page.$("#number iframe")).contentFrame();
  await frame.evaluate((number) => {
    for (const [name, text] of [["cardnumber", number], ["exp-date", "12/2030"]]) {
      const input = document.querySelector(`input[name=${name}]`);
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, text);
      for (const type of ["input", "change"]) input.dispatchEvent(new Event(type, { bubbles: true }));
    }
  }, NUMBER);
  await page.waitForTimeout(300);
};

onHostilePage("date that a browser filled in is the only date that opens without a press", async (page, input) => {
  await addCardAndTrap(page);
  await page.evaluate(() => {
    window.onFieldChange = (id, { complete }) => {
      if (id === "date" && complete) document.getElementById("code").style.display = "none";
    };
  });
  await input("number").click();
  await fillIn(page);
  assert.equal(await input("date").inputValue(), "12 / 30", "control: the date is filled in");
  await pressTab(page);
  await pressTab(page);
  await typeKeys(page, "987");
  await assertTrapTellsNothing(page, input, "09 / 87");
  await assertDateIsShown(page, "date", [12, 2030]);
});
