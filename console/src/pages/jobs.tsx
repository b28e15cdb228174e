// Jobs: the list, one of them whole, and starting one.
import { useState } from "preact/hooks";
import { send, useLoad } from "../api.ts";
import { NONE, bytes, money, number, percent, span } from "../format.ts";
import { Act, Facts, Failure, Figure, Filters, Head, Ledger, Pager, Shown, State, Table, Time } from "../parts.tsx";
import { href, path } from "../route.ts";
import type { Biz, DeadLetter, Job, JobWhole, Page, Range } from "../types.ts";

const STATES = ["placing", "expanding", "running", "cancelling", "done", "cancelled", "unplaced"];
const ENDED = new Set(["done", "cancelled", "unplaced"]);

export function Jobs({ biz, query }: { biz: string; query: Record<string, string> }) {
  const parts = ["b", biz, "jobs"];
  const list = useLoad<Page & { jobs: Job[] }>(path([biz, "jobs"], { ...query, limit: 50 }), 10);
  return (
    <>
      <Head title={`Jobs of ${biz}`}>
        <a class="button" href={href([...parts, "new"])}>
          Start a job
        </a>
      </Head>
      <Filters
        parts={parts}
        query={query}
        fields={[
          { name: "state", label: "State", values: STATES },
          { name: "spider", label: "Spider" },
          { name: "schedule", label: "Schedule" },
        ]}
      />
      <Shown of={list}>
        {(page) => (
          <>
            <Table
              caption="Jobs, the newest first"
              empty="There is no such job."
              rows={page.jobs}
              id={(row) => row.name}
              columns={[
                { head: "Job", cell: (row) => <a href={href([...parts, row.name])}>{row.name}</a> },
                { head: "State", cell: (row) => <State of={row.state} /> },
                { head: "What", cell: (row) => row.spider ?? (row.rule || row.by) },
                {
                  head: "Parameters",
                  cell: (row) =>
                    Object.entries(row.values)
                      .map(([name, value]) => `${name}=${value}`)
                      .join(", ") || NONE,
                },
                { head: "Tasks", numeric: true, cell: (row) => number(row.size) },
                { head: "Done", numeric: true, cell: (row) => number(row.counts["done"] ?? 0) },
                { head: "Dead", numeric: true, cell: (row) => number(row.counts["dead"] ?? 0) },
                { head: "Created", cell: (row) => <Time at={row.created_at} /> },
                { head: "Ended", cell: (row) => <Time at={row.ended_at} /> },
              ]}
            />
            <Pager page={page} parts={parts} query={query} />
          </>
        )}
      </Shown>
    </>
  );
}

