// Dead letters: by reason, one whole, and replaying those of a filter.
import { get, send, useLoad } from "../api.ts";
import { NONE, number, span } from "../format.ts";
import { Act, Facts, Filters, Head, Outside, Pager, Shown, State, Steps, Table, Time } from "../parts.tsx";
import { href, path } from "../route.ts";
import type { DeadLetter, Page } from "../types.ts";

type Letters = Page & { dead_letters: DeadLetter[] };

const FIELDS = ["reason", "status", "rule", "host", "job", "text", "since", "until"] as const;
const AT_ONCE = 1000;
const MOST_COUNTED = 10_000;

/** The filter of an address as the call that replays wants it. */
export function filterOf(query: Record<string, string>): Record<string, string | number> {
  return Object.fromEntries(
    FIELDS.flatMap((name): [string, string | number][] => {
      const value = query[name];
      return value ? [[name, name === "status" ? Number(value) : value]] : [];
    }),
  );
}

async function count(biz: string, query: Record<string, string>): Promise<string> {
  let found = 0;
  let cursor: string | undefined;
  do {
    const page: Letters = await get(path([biz, "dead-letters"], { ...filterOf(query), limit: AT_ONCE, cursor }));
    found += page.dead_letters.length;
    cursor = page.more ? (page.cursor ?? undefined) : undefined;
  } while (cursor && found < MOST_COUNTED);
  return cursor ? `more than ${number(found)}` : number(found);
}

async function replay(biz: string, query: Record<string, string>): Promise<string> {
  const filter = filterOf(query);
  const all = Object.keys(filter).length === 0;
  let [replayed, skipped] = [0, 0];
  let cursor: string | null = null;
  for (;;) {
    const did: Page & { replayed: number; skipped: number } = await send(
      "POST",
      path([biz, "dead-letters", "replay"]),
      { filter, ...(all ? { all } : {}), rule: "current", ...(cursor ? { cursor } : {}) },
    );
    replayed += did.replayed;
    if (!cursor) skipped = did.skipped;
    if (!did.more || !did.cursor) break;
    cursor = did.cursor;
  }
  return `${number(replayed)} are replayed${skipped ? `, ${number(skipped)} are too old for it` : ""}.`;
}

export function DeadLetters({ biz, query }: { biz: string; query: Record<string, string> }) {
  const parts = ["b", biz, "dead-letters"];
  const list = useLoad<Letters>(path([biz, "dead-letters"], { ...query, limit: 200 }));
  return (
    <>
      <Head title={`Dead letters of ${biz}`}>
        <Counted biz={biz} query={query} onDone={list.reload} />
        <button type="button" class="quiet" onClick={list.reload}>
          Reload
        </button>
      </Head>
      <Filters
        parts={parts}
        query={query}
        fields={[
          { name: "reason", label: "Reason" },
          { name: "status", label: "HTTP status" },
          { name: "rule", label: "Rule" },
          { name: "host", label: "Host" },
          { name: "job", label: "Job" },
          { name: "text", label: "Text" },
        ]}
      />
      <Shown of={list}>
        {(page) => (
          <>
            <Groups rows={page.dead_letters} parts={parts} query={query} more={page.more} />
            <Table
              caption="Dead letters, the oldest first"
              empty="There is no such dead letter."
              rows={page.dead_letters}
              id={(row) => row.id}
              columns={[
                { head: "Request", cell: (row) => <a href={href([...parts, row.id])}>{row.id}</a> },
                { head: "Reason", cell: (row) => row.reason ?? NONE },
                { head: "Status", numeric: true, cell: (row) => row.status || NONE },
                { head: "URL", wide: true, cell: (row) => <span class="url">{row.url}</span> },
                { head: "Error", wide: true, cell: (row) => row.error ?? NONE },
                { head: "Attempts", numeric: true, cell: (row) => number(row.attempts) },
                { head: "Queued", cell: (row) => <Time at={row.queued_at} /> },
              ]}
            />
            <Pager page={page} parts={parts} query={query} />
          </>
        )}
      </Shown>
    </>
  );
}

