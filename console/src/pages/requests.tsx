// Requests: search, one of them with the picture of its decisions; records.
import type { ComponentChildren } from "preact";
import { send, useLoad } from "../api.ts";
import { number } from "../format.ts";
import { Act, Facts, Failure, Filters, Head, Outside, Pager, Shown, State, Steps, Table, Time, Value } from "../parts.tsx";
import { href, path } from "../route.ts";
import type { CrawlRecord, CrawlRequest, Event, Explanation, Page } from "../types.ts";

const STATES = ["pending", "leased", "waiting", "done", "dead", "cancelled", "expired"];

export function Requests({ biz, query }: { biz: string; query: Record<string, string> }) {
  const parts = ["b", biz, "requests"];
  const { url, id, ...filters } = query;
  if (id) location.replace(href([...parts, id]));
  const list = useLoad<Page & { requests: CrawlRequest[] }>(
    url || id ? null : path([biz, "requests"], { order: "newest", ...filters, limit: 50 }),
  );
  return (
    <>
      <Head title={`Requests of ${biz}`}>
        <button type="button" class="quiet" onClick={list.reload}>
          Reload
        </button>
      </Head>
      <Filters
        parts={parts}
        query={query}
        fields={[
          { name: "id", label: "Id" },
          { name: "url", label: "URL", hint: "https://…" },
          { name: "state", label: "State", values: STATES },
          { name: "job", label: "Job" },
          { name: "since", label: "Since", hint: "2026-01-31T00:00Z" },
          { name: "order", label: "First", values: ["newest", "oldest"] },
        ]}
      />
      {url ? (
        <UrlFound biz={biz} url={url} />
      ) : (
        <Shown of={list}>
          {(page) => (
            <>
              <Table
                caption={`Requests by time of queueing, the ${query["order"] ?? "newest"} first`}
                empty="There is no such request."
                rows={page.requests}
                id={(row) => row.id}
                columns={[
                  { head: "Request", cell: (row) => <a href={href([...parts, row.id])}>{row.id}</a> },
                  { head: "State", cell: (row) => <State of={row.state} /> },
                  { head: "URL", wide: true, cell: (row) => <span class="url">{row.url}</span> },
                  { head: "Rule", cell: (row) => row.rule },
                  { head: "Attempts", numeric: true, cell: (row) => number(row.attempts) },
                  { head: "Records", numeric: true, cell: (row) => number(row.records) },
                  { head: "Queued", cell: (row) => <Time at={row.queued_at} /> },
                ]}
              />
              <Pager page={page} parts={parts} query={query} />
            </>
          )}
        </Shown>
      )}
    </>
  );
}

function UrlFound({ biz, url }: { biz: string; url: string }) {
  const found = useLoad<Explanation>(path([biz, "explain"], { url }));
  return (
    <Shown of={found}>
      {(one) => (
        <>
          <h2>
            <Outside url={one.url} />
          </h2>
          <Explained of={one} biz={biz} />
        </>
      )}
    </Shown>
  );
}

export function RequestPage({ biz, id }: { biz: string; id: string }) {
  const request = useLoad<CrawlRequest>(path([biz, "requests", id]));
  const explained = useLoad<Explanation>(path([biz, "requests", id, "explain"]));
  const records = useLoad<Page & { records: CrawlRecord[] }>(path([biz, "records"], { request_id: id, limit: 20 }));
  const reload = () => {
    request.reload();
    explained.reload();
    records.reload();
  };
  return (
    <>
      <Head title={`Request ${id}`}>
        <button type="button" class="quiet" onClick={reload}>
          Reload
        </button>
        {request.data?.state === "pending" && (
          <Act
            label="Cancel"
            danger
            act={async () => {
              await send("DELETE", path([biz, "requests", id]));
              reload();
              return "It is cancelled.";
            }}
          />
        )}
      </Head>
      <Shown of={request}>
        {(one) => (
          <>
            <p>
              <State of={one.state} /> <Outside url={one.url} />
            </p>
            {one.error && <p class="failure">{one.error}</p>}
            <Shown of={explained}>{(said) => <Explained of={said} biz={biz} />}</Shown>
            <Facts
              rows={[
                ["Rule", `${one.rule} (${one.rule_version})`],
                ["Method", one.method],
                ["Attempts", number(one.attempts)],
                ["Worker", one.worker],
                ["Job", one.job && <a href={href(["b", biz, "jobs", one.job])}>{one.job}</a>],
                ["Priority", number(one.priority)],
                ["Queued", <Time at={one.queued_at} />],
                ["Due", <Time at={one.due_at} />],
                ["Dead letter", one.state === "dead" && <a href={href(["b", biz, "dead-letters", id])}>why it was given up on</a>],
                ["Headers", Object.keys(one.headers).length > 0 && <Value of={one.headers} />],
                ["Meta", Object.keys(one.meta).length > 0 && <Value of={one.meta} />],
              ]}
            />
          </>
        )}
      </Shown>
      <h2>Records</h2>
      <Shown of={records}>
        {(page) =>
          page.records.length ? (
            <>
              {page.records.map((one) => (
                <Record key={one.id} of={one} biz={biz} />
              ))}
            </>
          ) : (
            <p class="empty">It has no record.</p>
          )
        }
      </Shown>
    </>
  );
}

