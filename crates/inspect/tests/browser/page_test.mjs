// The explorer's page in a headless browser: `cargo xtask explorer` runs this.
//
// usage: node page_test.mjs TOOLS CHROMIUM PICTURES PAGE...
//
// TOOLS is a folder with puppeteer-core, and axe-core where accessibility is to be checked. Each
// page is opened from its file, clicked through, and measured; what is wrong is printed, and the
// status tells whether anything was. Pictures of the first page go to PICTURES.

import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const [, , tools, executablePath, pictures, ...pages] = process.argv;
const packages = createRequire(path.resolve(tools, "package.json"));
const puppeteer = packages("puppeteer-core");

/** A page opens within this time. */
const MOST_MILLISECONDS = 1500;
/** Elements that rows of lists may be at any time, however long the lists are. */
const MOST_ROWS = 400;
/** The part of the time that kernels of a model of any size account for. */
const LEAST_PART = 95;

let axe = null;
try {
  axe = fs.readFileSync(packages.resolve("axe-core/axe.min.js"), "utf8");
} catch {
  console.log("skipped: accessibility, for axe-core is not in the folder of tools");
}

const problems = [];
const check = (holds, what) => {
  if (!holds) problems.push(what);
};

const browser = await puppeteer.launch({ executablePath, headless: true, args: ["--no-sandbox"] });

