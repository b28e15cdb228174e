// Schedules and spiders: what fires when, and what it starts.
import { send, useLoad } from "../api.ts";
import { NONE, number, span, time } from "../format.ts";
import { Act, Facts, Head, Shown, State, Table, Time } from "../parts.tsx";
import { href, path } from "../route.ts";
import type { Page, Runs, Schedule, Spider } from "../types.ts";

export function Schedules({ biz }: { biz: string }) {
  const schedules = useLoad<{ schedules: Schedule[] }>(path([biz, "schedules"]), 30);
  const spiders = useLoad<Page & { spiders: Spider[] }>(path([biz, "spiders"], { limit: 200 }));
  const parts = ["b", biz, "schedules"];
  return (
    <>
      <Head title={`Schedules of ${biz}`} />
      <Shown of={schedules}>
        {(one) => (
          <Table
            caption="Schedules by name, with their next runs"
            empty="Nothing is scheduled yet."
            rows={one.schedules}
            id={(row) => row.name}
            columns={[
              { head: "Schedule", cell: (row) => <a href={href([...parts, row.name])}>{row.name}</a> },
              { head: "State", cell: (row) => <State of={row.state} /> },
              { head: "Cron", cell: (row) => <code>{row.cron}</code> },
              { head: "Zone", cell: (row) => row.time_zone },
              { head: "Starts", cell: (row) => row.spider ?? row.rule ?? NONE },
              {
                head: "Parameters",
                cell: (row) => (Object.keys(row.values).length ? JSON.stringify(row.values) : NONE),
              },
              { head: "Next run", cell: (row) => <Time at={row.fire_at} /> },
              { head: "Last outcome", cell: (row) => row.last_outcome && <State of={row.last_outcome.outcome} /> },
            ]}
          />
        )}
      </Shown>
      <h2>Spiders</h2>
      <Shown of={spiders}>
        {(page) => (
          <Table
            caption="Rules and spiders of the biz document, then kept spiders"
            empty="There is no spider."
            rows={page.spiders}
            id={(row) => `${row.origin}/${row.name}`}
            columns={[
              { head: "Spider", cell: (row) => row.name },
              { head: "From", cell: (row) => row.origin },
              { head: "What", wide: true, cell: (row) => row.description || NONE },
              { head: "Executor", cell: (row) => row.executor ?? "rules" },
              { head: "Rule", cell: (row) => row.rule ?? NONE },
              {
                head: "",
                cell: (row) => (
                  <a
                    href={href(["b", biz, "jobs", "new"], {
                      [row.origin === "configuration" ? "rule" : "spider"]: row.name,
                    })}
                  >
                    Start {row.name}
                  </a>
                ),
              },
            ]}
          />
        )}
      </Shown>
    </>
  );
}

export function SchedulePage({ biz, name }: { biz: string; name: string }) {
  const at = [biz, "schedules", name];
  const schedule = useLoad<Schedule>(path(at), 15);
  const runs = useLoad<Runs>(path([...at, "next"]));
  const act = (verb: string, said: string) => async () => {
    await send("POST", path([...at, verb]));
    schedule.reload();
    runs.reload();
    return said;
  };
  return (
    <>
      <Head title={`Schedule ${name}`}>
        {schedule.data && (
          <>
            <Act
              label="Run now"
              ask={<p>A job of it starts now; its fire times stay as they are.</p>}
              act={act("run", "A job is started.")}
            />
            {schedule.data.state === "paused" ? (
              <Act label="Resume" act={act("resume", "It fires again.")} />
            ) : (
              <Act label="Pause" act={act("pause", "It fires no more until it is resumed.")} />
            )}
          </>
        )}
      </Head>
      <Shown of={schedule}>
        {(one) => (
          <Facts
            rows={[
              ["State", <State of={one.state} />],
              ["Cron", <code>{one.cron}</code>],
              ["Time zone", one.time_zone],
              ["Starts", one.spider ?? one.rule],
              ["URLs", one.urls.length ? number(one.urls.length) : ""],
              ["Parameters", Object.keys(one.values).length > 0 && JSON.stringify(one.values)],
              ["While one runs", one.overlap],
              ["Missed runs", one.missed],
              ["Version", number(one.version)],
              ["Last fired", <Time at={one.last_fired_at} />],
              ["Last outcome", one.last_outcome && `${one.last_outcome.outcome} ${one.last_outcome.why}`],
              [
                "Last job",
                one.last_outcome?.job && <a href={href(["b", biz, "jobs", one.last_outcome.job])}>{one.last_outcome.job}</a>,
              ],
            ]}
          />
        )}
      </Shown>
      <h2>Next runs</h2>
      <Shown of={runs}>
        {(one) => (
          <Table
            caption={`In ${one.time_zone}, and in your own zone`}
            empty="No run comes any more."
            rows={one.runs}
            id={(row) => row.fire_at}
            columns={[
              { head: one.time_zone, cell: (row) => time(row.fire_at, one.time_zone) },
              { head: "Yours", cell: (row) => <Time at={row.fire_at} /> },
              {
                head: "Clocks",
                cell: (row) =>
                  row.shift_seconds
                    ? `put ${row.shift_seconds > 0 ? "forward" : "back"} by ${span(Math.abs(row.shift_seconds))} before`
                    : NONE,
              },
            ]}
          />
        )}
      </Shown>
    </>
  );
}
