// The console in a real Chromium, over a local cloud that tests/journeys/test_console.py has filled.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before as first, test } from "node:test";
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const scene = JSON.parse(readFileSync(process.env.CONSOLE_SCENE, "utf8"));
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WAIT = { timeout: 120_000 };
let browser;

first(async () => {
  mkdirSync(scene.shots, { recursive: true });
  browser = await puppeteer.launch({
    // Profiles of their own need processes of their own, which Lambda has no room for.
    args: [...chromium.args.filter((one) => one !== "--single-process"), "--lang=en-US"],
    executablePath: await chromium.executablePath(),
    headless: "shell",
    env: { ...process.env, LANG: "en_US.UTF-8", LC_ALL: "en_US.UTF-8" },
    timeout: 60_000,
  });
});
after(() => browser?.close());

/** A page in a profile of its own, which keeps what went wrong in it. */
async function open(address = "") {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT.timeout);
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(error.message));
  page.on("console", (message) => {
    if (/content security policy|trusted/i.test(message.text())) page.faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${scene.url}/console`)) page.faults.push(`asked ${request.url()}`);
  });
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(`${scene.url}/console/${address}`);
  return page;
}

async function signIn(page, key = scene.key) {
  await page.waitForSelector("input[name=key]");
  await page.type("input[name=key]", key);
  await page.click("button[type=submit]");
  await page.waitForSelector("nav.side");
}

async function signedIn(address = "", key = scene.key) {
  const page = await open(address);
  await signIn(page, key);
  return page;
}

/** Go to an address and wait until its page stands: its heading, and nothing that still loads. */
async function visit(page, address, heading) {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, address);
  await page.waitForFunction(
    (wanted) =>
      document.querySelector("h1")?.textContent === wanted && !document.querySelector(".waiting"),
    WAIT,
    heading,
  );
}

const text = (page, selector = "main") => page.$eval(selector, (one) => one.innerText);
const saying = (page, words) =>
  page.waitForFunction((wanted) => document.body.innerText.includes(wanted), WAIT, words);
const press = async (page, label, within = "main") => {
  const handle = await page.waitForFunction(
    (wanted, place) =>
      [...document.querySelectorAll(`${place} button, ${place} a`)].find(
        (one) => one.textContent === wanted && !one.disabled,
      ),
    WAIT,
    label,
    within,
  );
  await handle.evaluate((one) => one.click());
};

const lookedAt = (page) =>
  page.evaluate(async () => {
    const { axe } = globalThis;
    const tags = ["wcag2a", "wcag2aa", "wcag21aa"];
    const found = await axe.run({ resultTypes: ["violations"], runOnly: tags });
    return found.violations;
  });

const biz = scene.biz;
const PAGES = [
  ["#/", "Overview"],
  [`#/b/${biz}/jobs`, `Jobs of ${biz}`],
  [`#/b/${biz}/jobs/new`, `Start a job of ${biz}`],
  [`#/b/${biz}/jobs/${scene.job}`, `Job ${scene.job}`],
  [`#/b/${biz}/requests`, `Requests of ${biz}`],
  [`#/b/${biz}/requests/${scene.request}`, `Request ${scene.request}`],
  [`#/b/${biz}/records`, `Records of ${biz}`],
  [`#/b/${biz}/dead-letters`, `Dead letters of ${biz}`],
  [`#/b/${biz}/dead-letters/${scene.dead}`, `Dead letter ${scene.dead}`],
  [`#/b/${biz}/rules/page`, `Rule page of ${biz}`],
  [`#/b/${biz}/schedules`, `Schedules of ${biz}`],
  [`#/b/${biz}/schedules/nightly`, "Schedule nightly"],
  ["#/fleet", "Fleet"],
  ["#/incidents?state=all", "Incidents"],
  [`#/configuration?path=bizs/default/${biz}`, `Configuration: bizs/default/${biz}`],
  ["#/tenants", "Tenants"],
];

test("a wrong key is refused in words, and the right one leaves no trace in the page", async () => {
  const page = await open();
  await page.waitForSelector("input[name=key]");
  await page.type("input[name=key]", "wrong-key-of-nobody");
  await page.click("button[type=submit]");
  await saying(page, "This API key is not valid here.");
  await page.$eval("input[name=key]", (field) => {
    field.value = "";
  });
  await signIn(page);
  const left = await page.evaluate(() => [
    document.documentElement.outerHTML,
    location.href,
    document.cookie,
    JSON.stringify({ ...globalThis.localStorage, ...globalThis.sessionStorage }),
  ]);
  assert.ok(left.every((one) => !one.includes(scene.key)));
  assert.equal(left[2], "");
  assert.deepEqual(page.faults, []);
});

test("each page shows what it is of, in any width and light, and axe finds nothing serious", async () => {
  const page = await signedIn();
  await page.evaluate(AXE);
  for (const [place, [address, heading]] of PAGES.entries()) {
    const name = heading.replace(/[^a-z]+/gi, "-").replace(/-$/, "").toLowerCase();
    const looks = [
      ["light", 1280],
      ["dark", 360],
    ];
    for (const [turn, [scheme, width]] of looks.entries()) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.setViewport({ width, height: 900 });
      await visit(page, address, heading);
      // Pages share their parts and colours: every other one is looked at in the dark, and narrow.
      const violations = turn === place % 2 ? await lookedAt(page) : [];
      const serious = violations
        .filter((one) => ["serious", "critical"].includes(one.impact))
        .map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
      assert.deepEqual(serious, [], `${address} in ${scheme}`);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${address} is ${over} px too wide at ${width}`);
      assert.equal(await page.$(".failure[role=alert]"), null, `${address}: ${await text(page)}`);
      assert.match(await page.title(), / · Crawlfleet$/);
      await page.screenshot({ path: `${scene.shots}/${name}-${scheme}-${width}.png`, fullPage: true });
    }
  }
  assert.deepEqual(page.faults, []);
});

test("what a site, a URL or an error says is shown as text, and runs nothing", async () => {
  const page = await signedIn();
  for (const [address, heading] of PAGES.filter(([one]) => one.includes(`/b/${biz}/`))) {
    await visit(page, address, heading);
    assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  }
  await visit(page, `#/b/${biz}/records`, `Records of ${biz}`);
  assert.ok((await text(page)).includes(scene.hostile));
  await visit(page, `#/b/${biz}/dead-letters/${scene.dead}`, `Dead letter ${scene.dead}`);
  assert.ok((await text(page)).includes(scene.hostile));
  await visit(page, `#/b/${biz}/requests/${encodeURIComponent(scene.hostile)}`, `Request ${scene.hostile}`);
  assert.ok(await page.$(".failure[role=alert]"));
  assert.equal(await page.$("main img, main script, main iframe"), null);
  assert.deepEqual(page.faults, []);
});

test("a job shows a ledger that sums up, its forecast beside the truth, and what failed", async () => {
  const page = await signedIn();
  await visit(page, `#/b/${biz}/jobs/${scene.job}`, `Job ${scene.job}`);
  const shown = await text(page);
  assert.match(shown, /2 submitted = 1 done \(50 %\) \+ 1 dead \(50 %\)/);
  assert.ok(!shown.includes("difference"));
  for (const words of ["Forecast and truth", "Errors by kind", "PageGone", "Fields of rule page"])
    assert.ok(shown.includes(words), `${words} in ${shown}`);
});

test("a request is found by its id and by its URL, and says why it is where it is", async () => {
  const page = await signedIn();
  await visit(page, `#/b/${biz}/requests?id=${scene.request}`, `Request ${scene.request}`);
  assert.ok((await text(page)).includes("It was read in attempt 1"));
  assert.ok(await page.$("svg.picture circle"));
  await visit(page, `#/b/${biz}/requests?url=${encodeURIComponent(scene.page)}`, `Requests of ${biz}`);
  await saying(page, "Why it is where it is");
});

test("lists page on the server, and back and forward keep their place", async () => {
  const page = await signedIn();
  await visit(page, `#/b/${biz}/requests?state=dead`, `Requests of ${biz}`);
  assert.equal((await page.$$("tbody tr")).length, 2);
  await visit(page, `#/b/${biz}/requests?state=done&order=oldest`, `Requests of ${biz}`);
  await page.goBack();
  await page.waitForFunction(() => location.hash.includes("state=dead"), WAIT);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 2, WAIT);
});

test("dead letters are counted before they are replayed, and as many are replayed", async () => {
  const page = await signedIn();
  await visit(page, `#/b/${biz}/dead-letters?text=replay-me`, `Dead letters of ${biz}`);
  await press(page, "Count");
  await saying(page, "1 dead letters with text replay-me would be replayed.");
  await press(page, "Replay these");
  await press(page, "Replay these", "dialog[open]");
  await saying(page, "1 are replayed.");
});

test("a rule is checked, tried on a page, put in force, compared and rolled back", async () => {
  const page = await signedIn();
  const write = async (content) => {
    const editor = await page.waitForSelector(".editor");
    await editor.evaluate((one) => one.shadowRoot.querySelector("[contenteditable]").focus());
    await page.keyboard.down("Control");
    await page.keyboard.press("a");
    await page.keyboard.up("Control");
    await page.keyboard.sendCharacter(content);
  };
  await visit(page, `#/b/${biz}/rules/page`, `Rule page of ${biz}`);
  await write('{"fields": {"title": {"css": "title", "regexp": "x"}}}');
  await press(page, "Check");
  await page.waitForSelector(".act .failure");
  assert.match(await text(page, ".act .failure"), /regexp/);
  await write('{"fields": {"heading": {"css": "h1"}}}');
  await page.type("textarea[name=body]", "<h1>Tried</h1>");
  await press(page, "Try the edited rule");
  await saying(page, '"heading": "Tried"');
  await press(page, "Check");
  await saying(page, "It may be put in force.");
  await press(page, "Put in force");
  await press(page, "Put in force", "dialog[open]");
  await page.waitForFunction(
    () =>
      document.querySelectorAll(".history tbody tr").length === 2 &&
      !document.querySelector(".waiting"),
    WAIT,
  ).catch(async (error) => {
    throw new Error(`${error.message}: ${await text(page)}`, { cause: error });
  });
  await press(page, "With now");
  await saying(page, "There is no difference.");
  const rows = await page.$$(".history tbody tr");
  await rows[1].$$eval("button", (all) => all.find((one) => one.textContent === "Roll back").click());
  await press(page, "Roll back", "dialog[open]");
  await page.waitForFunction(
    () => document.querySelectorAll(".history tbody tr").length === 3,
    WAIT,
  );
  assert.deepEqual(page.faults, []);
});

test("another tenant sees nothing of this one, and is told that there is nothing", async () => {
  const page = await signedIn("", scene.rival);
  assert.ok(!(await text(page, "nav.side")).includes("Tenants"));
  await page.evaluate((hash) => {
    location.hash = hash;
  }, `#/b/${biz}/jobs/${scene.job}`);
  await page.waitForSelector(".failure[role=alert]");
  assert.ok(!(await text(page)).includes("submitted ="));
  await page.evaluate(() => {
    location.hash = "#/configuration";
  });
  await saying(page, "bizs/rival/shop");
  assert.ok(!(await text(page)).includes("bizs/default"));
});

test("a platform that is away is told, what was known stays and is said to be old", async () => {
  const page = await signedIn();
  await visit(page, "#/", "Overview");
  await saying(page, "Bizs, the late ones first");
  let isAway = true;
  await page.setRequestInterception(true);
  page.on("request", (request) =>
    isAway && request.url().includes("/api/") ? request.abort() : request.continue(),
  );
  await saying(page, "The platform cannot be reached.");
  assert.ok((await text(page)).includes("What follows is of"));
  assert.ok((await text(page)).includes("Bizs, the late ones first"));
  await page.evaluate((hash) => {
    location.hash = hash;
  }, `#/b/${biz}/jobs`);
  await page.waitForFunction(() => document.querySelector("h1")?.textContent.startsWith("Jobs"), WAIT);
  await page.waitForSelector(".failure[role=alert]");
  assert.ok(!(await text(page)).includes("There is no such job."));
  isAway = false;
  await press(page, "Try again");
  await page.waitForFunction(() => !document.querySelector("main .failure"), WAIT);
  await page.waitForSelector("tbody tr");
});

test("a slow platform is waited for, and its answer to the page before is not shown", async () => {
  const page = await signedIn();
  const held = [];
  await page.setRequestInterception(true);
  page.on("request", (request) =>
    request.url().includes("/records?") ? held.push(request) : request.continue(),
  );
  await page.evaluate((hash) => {
    location.hash = hash;
  }, `#/b/${biz}/records`);
  await saying(page, "Loading …");
  await visit(page, `#/b/${biz}/schedules`, `Schedules of ${biz}`);
  for (const request of held) await request.continue().catch(() => undefined);
  assert.ok((await text(page)).includes("nightly"));
  assert.equal(await page.$("article.record"), null);
});

test("an address that changes while the page comes up is followed", async () => {
  const page = await open();
  await page.evaluate((hash) => {
    new MutationObserver((_, watcher) => {
      if (!document.querySelector("nav.side")) return;
      watcher.disconnect();
      location.hash = hash;
    }).observe(document.body, { childList: true, subtree: true });
  }, `#/b/${biz}/jobs`);
  await signIn(page);
  await page.waitForFunction(
    (wanted) => document.querySelector("h1")?.textContent === wanted,
    WAIT,
    `Jobs of ${biz}`,
  );
});

test("a session that has ended asks for the key again, and goes on where it was", async () => {
  const page = await signedIn(`#/b/${biz}/jobs/${scene.job}`);
  await page.waitForSelector(".ledger");
  await page.deleteCookie(...(await page.cookies()));
  await page.evaluate((hash) => {
    location.hash = hash;
  }, `#/b/${biz}/records`);
  await saying(page, "The session has ended.");
  await signIn(page);
  await page.waitForSelector("article.record");
  await press(page, "Sign out", ".top");
  await page.waitForSelector("input[name=key]");
  assert.deepEqual(await page.cookies(), []);
});

test("a hidden tab asks nothing, and one that is seen again asks at once", async () => {
  const page = await open();
  // Time is the test's: waits of a second and more are kept until they are let go.
  await page.evaluateOnNewDocument(() => {
    const [wait, ask] = [globalThis.setTimeout, globalThis.fetch];
    globalThis.due = [];
    globalThis.asked = 0;
    globalThis.setTimeout = (act, ms, ...rest) =>
      ms >= 1000 ? globalThis.due.push(act) : wait(act, ms, ...rest);
    globalThis.fetch = (...call) => {
      globalThis.asked += 1;
      return ask(...call);
    };
  });
  await page.reload();
  await signIn(page);
  await page.waitForFunction(() => globalThis.due.length >= 3, WAIT); // incidents, money, fleet
  const letGo = () =>
    page.evaluate(() => {
      const before = globalThis.asked;
      for (const act of globalThis.due.splice(0)) act();
      return globalThis.asked - before;
    });
  assert.ok((await letGo()) >= 3);
  await page.waitForFunction(() => globalThis.due.length >= 3, WAIT);
  await page.evaluate(() => {
    Object.defineProperty(document, "visibilityState", { get: () => "hidden", configurable: true });
  });
  assert.equal(await letGo(), 0);
  const woken = await page.evaluate(() => {
    const before = globalThis.asked;
    delete document.visibilityState;
    document.dispatchEvent(new Event("visibilitychange"));
    return globalThis.asked - before;
  });
  assert.ok(woken >= 3);
});

test("the keyboard alone reaches each part of a page", async () => {
  const page = await signedIn();
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Skip to the page");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
});