async function open(file, hash = "") {
  const tab = await browser.newPage();
  await tab.setViewport({ width: 1600, height: 1000 });
  const name = path.basename(file);
  tab.on("pageerror", (error) => problems.push(`${name}: ${error.stack ?? error}`));
  tab.on("console", (message) => {
    if (["error", "warn", "warning"].includes(message.type())) {
      problems.push(`${name}: ${message.text()}`);
    }
  });
  tab.on("dialog", (dialog) => {
    problems.push(`${name}: a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  tab.on("request", (request) => {
    const { protocol, pathname } = new URL(request.url());
    const own = protocol === "file:" && pathname === path.resolve(file);
    if (!own && protocol !== "data:") problems.push(`${name}: fetches ${request.url()}`);
  });
  const start = performance.now();
  await tab.goto(`file://${path.resolve(file)}${hash}`);
  await tab.waitForSelector("html[data-ready]", { timeout: 20_000 });
  return [tab, performance.now() - start];
}

/** Waits until what was asked for is there: sections are unpacked meanwhile. */
async function settled(tab) {
  await tab.evaluate(() => new Promise((done) => {
    setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 150);
  }));
}

const texts = (tab, selector) =>
  tab.$$eval(selector, (elements) => elements.map((element) => element.textContent));
/** Clicks the first row of a list that is in sight. */
const clickFirst = (tab, pane) => tab.$eval(`#${pane}`, (list) => {
  const top = list.getBoundingClientRect().top - 1;
  [...list.querySelectorAll(".row")].filter((row) => row.getBoundingClientRect().top >= top)
    .sort((one, two) => one.dataset.index - two.dataset.index)[0].click();
});
const count = async (tab, selector) => (await tab.$$(selector)).length;

async function picture(tab, name) {
  if (pictures === "-") return;
  const file = path.join(pictures, `${name}.webp`);
  await tab.screenshot({ path: file, type: "webp", quality: 80 });
}

/** A click in each pane marks rows in the others. */
async function clickThrough(tab, name) {
  const marked = async (where) => {
    await settled(tab);
    for (const pane of ["list-graph", "list-kernels"]) {
      const rows = await tab.$$eval(`#${pane} .marked`, (rows) => rows.length);
      check(rows > 0, `${name}: after ${where} nothing is marked in ${pane}`);
    }
    const instructions = await count(tab, "#list-code .row");
    check(instructions > 0, `${name}: after ${where} there is no machine code`);
    const loops = await texts(tab, "#list-loops .row");
    check(loops.some((text) => text.includes("kernel @")), `${name}: after ${where} no loops`);
  };
  await clickFirst(tab, "list-kernels");
  await marked("a click on a kernel");
  await tab.evaluate(() => {
    const row = [...document.querySelectorAll("#list-graph .row")]
      .find((row) => row.querySelector(".time").textContent);
    row.click();
  });
  await marked("a click on a node");
  await tab.evaluate(() => {
    const rows = [...document.querySelectorAll("#list-code .row")];
    rows.find((row) => row.title).click();
  });
  await marked("a click on an instruction");
  check(await count(tab, "#list-code .marked") > 0, `${name}: no instruction is marked`);
  check(await count(tab, "#list-loops .marked") > 0, `${name}: no statement is marked`);
  const slots = await count(tab, "#drawing .slot");
  if (slots) {
    await tab.evaluate(() => document.querySelector("#drawing .slot")
      .dispatchEvent(new MouseEvent("click", { bubbles: true })));
    await marked("a click on a value in memory");
    await tab.click("[data-drawing=time]");
    await settled(tab);
    check(await count(tab, "#drawing .slot") === slots, `${name}: values are lost by time`);
    await tab.click("[data-drawing=memory]");
    await settled(tab);
    check(await count(tab, "#drawing .written, #drawing .read") > 0, `${name}: no slot is marked`);
  }
  await tab.click("[data-shown=passes]");
  await settled(tab);
  const line = await tab.evaluate(() => {
    const row = [...document.querySelectorAll("#list-loops .row")]
      .find((row) => row.title && !row.classList.contains("minus"));
    row?.click();
    return row?.textContent;
  });
  check(line, `${name}: no line of a pass`);
  await settled(tab);
  check(await count(tab, "#list-graph .marked, #list-loops .marked") > 0,
    `${name}: a line of a pass marks nothing`);
  await tab.click("[data-shown=loops]");
}

/** The slider goes through all steps of the longest schedule, and through the passes. */
async function slide(tab, name) {
  await clickFirst(tab, "list-kernels");
  for (const shown of ["loops", "passes"]) {
    await tab.click(`[data-shown=${shown}]`);
    await settled(tab);
    const last = await tab.$eval("#stage", (slider) => Number(slider.max));
    let changes = 0;
    for (let stage = 0; stage <= last; stage++) {
      await tab.$eval("#stage", (slider, stage) => {
        slider.value = stage;
        slider.dispatchEvent(new Event("input"));
      }, stage);
      await settled(tab);
      const [text] = await texts(tab, "#stage-name");
      check(text.startsWith(`${stage} of ${last}`), `${name}: ${shown}: ${text}`);
      const signs = await count(tab, "#list-loops .plus, #list-loops .minus");
      changes += signs > 0;
      check(stage > 0 || signs === 0, `${name}: ${shown}: changes before the first step`);
    }
    console.log(`${name}: ${shown}: ${last} steps, ${changes} whose changes are in sight`);
  }
  await tab.click("[data-shown=loops]");
}

async function search(tab, name) {
  await tab.keyboard.press("/");
  await tab.keyboard.type("main_");
  await settled(tab);
  check(await count(tab, "#found li") > 0, `${name}: the search finds nothing`);
  await tab.keyboard.press("ArrowDown");
  await tab.keyboard.press("Enter");
  await settled(tab);
  check(await tab.$eval("#found", (list) => list.hidden), `${name}: the search stays open`);
  check((await tab.url()).includes("row="), `${name}: the address does not say what is selected`);
}

/** Keys alone: panes, rows, steps. */
async function keys(tab, name) {
  await tab.keyboard.press("2");
  await tab.keyboard.press("Home");
  await settled(tab);
  const before = await tab.url();
  await tab.keyboard.press("ArrowDown");
  await settled(tab);
  const after = await tab.url();
  check(before !== after || (await count(tab, "#list-kernels .row")) < 2,
    `${name}: arrows select nothing`);
  await tab.keyboard.press("[");
  await settled(tab);
  await tab.keyboard.press("]");
  await settled(tab);
  await tab.keyboard.press("?");
  check(await tab.$eval("#help", (help) => help.open), `${name}: no help`);
  await tab.keyboard.press("Escape");
}

/** Frames while a list is scrolled from end to end: how many took longer than two of 60 a
 * second. */
async function scroll(tab, name) {
  for (const pane of ["list-graph", "list-code"]) {
    const [frames, late, height] = await tab.evaluate((pane) => new Promise((done) => {
      const list = document.getElementById(pane);
      const bottom = list.scrollHeight - list.clientHeight;
      let [frames, late, last] = [0, 0, performance.now()];
      const step = (now) => {
        if (now - last > 34) late++;
        last = now;
        list.scrollTop = (bottom * frames) / 60;
        if (frames++ < 60) requestAnimationFrame(step);
        else done([frames, late, bottom]);
      };
      requestAnimationFrame(step);
    }), pane);
    console.log(`${name}: ${pane}: ${late} late of ${frames} frames over ${height} pixels`);
  }
  const rows = await count(tab, ".row");
  check(rows <= MOST_ROWS, `${name}: ${rows} rows are elements`);
}

async function accessible(tab, name) {
  if (!axe) return;
  // The page's policy runs no other script; the test's is run beside it.
  await tab.evaluate(axe);
  const found = await tab.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  for (const { id, help, nodes } of found.violations) {
    check(false, `${name}: ${id}: ${help}: ${nodes.slice(0, 3).map((it) => it.html).join(" ")}`);
  }
}

async function beside(tab, name, number) {
  const builds = await count(tab, "#build option");
  if (builds < 2) return;
  await tab.click("[data-order=beside]");
  await settled(tab);
  const rows = await texts(tab, "#list-kernels .row");
  check(rows.length > 0, `${name}: nothing side by side`);
  await clickFirst(tab, "list-kernels");
  await settled(tab);
  if (number === 0) await picture(tab, "explorer-beside");
  await tab.keyboard.press("b");
  await settled(tab);
  check(await tab.$eval("#build", (choice) => choice.value) === "1", `${name}: no other build`);
  check(await count(tab, "#list-graph .marked") > 0, `${name}: the other build forgets the nodes`);
  await tab.keyboard.press("b");
  await tab.click("[data-order=time]");
}

/** What kernels account for, of a hundred; of models that take milliseconds. */
function accounted(note) {
  const [, part, , unit] = note.match(/^([\d.]+) % of ([\d.]+) (us|ms)/) ?? [];
  return unit === "ms" ? Number(part) : null;
}

/** What the page computes: the difference of texts gives both, values on rails keep apart. */
async function computations(tab) {
  const wrong = await tab.evaluate(() => {
    const below = (limit) => Math.floor(Math.random() * limit);
    const text = () => Array.from({ length: below(12) }, () => below(4));
    for (let round = 0; round < 300; round++) {
      const [before, after] = [text(), text()];
      const lines = difference(before.length, after.length, (a, b) => before[a] === after[b]);
      const now = lines.filter((line) => line[1] !== "minus").map(([number]) => after[number]);
      if (now.join() !== after.join()) return `the new text of ${before} and ${after}`;
      const old = lines.filter((line) => line[1] !== "plus")
        .map(([number, own]) => (own === "minus" ? before[number] : after[number]));
      if (old.join() !== before.join()) return `the old text of ${before} and ${after}`;
      const nodes = Array.from({ length: 12 }, (_, number) => ({
        from: [...new Set([below(number + 1), below(number + 1)])].filter((it) => it < number),
      }));
      const rails = layRails(nodes);
      const last = nodes.map((_, at) => nodes.reduce((most, node, by) =>
        (node.from.includes(at) ? by : most), at));
      for (let one = 0; one < nodes.length; one++) {
        for (let two = one + 1; two < nodes.length; two++) {
          if (rails[one].own === rails[two].own && two < last[one]) {
            return `rails of ${JSON.stringify(nodes)}`;
          }
        }
      }
    }
    return null;
  });
  check(wrong === null, `computed wrongly: ${wrong}`);
}

/** Nothing that a model is called has become an element. */
async function harmless(tab, name) {
  check(await count(tab, "img, [onerror], [onload], svg svg") === 0, `${name}: names are markup`);
  const scripts = await tab.$$eval("script:not([data-section])", (scripts) => scripts.length);
  check(scripts === 1, `${name}: ${scripts} scripts`);
}

for (const [number, file] of pages.entries()) {
  const name = path.basename(file);
  const [tab, milliseconds] = await open(file);
  check(milliseconds < MOST_MILLISECONDS, `${name}: open after ${milliseconds.toFixed(0)} ms`);
  await settled(tab);
  const [note] = await texts(tab, "#note-kernels");
  const part = accounted(note);
  check(part === null || part >= LEAST_PART, `${name}: ${note}`);
  if (number === 0) await picture(tab, "explorer");
  await clickThrough(tab, name);
  await slide(tab, name);
  await search(tab, name);
  await keys(tab, name);
  await scroll(tab, name);
  await beside(tab, name, number);
  await accessible(tab, name);
  await harmless(tab, name);
  if (number === 0) await computations(tab);
  if (number === 0) {
    await tab.keyboard.press("Escape");
    await tab.evaluate(() => { document.documentElement.dataset.theme = "dark"; });
    await tab.click("[data-drawing=roofline]");
    await clickFirst(tab, "list-kernels");
    await settled(tab);
    await picture(tab, "explorer-dark");
    await accessible(tab, `${name}, dark`);
  }
  const { JSHeapUsedSize: heap } = await tab.metrics();
  console.log(`${name}: ${fs.statSync(file).size} bytes, open after ${milliseconds.toFixed(0)} ms, `
    + `${(heap / 1e6).toFixed(1)} MB of heap, ${note}`);
  // What the address says is selected when the page is opened anew.
  const hash = new URL(await tab.url()).hash;
  const [again] = await open(file, hash);
  check(new URL(await again.url()).hash === hash, `${name}: ${hash} is not what it opens with`);
  await again.close();
  await tab.close();
}
await browser.close();
problems.forEach((problem) => console.log(`wrong: ${problem}`));
process.exit(problems.length ? 1 : 0);