export function JobPage({ biz, id }: { biz: string; id: string }) {
  const [ended, setEnded] = useState(false);
  const job = useLoad<JobWhole>(path([biz, "jobs", id]), ended ? 0 : 3);
  if (job.data && ENDED.has(job.data.state) !== ended) setEnded(!ended);
  const retry = async (rule: "frozen" | "current") => {
    let count = 0;
    for (;;) {
      const did = await send<{ retried: number; more: boolean }>("POST", path([biz, "jobs", id, "retry"]), { rule });
      count += did.retried;
      if (!did.more || !did.retried) break;
    }
    job.reload();
    return `${number(count)} failed tasks are retried.`;
  };
  return (
    <>
      <Head title={`Job ${id}`}>
        {job.data && !ENDED.has(job.data.state) && (
          <Act
            label="Cancel"
            danger
            ask={<p>What is open of it ends, downloads under way too. What was read stays.</p>}
            act={async () => {
              await send("POST", path([biz, "jobs", id, "cancel"]));
              job.reload();
              return "It is being cancelled.";
            }}
          />
        )}
        {(job.data?.counts["dead"] ?? 0) > 0 && (
          <Act
            label="Retry failed tasks"
            ask={<p>{number(job.data?.counts["dead"])} tasks failed; they are tried again by the rule as it is now.</p>}
            act={() => retry("current")}
          />
        )}
        {job.data && (job.data.spider ?? job.data.rule) && (
          <a
            class="button"
            href={href(["b", biz, "jobs", "new"], {
              [job.data.spider && job.data.spider !== job.data.rule ? "spider" : "rule"]:
                job.data.spider ?? job.data.rule,
            })}
          >
            Run again
          </a>
        )}
      </Head>
      <Shown of={job}>
        {(one) => (
          <>
            {one.trouble && (
              <p class="failure" role="alert">
                It does not go on: {one.trouble}
              </p>
            )}
            <dl class="figures">
              <Figure name="State" value={one.state} />
              <Figure
                name="Progress"
                value={percent(one.progress?.ended_share)}
                note={`${number(one.progress?.ended)} of ${number(one.progress?.tasks)} tasks`}
              />
              <Figure name="Pages a second" value={number(one.progress?.per_second)} />
              <Figure name="Cost" value={money(one.cost?.usd)} note={one.cost ? `${money(one.cost.per_1000_pages)} a 1,000 pages` : ""} />
            </dl>
            {one.ledger ? <Ledger of={one.ledger} /> : <p class="muted">Its ledger is not known.</p>}
            <Facts
              rows={[
                ["Rule", one.rule && `${one.rule} (${one.rule_version})`],
                ["Spider", one.spider],
                ["Schedule", one.schedule],
                ["Started by", one.by],
                ["Priority", number(one.priority)],
                ["Worker", one.worker],
                ["Created", <Time at={one.created_at} />],
                [one.ended_at ? "Ended" : "Ends, at this rate", <Time at={one.ended_at ?? one.progress?.ends_at} />],
                ["Pattern", one.pattern],
              ]}
            />
            <Forecast job={one} />
            <Fields job={one} />
            <Errors biz={biz} id={id} dead={one.ledger?.["dead"] ?? 0} />
            <p>
              <a href={href(["b", biz, "requests"], { job: id })}>Its requests</a> ·{" "}
              <a href={href(["b", biz, "records"], { job: id })}>Its records</a>
            </p>
            {one.refusals.length > 0 && (
              <section>
                <h2>URLs that may not be asked for</h2>
                <ul>
                  {one.refusals.map((text) => (
                    <li key={text}>{text}</li>
                  ))}
                </ul>
              </section>
            )}
          </>
        )}
      </Shown>
    </>
  );
}

