// The fleet: pools, workers, hosts, parts; incidents; tenants.
import { type Session, useLoad } from "../api.ts";
import { NONE, number, percent, span } from "../format.ts";
import { Facts, Filters, Head, Pager, Shown, State, Table, Time } from "../parts.tsx";
import { href, path } from "../route.ts";
import type { Fleet, Host, Incident, Page, PartState, Pool, Worker } from "../types.ts";

export function FleetPage({ session, biz }: { session: Session; biz: string | undefined }) {
  return (
    <>
      <Head title="Fleet" />
      {session.operator && <Whole />}
      {biz ? <Workers biz={biz} /> : <p class="empty">Workers are seen by a biz, and there is none.</p>}
      {!session.operator && biz && <OwnHosts biz={biz} />}
    </>
  );
}

function Whole() {
  const fleet = useLoad<Fleet>("fleet", 10);
  return (
    <Shown of={fleet}>
      {(one) => (
        <>
          <Pools rows={one.pools} />
          <Hosts rows={one.hosts} />
          <Parts rows={one.parts} />
        </>
      )}
    </Shown>
  );
}

function Pools({ rows }: { rows: Pool[] }) {
  return (
    <section>
      <h2>Pools</h2>
      <Table
        caption="Workers by pool, and what the autoscaler wants"
        empty="There is no pool."
        rows={rows}
        id={(row) => row.name}
        columns={[
          { head: "Pool", cell: (row) => row.name },
          { head: "Alive", numeric: true, cell: (row) => number(row.alive) },
          { head: "Busy", numeric: true, cell: (row) => number(row.busy) },
          { head: "Idle", numeric: true, cell: (row) => number(row.idle) },
          { head: "Suspected", numeric: true, cell: (row) => number(row.suspected) },
          { head: "Dead", numeric: true, cell: (row) => number(row.dead) },
          { head: "Wanted", numeric: true, cell: (row) => number(row.wanted) },
          { head: "At most", numeric: true, cell: (row) => number(row.allowed) },
          { head: "Done", numeric: true, cell: (row) => number(row.done) },
          { head: "Failed", numeric: true, cell: (row) => number(row.failed) },
        ]}
      />
    </section>
  );
}

function Workers({ biz }: { biz: string }) {
  const workers = useLoad<{ workers: Worker[] }>(path([biz, "workers"]), 10);
  return (
    <section>
      <h2>Workers</h2>
      <Shown of={workers}>
        {(one) => (
          <Table
            caption={`Workers, and what they hold of ${biz}`}
            empty="No worker runs now: they start when there is work."
            rows={one.workers}
            id={(row) => row.worker}
            columns={[
              { head: "Worker", cell: (row) => <code>{row.worker}</code> },
              { head: "Health", cell: (row) => <State of={row.health} /> },
              { head: "Pool", cell: (row) => row.pool },
              { head: "Silent for", numeric: true, cell: (row) => span(row.silent_seconds) },
              { head: "Holds", numeric: true, cell: (row) => number(row.held) },
              { head: "Done", numeric: true, cell: (row) => number(row.done) },
              { head: "Failed", numeric: true, cell: (row) => number(row.failed) },
              { head: "Since", cell: (row) => <Time at={row.since} /> },
              { head: "Version", cell: (row) => row.version || NONE },
            ]}
          />
        )}
      </Shown>
    </section>
  );
}

function OwnHosts({ biz }: { biz: string }) {
  const hosts = useLoad<{ hosts: Host[] }>(path([biz, "hosts"]), 10);
  return <Shown of={hosts}>{(one) => <Hosts rows={one.hosts} />}</Shown>;
}

function Hosts({ rows }: { rows: Host[] }) {
  return (
    <section>
      <h2>Hosts</h2>
      <Table
        caption="Hosts of the last two minutes, the worst first"
        empty="No host was asked in the last two minutes."
        rows={rows}
        id={(row) => row.host}
        columns={[
          { head: "Host", cell: (row) => row.host },
          { head: "Slows us", cell: (row) => (row.throttled ? <State of="late" /> : "no") },
          { head: "Backs off until", cell: (row) => <Time at={row.backing_off_until} /> },
          { head: "Between requests", numeric: true, cell: (row) => span(row.interval_seconds) },
          { head: "Succeed", numeric: true, cell: (row) => percent(row.success_share) },
          { head: "Answers in", numeric: true, cell: (row) => span(row.latency_seconds) },
          { head: "Running", numeric: true, cell: (row) => number(row.running) },
          { head: "Waiting", numeric: true, cell: (row) => number(row.waiting) },
        ]}
      />
    </section>
  );
}

