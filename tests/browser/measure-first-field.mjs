// Measures the time until the first hosted field accepts input, as a ratio to a bare frame of another origin with one
// input. Both are measured alternately, on the same page and in one run:
//   SCRIP=target/release/scrip node tests/browser/measure-first-field.mjs [rounds]
// Prints medians; it asserts nothing, because a time never fails a test.

import { createServer } from "node:http";
import { once } from "node:events";

import { chromium } from "playwright-core";

import { startVault } from "./vault.js";

const rounds = Number(process.argv[2] ?? 20);
const vault = await startVault();
const html = (text) => ({ type: "text/html; charset=utf-8", text });
const bare = await serve(() => html(`<!DOCTYPE html><input autofocus><script>
  parent.postMessage("interactive", "*");
</script>`));
const shop = await serve(() => html(`<!DOCTYPE html><div id="bare"></div><div id="hosted"></div>
<script src="${vault.url}/elements/client.js"></script>`));

async function serve(answer) {
  const server = createServer((request, response) => {
    const { type, text } = answer(request);
    response.setHeader("Content-Type", type);
    response.end(text);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close().closeAllConnections() };
}

// From the insertion of the frame until its script has run.
function measureBare(url) {
  return new Promise((resolve) => {
    const started = performance.now();
    const frame = document.createElement("iframe");
    window.addEventListener("message", function listen(event) {
      if (event.source !== frame.contentWindow) return;
      window.removeEventListener("message", listen);
      resolve(performance.now() - started);
      frame.remove();
    });
    frame.src = url;
    document.getElementById("bare").append(frame);
  });
}

// From `init`, with a new controller frame, until the first field accepts input.
async function measureHosted(key) {
  const started = performance.now();
  const elements = await window.BasisTheoryElements.init(key);
  const number = elements.createElement("cardNumber", { targetId: "number" });
  const ready = new Promise((resolve) => number.on("ready", () => resolve(performance.now() - started)));
  await number.mount("#hosted");
  const duration = await ready;
  number.unmount();
  return duration;
}

const median = (values) => values.sort((left, right) => left - right)[Math.floor(values.length / 2)];

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const [name, isNewContext] of [["empty cache", true], ["filled cache", false]]) {
  const times = { bare: [], hosted: [] };
  let page;
  for (let round = 0; round < rounds; round += 1) {
    if (isNewContext || !page) {
      await page?.context().close();
      page = await (await browser.newContext()).newPage();
    }
    await page.goto(shop.url);
    times.bare.push(await page.evaluate(measureBare, bare.url));
    times.hosted.push(await page.evaluate(measureHosted, vault.keys.public));
  }
  await page.context().close();
  const [bareTime, hostedTime] = [median(times.bare), median(times.hosted)];
  console.log(`${name}: bare frame ${bareTime.toFixed(1)} ms, first field ${hostedTime.toFixed(1)} ms, ratio ${(hostedTime / bareTime).toFixed(2)}`);
}
await browser.close();
for (const server of [bare, shop]) server.close();
await vault.stop();