function Forecast({ job }: { job: JobWhole }) {
  const { forecast, took } = job;
  if (!forecast) return null;
  const rows: [string, Range, number | undefined, (value: number | undefined) => string][] = [
    ["Pages", forecast.pages, took?.pages, number],
    ["Bytes", forecast.bytes, took?.bytes, bytes],
    ["Time", forecast.seconds, took?.seconds, span],
    ["Cost", forecast.usd, took?.usd, money],
  ];
  return (
    <section>
      <h2>Forecast and truth</h2>
      <Table
        caption="The forecast at its start, and what it took"
        empty=""
        rows={rows}
        id={([name]) => name}
        columns={[
          { head: "Of", cell: ([name]) => name },
          { head: "At least", numeric: true, cell: ([, range, , shown]) => shown(range.low) },
          { head: "Likely", numeric: true, cell: ([, range, , shown]) => shown(range.likely) },
          { head: "At most", numeric: true, cell: ([, range, , shown]) => shown(range.high) },
          { head: "Took", numeric: true, cell: ([, , truth, shown]) => shown(truth) },
          {
            head: "Verdict",
            cell: ([, range, truth]) =>
              truth === undefined ? NONE : truth > range.high ? "above" : truth < range.low ? "below" : "within",
          },
        ]}
      />
      <ul class="muted">
        {forecast.why.map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    </section>
  );
}

function Fields({ job }: { job: JobWhole }) {
  return (
    <>
      {job.coverage.map((one) => (
        <section key={one.rule}>
          <h2>
            Fields of rule {one.rule}: {number(one.records)} records of {number(one.pages)} pages
          </h2>
          <ul class="coverage">
            {one.fields.map((field) => (
              <li key={field.name}>
                <code>{field.name}</code>
                <meter min={0} max={1} low={0.1} value={field.share} aria-label={`${field.name}: ${percent(field.share)}`} />
                <span>{percent(field.share)}</span>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

function Errors({ biz, id, dead }: { biz: string; id: string; dead: number }) {
  const letters = useLoad<Page & { dead_letters: DeadLetter[] }>(
    dead ? path([biz, "dead-letters"], { job: id, limit: 200 }) : null,
  );
  if (!dead) return null;
  return (
    <section>
      <h2>
        <a href={href(["b", biz, "dead-letters"], { job: id })}>Errors by kind</a>
      </h2>
      <Shown of={letters}>
        {(page) => {
          const kinds = new Map<string, DeadLetter[]>();
          for (const one of page.dead_letters) {
            const kind = one.reason ?? "unknown";
            kinds.set(kind, [...(kinds.get(kind) ?? []), one]);
          }
          return (
            <Table
              caption={page.more ? "Of the first 200 dead letters" : "Of its dead letters"}
              empty="Its dead letters are gone: they were replayed, purged or are too old."
              rows={[...kinds].toSorted((one, other) => other[1].length - one[1].length)}
              id={([kind]) => kind}
              columns={[
                {
                  head: "Kind",
                  cell: ([kind]) => <a href={href(["b", biz, "dead-letters"], { job: id, reason: kind })}>{kind}</a>,
                },
                { head: "Tasks", numeric: true, cell: ([, found]) => number(found.length) },
                { head: "For example", wide: true, cell: ([, found]) => found[0]?.error ?? NONE },
              ]}
            />
          );
        }}
      </Shown>
    </section>
  );
}

export function StartJob({ biz, known }: { biz: string; known: Biz | undefined }) {
  const given = new URLSearchParams(location.hash.split("?")[1] ?? "");
  const [error, setError] = useState<Error>();
  const [forecast, setForecast] = useState<string>();
  const [busy, setBusy] = useState(false);
  const run = async (form: HTMLFormElement, isForecast: boolean) => {
    const value = (name: string) => String(new FormData(form).get(name) ?? "").trim();
    const urls = value("urls").split(/\s+/).filter(Boolean);
    const order: Record<string, unknown> = value("spider")
      ? { spider: value("spider") }
      : { rule: value("rule"), urls };
    if (value("priority")) order["priority"] = Number(value("priority"));
    setBusy(true);
    setError(undefined);
    setForecast(undefined);
    try {
      if (isForecast) {
        const said = await send<{ pages: Range; usd: Range }>("POST", path([biz, "forecasts"]), order);
        setForecast(
          `Likely ${number(said.pages.likely)} pages (${number(said.pages.low)} to ${number(said.pages.high)}) for ${money(said.usd.likely)} (${money(said.usd.low)} to ${money(said.usd.high)}).`,
        );
      } else {
        const job = await send<Job>("POST", path([biz, "jobs"]), order);
        location.hash = href(["b", biz, "jobs", job.name]);
      }
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy(false);
  };
  return (
    <>
      <Head title={`Start a job of ${biz}`} />
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          const pressed = event.submitter as HTMLButtonElement | null;
          void run(event.currentTarget, pressed?.name === "forecast");
        }}
      >
        <label>
          <span>Kept spider</span>
          <input name="spider" defaultValue={given.get("spider") ?? ""} />
          <small>A spider knows its URLs; or leave it empty, and say a rule and URLs.</small>
        </label>
        <label>
          <span>Rule</span>
          <select name="rule">
            {(known?.rules ?? []).map((name) => (
              <option key={name} value={name} selected={given.get("rule") === name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>URLs, one a line</span>
          <textarea name="urls" rows={6} defaultValue={given.get("urls") ?? ""} spellcheck={false} />
        </label>
        <label>
          <span>Priority, 0 (first) to 10</span>
          <input name="priority" type="number" min={0} max={10} />
        </label>
        <div class="tools">
          <button type="submit" disabled={busy}>
            Start
          </button>
          <button type="submit" name="forecast" class="quiet" disabled={busy}>
            Forecast
          </button>
        </div>
      </form>
      {forecast && <p role="status">{forecast}</p>}
      {error && <Failure error={error} />}
    </>
  );
}
