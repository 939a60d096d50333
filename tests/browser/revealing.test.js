// Executes the examples of docs/revealing-data.md and compares their output with the page.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { startVault } from "./vault.js";

const MARK = "=== end of example ===";

test("examples of revealing data have the printed output", async () => {
  const text = await readFile(new URL("../../docs/revealing-data.md", import.meta.url), "utf8");
  const examples = [...text.matchAll(/```sh\n([^]*?)```(?:\s*```json\n([^]*?)```)?/g)];
  const commands = examples.map((it) => it[1]);
  assert.ok(commands.length > 20, `${commands.length} examples`);
  const vault = await startVault();
  try {
    const environment = { ...process.env, ...vault.variables };
    const shell = spawn("bash", ["-s"], { env: environment, stdio: ["pipe", "pipe", "inherit"] });
    const output = [];
    shell.stdout.on("data", (part) => output.push(part));
    shell.stdin.end(commands.map((it) => `${it}\necho '${MARK}'\n`).join(""));
    const [code] = await once(shell, "close");
    assert.equal(code, 0);
    const outputs = Buffer.concat(output).toString().split(`${MARK}\n`);
    examples.forEach((it, index) => assert.equal(outputs[index], it[2] ?? "", it[1]));
  } finally {
    assert.equal(await vault.stop(), 0);
  }
});