function Parts({ rows }: { rows: PartState[] }) {
  return (
    <section>
      <h2>Stores</h2>
      <Table
        caption="Redis and the nodes of MongoDB"
        empty="No store is known."
        rows={rows}
        id={(row) => `${row.part}/${row.name}`}
        columns={[
          { head: "Store", cell: (row) => `${row.part} ${row.name === row.part ? "" : row.name}` },
          { head: "State", cell: (row) => <State of={row.up ? "up" : "down"} /> },
          { head: "Problem", cell: (row) => row.problem ?? NONE },
          { head: "Answers in", numeric: true, cell: (row) => span(row.figures["Latency"]) },
          { head: "Connections", numeric: true, cell: (row) => number(row.figures["Connections"]) },
          {
            head: "Full",
            numeric: true,
            cell: (row) => percent(row.figures["MemoryRatio"] ?? row.figures["StorageRatio"]),
          },
        ]}
      />
    </section>
  );
}

export function Incidents({ query }: { query: Record<string, string> }) {
  const list = useLoad<Page & { incidents: Incident[] }>(path(["incidents"], { ...query, limit: 50 }), 15);
  return (
    <>
      <Head title="Incidents" />
      <Filters parts={["incidents"]} query={query} fields={[{ name: "state", label: "Which", values: ["open", "all"] }]} />
      <Shown of={list}>
        {(page) => (
          <>
            {page.incidents.length === 0 && (
              <p class="empty">{query["state"] === "all" ? "There was none in three months." : "Nothing is wrong now."}</p>
            )}
            {page.incidents.map((one) => (
              <article class="card" key={one.id}>
                <h2>
                  <State of={one.severity} /> {one.title}
                </h2>
                <p>{one.said}</p>
                {one.do && <p>{one.do}</p>}
                <Facts
                  rows={[
                    ["State", <State of={one.state} />],
                    ["Where", one.biz ? `${one.tenant}/${one.biz}` : [one.tenant, one.part, one.name].filter(Boolean).join(" ")],
                    ["Kind", one.kind],
                    ["Value", `${number(one.value)} (worst ${number(one.worst)}, must not exceed ${number(one.threshold)})`],
                    ["Since", <Time at={one.since} />],
                    ["Seen last", <Time at={one.found_at} />],
                    ["Over", <Time at={one.over_at} />],
                    ["Came back", number(one.returns)],
                  ]}
                />
              </article>
            ))}
            <Pager page={page} parts={["incidents"]} query={query} />
          </>
        )}
      </Shown>
    </>
  );
}

type Tenant = {
  name: string;
  operator: boolean;
  suspended: boolean;
  in_force: boolean;
  bizs: number;
  keys: number;
  share: number;
  ready: number;
  in_flight: number;
};

export function Tenants() {
  const list = useLoad<{ tenants: Tenant[] }>("fleet/tenants", 15);
  return (
    <>
      <Head title="Tenants" />
      <Shown of={list}>
        {(one) => (
          <Table
            caption="Tenants, and what they do now"
            empty="There is no tenant."
            rows={one.tenants}
            id={(row) => row.name}
            columns={[
              {
                head: "Tenant",
                cell: (row) => <a href={href(["configuration"], { path: `tenants/${row.name}` })}>{row.name}</a>,
              },
              { head: "State", cell: (row) => <State of={row.suspended ? "paused" : row.in_force ? "ok" : "waiting"} /> },
              { head: "Operator", cell: (row) => (row.operator ? "yes" : "no") },
              { head: "Bizs", numeric: true, cell: (row) => number(row.bizs) },
              { head: "Keys", numeric: true, cell: (row) => number(row.keys) },
              { head: "Share", numeric: true, cell: (row) => number(row.share) },
              { head: "Ready", numeric: true, cell: (row) => number(row.ready) },
              { head: "In flight", numeric: true, cell: (row) => number(row.in_flight) },
            ]}
          />
        )}
      </Shown>
    </>
  );
}
