// The overview: what goes on, what waits, what is wrong, what it costs.
import { useEffect, useState } from "preact/hooks";
import { type Session, useLoad } from "../api.ts";
import { money, number, span } from "../format.ts";
import { Figure, Head, Ledger, Shown, State, Table, Time } from "../parts.tsx";
import { Plot } from "../plot.tsx";
import { href, path } from "../route.ts";
import type { Biz, BizState, Costs, Fleet, Incident, Page, Rates, Stats } from "../types.ts";

const SECONDS = 5;
const MOST_POINTS = 720;

export function Overview({ session, bizs }: { session: Session; bizs: Biz[] }) {
  return (
    <>
      <Head title="Overview" />
      <div class="columns">
        <OpenIncidents />
        <Money />
      </div>
      {session.operator ? <WholeFleet tenant={session.tenant} /> : <OwnBizs bizs={bizs} />}
    </>
  );
}

/** Keep what each look has found, for the plots; it goes with the page. */
function useHistory(at: number | undefined, values: readonly number[] | undefined) {
  const [points, setPoints] = useState<number[][]>([]);
  useEffect(() => {
    if (at === undefined || values === undefined) return;
    setPoints((before) =>
      [at / 1000, ...values].map((value, index) =>
        [...(before[index] ?? []), value].slice(-MOST_POINTS),
      ),
    );
    // oxlint-disable-next-line react/exhaustive-deps
  }, [at]);
  return points;
}

function RatePlots({ at, rates, queue }: {
  at: number | undefined;
  rates: Rates | undefined;
  queue: { queued: number; leased: number } | undefined;
}) {
  const of = (kind: "submitted" | "processed", seconds: string) => rates?.[kind][seconds] ?? 0;
  const done = useHistory(at, rates && [of("processed", "1s"), of("processed", "5s"), of("processed", "60s")]);
  const came = useHistory(at, rates && [of("submitted", "5s"), of("processed", "5s")]);
  const waits = useHistory(at, queue && [queue.queued, queue.leased]);
  if (!done.length) return null;
  return (
    <div class="columns">
      <Plot
        title="Processed"
        unit="requests a second"
        points={done}
        series={[
          { name: "1 s", token: "plot3" },
          { name: "5 s", token: "plot1" },
          { name: "60 s", token: "plot2" },
        ]}
      />
      <Plot
        title="In and out"
        unit="requests a second, over 5 s"
        points={came}
        series={[
          { name: "submitted", token: "plot2" },
          { name: "processed", token: "plot1" },
        ]}
      />
      <Plot
        title="Backlog"
        unit="requests"
        points={waits}
        series={[
          { name: "queued", token: "plot2" },
          { name: "leased", token: "plot1" },
        ]}
      />
    </div>
  );
}

function WholeFleet({ tenant }: { tenant: string }) {
  const fleet = useLoad<Fleet>("fleet", SECONDS);
  const data = fleet.data;
  return (
    <Shown of={fleet}>
      {(one) => (
        <>
          <dl class="figures">
            <Figure
              name="Backlog"
              value={number(one.totals.queued)}
              note={one.totals.queued ? `oldest ${span(one.totals.oldest_seconds)}` : "nothing waits"}
            />
            <Figure name="In flight" value={number(one.totals.leased)} />
            <Figure name="Delayed" value={number(one.totals.delayed)} />
            <Figure
              name="Workers"
              value={number(one.workers?.alive)}
              note={`wanted ${number(one.workers?.wanted)}, suspected ${number(one.workers?.suspected)}`}
            />
            <Figure name="Empty in" value={span(one.totals.finish_seconds)} />
            <Figure name="Late bizs" value={number(one.totals.late)} />
          </dl>
          {one.config_refused && (
            <p class="failure" role="alert">
              The newest configuration is not in force: {one.config_refused}
            </p>
          )}
          {one.unread.map((what) => (
            <p class="failure" role="alert" key={what.what}>
              {what.what} could not be read: {what.why}
            </p>
          ))}
          <RatePlots at={fleet.at} rates={data?.totals.rates} queue={data?.totals} />
          <Bizs rows={one.bizs} tenant={tenant} />
        </>
      )}
    </Shown>
  );
}