/** The decisions as a picture: one row a state, a line from each decision to the next. */
function Explained({ of, biz }: { of: Explanation; biz: string }) {
  return (
    <section>
      <h2>Why it is where it is</h2>
      <p>{of.standing.sentence}</p>
      {of.missing && <p class="muted">{of.missing}</p>}
      {of.steps.length > 1 && <Picture steps={of.steps} />}
      <Steps events={of.steps} />
      {typeof of.standing.facts["request"] === "string" && (
        <a href={href(["b", biz, "requests", of.standing.facts["request"]])}>Its latest request</a>
      )}
    </section>
  );
}

const ROW = 34;
const WIDTH = 720;

function Picture({ steps }: { steps: readonly Event[] }) {
  const names = [...new Set(steps.map((one) => one.state ?? one.kind ?? "event"))];
  const times = steps.map((one) => new Date(one.at).getTime());
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const points = steps.map((one, index) => ({
    // Half by time, half by order: steps of one moment do not lie upon each other.
    x:
      110 +
      (WIDTH - 150) *
        (0.5 * (((times[index] ?? first) - first) / Math.max(last - first, 1)) +
          0.5 * (index / Math.max(steps.length - 1, 1))),
    y: ROW * (names.indexOf(one.state ?? one.kind ?? "event") + 0.5),
    step: one,
  }));
  return (
    <svg
      class="picture"
      viewBox={`0 0 ${WIDTH} ${ROW * names.length}`}
      role="img"
      aria-label={`${steps.length} decisions: ${steps.map((one) => one.state ?? one.kind ?? "event").join(", ")}`}
    >
      {names.map((name, row) => (
        <g key={name}>
          <line class="rule" x1={100} x2={WIDTH - 10} y1={ROW * (row + 0.5)} y2={ROW * (row + 0.5)} />
          <text x={0} y={ROW * (row + 0.5) + 4}>
            {name}
          </text>
        </g>
      ))}
      <polyline class="way" points={points.map((one) => `${one.x},${one.y}`).join(" ")} />
      {points.map((one, index) => (
        <circle key={index} class="stop" cx={one.x} cy={one.y} r={6}>
          <title>{`${one.step.at} ${one.step.state ?? ""}: ${one.step.why}`}</title>
        </circle>
      ))}
    </svg>
  );
}

export function Records({ biz, query }: { biz: string; query: Record<string, string> }) {
  const parts = ["b", biz, "records"];
  const list = useLoad<Page & { records: CrawlRecord[] }>(path([biz, "records"], { order: "newest", ...query, limit: 20 }));
  return (
    <>
      <Head title={`Records of ${biz}`}>
        <button type="button" class="quiet" onClick={list.reload}>
          Reload
        </button>
      </Head>
      <Filters
        parts={parts}
        query={query}
        fields={[
          { name: "rule", label: "Rule" },
          { name: "job", label: "Job" },
          { name: "host", label: "Host" },
          { name: "field", label: "Field, or field=value" },
          { name: "since", label: "Since", hint: "2026-01-31T00:00Z" },
          { name: "order", label: "First", values: ["newest", "oldest"] },
        ]}
      />
      <Shown of={list}>
        {(page) => (
          <>
            {page.records.length === 0 && <p class="empty">There is no such record.</p>}
            {page.records.map((one) => (
              <Record key={one.id} of={one} biz={biz} />
            ))}
            <Pager page={page} parts={parts} query={query} />
          </>
        )}
      </Shown>
    </>
  );
}

function Record({ of, biz }: { of: CrawlRecord; biz: string }) {
  const rows = Object.entries(of.fields).map(([name, value]): [string, ComponentChildren] => [
    name,
    <Value key={name} of={value} />,
  ]);
  return (
    <article class="card record">
      <header>
        <a href={href(["b", biz, "requests", of.request_id])}>{of.id}</a> <Outside url={of.url} />{" "}
        <small>
          rule {of.rule}, stored <Time at={of.stored_at} />
        </small>
      </header>
      {rows.length ? <Facts rows={rows} /> : <Failure error={new Error("The record has no field.")} />}
    </article>
  );
}
