// The parts that pages are made of. Text is always text: no part takes HTML.
import type { ComponentChildren, TargetedEvent } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { CallError, type Loaded } from "./api.ts";
import { NONE, STATES, ledgerParts, number, percent, time, zoneName } from "./format.ts";
import { href } from "./route.ts";

export function Head({ title, children }: { title: string; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Crawlfleet`;
  }, [title]);
  return (
    <header class="head">
      <h1 tabIndex={-1}>{title}</h1>
      <div class="tools">{children}</div>
    </header>
  );
}

export function Failure({ error, again }: { error: Error; again?: () => void }) {
  const mistakes = error instanceof CallError ? error.mistakes : [];
  return (
    <div class="failure" role="alert">
      <p>
        <strong>This did not work.</strong> {error.message}
      </p>
      {mistakes.length > 0 && (
        <ul>
          {mistakes.map((one, index) => (
            <li key={index}>
              {one.field && <code>{one.field}</code>} {one.message}
            </li>
          ))}
        </ul>
      )}
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Show what was loaded; an error beside it, or in its place, and never nothing. */
export function Shown<T>({
  of,
  children,
}: {
  of: Loaded<T>;
  children: (data: T) => ComponentChildren;
}) {
  return (
    <>
      {of.error && (
        <>
          <Failure error={of.error} again={of.reload} />
          {of.at !== undefined && (
            <p class="stale">What follows is of {new Date(of.at).toLocaleTimeString("en-GB")}.</p>
          )}
        </>
      )}
      {of.data !== undefined && children(of.data)}
      {of.data === undefined && !of.error && (
        <p class="waiting" role="status">
          Loading …
        </p>
      )}
    </>
  );
}

export type Column<T> = {
  head: string;
  cell: (row: T) => ComponentChildren;
  numeric?: boolean;
  wide?: boolean;
};

export function Table<T>({
  caption,
  rows,
  columns,
  id,
  empty,
}: {
  caption: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  id: (row: T) => string;
  empty: string;
}) {
  if (!rows.length) return <p class="empty">{empty}</p>;
  return (
    <section class="scroll" tabIndex={0} aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((one) => (
              <th key={one.head} scope="col" class={one.numeric ? "number" : ""}>
                {one.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((one) => (
                <td
                  key={one.head}
                  data-head={one.head}
                  class={`${one.numeric ? "number" : ""} ${one.wide ? "wide" : ""}`}
                >
                  {one.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const GOOD = new Set(["done", "alive", "ok", "up", "running", "waiting", "started", "over", "current"]);
const BAD = new Set(["dead", "failed", "unplaced", "critical", "down", "open", "removed"]);
const DOUBTFUL = new Set(["suspected", "warning", "cancelled", "cancelling", "expired", "paused", "late"]);

/** A state in a word; its colour only says it again. */
export function State({ of }: { of: string | null | undefined }) {
  if (!of) return <>{NONE}</>;
  const kind = GOOD.has(of) ? "good" : BAD.has(of) ? "bad" : DOUBTFUL.has(of) ? "doubtful" : "plain";
  return <span class={`state ${kind}`}>{of}</span>;
}

export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <>{NONE}</>;
  return (
    <time dateTime={at} title={`${at} (shown in ${zoneName()})`}>
      {time(at)}
    </time>
  );
}

/** A link to a page that was crawled: it tells that page nothing, and cannot run a script. */
export function Outside({ url }: { url: string }) {
  if (!/^https?:\/\//i.test(url)) return <span class="url">{url}</span>;
  return (
    <a class="url" href={url} rel="noreferrer noopener external" target="_blank">
      {url}
    </a>
  );
}

export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value === null || value === undefined || value === false || value === "" ? NONE : value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Any value of the API or of a record, as text. */
export function Value({ of }: { of: unknown }) {
  if (of === null || of === undefined) return <span class="muted">null</span>;
  if (typeof of === "object") return <pre class="value">{JSON.stringify(of, null, 2)}</pre>;
  return <span class="text">{String(of)}</span>;
}

export function Figure({ name, value, note }: { name: string; value: string; note?: string }) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>
        {value}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}

/** The ledger as a bar whose parts always sum up to its length; what is missing is said. */
export function Ledger({ of }: { of: Record<string, number> }) {
  const { parts, missing } = ledgerParts(of);
  const total = of["submitted"] ?? 0;
  const told = parts.map((one) => `${one.name} ${number(one.count)}`).join(", ");
  return (
    <figure class="ledger">
      <div class="bar" role="img" aria-label={`${number(total)} submitted: ${told || "none"}`}>
        {parts.map((one) => (
          <span
            key={one.name}
            class={`part s-${one.name}`}
            style={{ flexGrow: String(Math.max(one.share, 0.004)) }}
            title={`${one.name}: ${number(one.count)}`}
          />
        ))}
      </div>
      <figcaption>
        <strong>{number(total)}</strong> submitted ={" "}
        {STATES.filter((name) => of[name]).map((name, index) => (
          <span key={name}>
            {index > 0 && " + "}
            <i class={`dot s-${name}`} aria-hidden="true" />
            {number(of[name])} {name} ({percent((of[name] ?? 0) / Math.max(total, 1))})
          </span>
        ))}
        {missing !== 0 && <strong class="bad"> difference: {number(missing)}</strong>}
      </figcaption>
    </figure>
  );
}

/** The way to the next page of a list. Going back is the browser's. */
export function Pager({
  page,
  parts,
  query,
}: {
  page: { cursor: string | null; more: boolean };
  parts: string[];
  query: Record<string, string>;
}) {
  const { cursor, ...first } = query;
  return (
    <nav class="pager" aria-label="Pages of the list">
      {cursor && <a href={href(parts, first)}>First page</a>}
      {page.more && page.cursor && (
        <a rel="next" href={href(parts, { ...query, cursor: page.cursor })}>
          Next page
        </a>
      )}
      {!page.more && <span class="muted">End of the list</span>}
    </nav>
  );
}

export type Field = { name: string; label: string; values?: readonly string[]; hint?: string };

/** Filters of a list: they are its address, and the server applies them. */
export function Filters({
  fields,
  query,
  parts,
}: {
  fields: readonly Field[];
  query: Record<string, string>;
  parts: string[];
}) {
  const submit = (event: TargetedEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = Object.fromEntries(
      [...new FormData(event.currentTarget)].map(([name, value]) => [name, String(value).trim()]),
    );
    location.hash = href(parts, given);
  };
  return (
    <form class="filters" role="search" onSubmit={submit} key={JSON.stringify(query)}>
      {fields.map((one) => (
        <label key={one.name}>
          <span>{one.label}</span>
          {one.values ? (
            <select name={one.name} defaultValue={query[one.name] ?? ""}>
              <option value="">any</option>
              {one.values.map((value) => (
                <option key={value} value={value} selected={query[one.name] === value}>
                  {value}
                </option>
              ))}
            </select>
          ) : (
            <input name={one.name} defaultValue={query[one.name] ?? ""} placeholder={one.hint ?? ""} />
          )}
        </label>
      ))}
      <button type="submit">Search</button>
      {Object.keys(query).length > 0 && <a href={href(parts)}>Clear</a>}
    </form>
  );
}

/** A button that does something once, says how it went, and asks first where told to. */
export function Act({
  label,
  ask,
  act,
  danger,
  disabled,
}: {
  label: string;
  ask?: ComponentChildren;
  act: () => Promise<string>;
  danger?: boolean;
  disabled?: boolean;
}) {
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState<string>();
  const [error, setError] = useState<Error>();
  const dialog = useRef<HTMLDialogElement>(null);
  const name = useId();
  const run = async () => {
    dialog.current?.close();
    setBusy(true);
    setError(undefined);
    setSaid(undefined);
    try {
      setSaid(await act());
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    }
    setBusy(false);
  };
  return (
    <span class="act">
      <button
        type="button"
        class={danger ? "danger" : ""}
        disabled={busy || disabled}
        onClick={() => (ask ? dialog.current?.showModal() : void run())}
      >
        {busy ? `${label} …` : label}
      </button>
      {ask && (
        <dialog ref={dialog} aria-labelledby={name}>
          <h2 id={name}>{label}?</h2>
          <div>{ask}</div>
          <div class="tools">
            <button type="button" class={danger ? "danger" : ""} onClick={() => void run()}>
              {label}
            </button>
            <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
              Leave it
            </button>
          </div>
        </dialog>
      )}
      <span role="status">{said}</span>
      {error && <Failure error={error} />}
    </span>
  );
}

export function Steps({ events }: { events: readonly { at: string; state: string | null; by: string; why: string; peers: string[] }[] }) {
  const first = events[0] ? new Date(events[0].at).getTime() : 0;
  return (
    <ol class="steps">
      {events.map((one, index) => (
        <li key={index}>
          <span class="when">
            <Time at={one.at} />
            <small>+{number((new Date(one.at).getTime() - first) / 1000)} s</small>
          </span>
          <State of={one.state ?? "event"} />
          <span class="why">
            {one.why}
            <small>
              {one.by}
              {one.peers.length > 0 && ` · asked ${one.peers.join(" → ")}`}
            </small>
          </span>
        </li>
      ))}
    </ol>
  );
}