function Bizs({ rows, tenant }: { rows: BizState[]; tenant: string }) {
  return (
    <Table
      caption="Bizs, the late ones first, then those with most to do"
      empty="No biz is configured yet."
      rows={rows}
      id={(row) => `${row.tenant}/${row.biz}`}
      columns={[
        {
          head: "Biz",
          cell: (row) =>
            row.tenant === tenant ? (
              <a href={href(["b", row.biz, "jobs"])}>{row.biz}</a>
            ) : (
              `${row.tenant}/${row.biz}`
            ),
        },
        { head: "Queued", numeric: true, cell: (row) => number(row.queued) },
        { head: "Leased", numeric: true, cell: (row) => number(row.leased) },
        { head: "Delayed", numeric: true, cell: (row) => number(row.delayed) },
        { head: "Oldest", numeric: true, cell: (row) => span(row.queued ? row.oldest_seconds : null) },
        { head: "Per second", numeric: true, cell: (row) => number(row.rates?.processed["60s"]) },
        { head: "Dead", numeric: true, cell: (row) => number(row.dead) },
        { head: "Empty in", numeric: true, cell: (row) => (row.late ? <State of="late" /> : span(row.finish_seconds)) },
      ]}
    />
  );
}

function OwnBizs({ bizs }: { bizs: Biz[] }) {
  const [chosen, setChosen] = useState("");
  const biz = chosen || bizs[0]?.name;
  const stats = useLoad<Stats>(biz ? path([biz, "stats"]) : null, SECONDS);
  if (!biz) return <p class="empty">This tenant has no biz yet.</p>;
  return (
    <section>
      <label class="inline">
        <span>Figures of the biz</span>
        <select value={biz} onChange={(event) => setChosen(event.currentTarget.value)}>
          {bizs.map((one) => (
            <option key={one.name} value={one.name}>
              {one.name}
            </option>
          ))}
        </select>
      </label>
      <Shown of={stats}>
        {(one) => (
          <>
            <dl class="figures">
              <Figure name="Backlog" value={number(one.queue.queued)} />
              <Figure name="In flight" value={number(one.queue.leased)} />
              <Figure name="Delayed" value={number(one.queue.delayed)} />
              <Figure name="Records" value={number(one.records)} />
            </dl>
            <Ledger of={{ submitted: one.submitted, ...one.states }} />
            <RatePlots key={biz} at={stats.at} rates={one.rates} queue={one.queue} />
          </>
        )}
      </Shown>
    </section>
  );
}

function OpenIncidents() {
  const open = useLoad<Page & { incidents: Incident[] }>("incidents?limit=5", 15);
  return (
    <section class="card">
      <h2>
        <a href={href(["incidents"])}>Open incidents</a>
      </h2>
      <Shown of={open}>
        {(page) =>
          page.incidents.length ? (
            <ul class="plain">
              {page.incidents.map((one) => (
                <li key={one.id}>
                  <State of={one.severity} /> {one.title}: {one.said} <small>since <Time at={one.since} /></small>
                </li>
              ))}
            </ul>
          ) : (
            <p class="empty">Nothing is wrong now.</p>
          )
        }
      </Shown>
    </section>
  );
}

function Money() {
  const costs = useLoad<Costs>("costs", 60);
  const [today] = useState(() => new Date().toISOString().slice(0, 10));
  return (
    <section class="card">
      <h2>Money</h2>
      <Shown of={costs}>
        {(one) => {
          const day = one.days.find((each) => each.day === today);
          return (
            <dl class="figures">
              <Figure name="Today (UTC)" value={money(day?.cost.usd ?? 0)} note={`${number(day?.cost.pages ?? 0)} pages`} />
              <Figure name={one.period} value={money(one.cost.usd)} note={`${number(one.cost.pages)} pages`} />
              <Figure name="1,000 pages" value={money(one.cost.per_1000_pages)} />
            </dl>
          );
        }}
      </Shown>
    </section>
  );
}
