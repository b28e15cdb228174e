// What is pure: run by node's own test runner, which strips the types.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, ledgerParts, money, number, percent, span, time } from "../src/format.ts";
import { href, parse, path } from "../src/route.ts";

test("nothing known is a dash and not a nought", () => {
  assert.deepEqual(
    [number(null), bytes(undefined), percent(null), money(null), span(null), time(null)],
    ["–", "–", "–", "–", "–", "–"],
  );
  assert.deepEqual([number(0), bytes(0), percent(0), money(0), span(0)], ["0", "0 B", "0 %", "$0.00", "0 s"]);
});

test("small sums of money are not shown as nothing", () => {
  assert.equal(money(0.000012), "$0.000012");
  assert.equal(money(12.345), "$12.35");
});

test("spans are told in the units that matter", () => {
  assert.deepEqual([span(59.94), span(61), span(7_322), span(90_000)], ["59.9 s", "1 min 1 s", "2 h 2 min", "1 d 1 h"]);
});

test("times are shown in the zone that is asked for", () => {
  assert.match(time("2026-03-29T00:30:00Z", "Europe/Berlin"), /29 Mar 2026, 01:30:00/);
  assert.match(time("2026-03-29T01:30:00Z", "Europe/Berlin"), /29 Mar 2026, 03:30:00/);
});

test("a ledger's bar sums up to the whole, and says what is missing", () => {
  const whole = ledgerParts({ submitted: 10, done: 7, dead: 1, pending: 2 });
  assert.equal(whole.missing, 0);
  assert.ok(Math.abs(whole.parts.reduce((sum, one) => sum + one.share, 0) - 1) < 1e-9);
  assert.equal(ledgerParts({ submitted: 10, done: 7 }).missing, 3);
  assert.deepEqual(ledgerParts({ submitted: 0 }), { parts: [], missing: 0 });
});

test("any name survives its address", () => {
  for (const name of ["docs", "a/b", "50%", "?x=1#y", "ä ö", "<script>", "..", "%zz"]) {
    const address = href(["b", name, "jobs"], { state: name, cursor: undefined });
    assert.deepEqual(parse(address), { parts: ["b", name, "jobs"], query: { state: name } });
  }
});

test("an address that cannot be decoded is taken as it stands", () => {
  assert.deepEqual(parse("#/b/%E0%A4%A/jobs"), { parts: ["b", "%E0%A4%A", "jobs"], query: {} });
  assert.deepEqual(parse(""), { parts: [], query: {} });
});

test("paths of the API leave out what is not asked for", () => {
  assert.equal(path(["shop", "jobs"], { state: "", limit: 50, cursor: undefined }), "shop/jobs?limit=50");
});
