// Numbers, sizes, spans and times for people. Null is never shown as nothing.

export const NONE = "–";
const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const SMALL = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return Math.abs(value) > 0 && Math.abs(value) < 1 ? SMALL.format(value) : NUMBER.format(value);
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${number(value)} ${UNITS[unit] ?? ""}`;
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? NONE : `${number(share * 100)} %`;
}

/** Dollars with so many digits that small sums are not shown as nothing. */
export function money(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return NONE;
  if (usd !== 0 && Math.abs(usd) < 0.01) return `$${usd.toPrecision(2)}`;
  return `$${usd.toFixed(2)}`;
}

export function span(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 60) return `${number(seconds)} s`;
  const whole = Math.round(seconds);
  const [days, hours, minutes] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
  ];
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

/** A time in the zone of whoever looks, which is named; the machine's form is its title. */
export function time(at: string | null | undefined, zone?: string): string {
  if (!at) return NONE;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  return date.toLocaleString("en-GB", {
    dateStyle: "medium",
    timeStyle: "medium",
    ...(zone ? { timeZone: zone } : {}),
  });
}

export function zoneName(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

/** The parts of a ledger in the order of a request's life; they sum up, or the rest is told. */
export const STATES = [
  "done",
  "leased",
  "pending",
  "waiting",
  "others",
  "dead",
  "expired",
  "cancelled",
] as const;

export type Part = { name: string; count: number; share: number };

export function ledgerParts(ledger: Record<string, number>): { parts: Part[]; missing: number } {
  const total = ledger["submitted"] ?? 0;
  const parts = STATES.map((name) => ({ name, count: ledger[name] ?? 0 })).filter((one) => one.count);
  const sum = parts.reduce((before, one) => before + one.count, 0);
  const whole = Math.max(total, sum, 1);
  return {
    parts: parts.map((one) => ({ ...one, share: one.count / whole })),
    missing: total - sum,
  };
}