/** Replay in two steps: what it would do is counted by the server, and then done when told to. */
function Counted({ biz, query, onDone }: { biz: string; query: Record<string, string>; onDone: () => void }) {
  const filter = filterOf(query);
  const said = Object.entries(filter)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
  return (
    <>
      <Act
        label="Count"
        act={async () => `${await count(biz, query)} dead letters ${said ? `with ${said}` : "in all"} would be replayed.`}
      />
      <Act
        label="Replay these"
        ask={
          <p>
            All dead letters {said ? `with ${said}` : "of this biz"} are queued again, by their rules as they are
            now. Count says how many.
          </p>
        }
        act={async () => {
          const did = await replay(biz, query);
          onDone();
          return did;
        }}
      />
    </>
  );
}

function Groups({
  rows,
  parts,
  query,
  more,
}: {
  rows: DeadLetter[];
  parts: string[];
  query: Record<string, string>;
  more: boolean;
}) {
  const groups = new Map<string, DeadLetter[]>();
  for (const one of rows) {
    const reason = one.reason ?? "unknown";
    groups.set(reason, [...(groups.get(reason) ?? []), one]);
  }
  if (groups.size < 1 || query["reason"]) return null;
  return (
    <Table
      caption={`By reason, ${more ? "of this page" : "of all of them"}`}
      empty=""
      rows={[...groups].toSorted((one, other) => other[1].length - one[1].length)}
      id={([reason]) => reason}
      columns={[
        {
          head: "Reason",
          cell: ([reason]) => <a href={href(parts, { ...query, reason, cursor: undefined })}>{reason}</a>,
        },
        { head: "Dead letters", numeric: true, cell: ([, found]) => number(found.length) },
        {
          head: "Hosts",
          cell: ([, found]) => number(new Set(found.map((one) => URL.parse(one.url)?.host ?? "")).size),
        },
        { head: "For example", wide: true, cell: ([, found]) => found[0]?.error ?? NONE },
      ]}
    />
  );
}

export function DeadLetterPage({ biz, id }: { biz: string; id: string }) {
  const letter = useLoad<DeadLetter>(path([biz, "dead-letters", id]));
  return (
    <>
      <Head title={`Dead letter ${id}`}>
        {letter.data && (
          <>
            <Act
              label="Replay"
              act={async () => {
                await send("POST", path([biz, "dead-letters", id, "replay"]), { rule: "current" });
                return "It is queued again.";
              }}
            />
            <Act
              label="Remove"
              danger
              ask={<p>It cannot be replayed any more; the ledger still counts it as dead.</p>}
              act={async () => {
                await send("DELETE", path([biz, "dead-letters", id]));
                return "It is removed.";
              }}
            />
          </>
        )}
      </Head>
      <Shown of={letter}>
        {(one) => (
          <>
            <p>
              <State of="dead" /> <Outside url={one.url} />
            </p>
            <p class="failure">
              <strong>{one.reason}</strong> {one.error}
            </p>
            <Facts
              rows={[
                ["Request", <a href={href(["b", biz, "requests", id])}>{id}</a>],
                ["Rule", one.rule],
                ["Job", one.job && <a href={href(["b", biz, "jobs", one.job])}>{one.job}</a>],
                ["Attempts", number(one.attempts)],
                ["Last answer", one.answer ? `HTTP ${one.answer.status} in ${span(one.answer.seconds)}` : "none came"],
                ["Queued", <Time at={one.queued_at} />],
              ]}
            />
            {one.answer && <Facts rows={Object.entries(one.answer.headers)} />}
            {one.sample && (
              <section>
                <h2>The beginning of the body{one.sample.encoding === "base64" && ", in base64"}</h2>
                <pre class="sample" tabIndex={0} aria-label="Body">
                  {one.sample.content}
                </pre>
              </section>
            )}
            {one.timeline && (
              <section>
                <h2>Timeline</h2>
                <Steps events={one.timeline} />
              </section>
            )}
          </>
        )}
      </Shown>
    </>
  );
}
